//! Reasons that a schema cannot be used.

use super::limits::{
    MAX_COMPILED_BYTES, MAX_COPIES, MAX_DEPTH, MAX_EVALUATIONS, MAX_NESTING, MAX_PATTERN_BYTES,
    MAX_PATTERNS, MAX_SCHEMA_BYTES, MAX_SUBSCHEMAS,
};

/// Reason that a schema cannot be used, and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {which}: {place}: {problem}", if self.is_unbounded() { "nothing can be checked against the" } else { "invalid" })]
pub struct BadSchema {
    /// Name of the schema: `inputSchema` or `outputSchema`.
    pub which: &'static str,
    /// Place in the schema, as `#` and a JSON pointer.
    pub place: String,
    /// The problem at that place.
    pub problem: Problem,
}

impl BadSchema {
    /// Returns whether the schema is too large or too recursive to check values against it. Such a
    /// schema may be valid; it is not examined further.
    pub fn is_unbounded(&self) -> bool {
        matches!(
            self.problem,
            Problem::TooLarge { .. }
                | Problem::TooDeep
                | Problem::TooManySubschemas
                | Problem::TooManyPatterns
                | Problem::TooNested
                | Problem::TooManyEvaluations
                | Problem::TooEntangled
                | Problem::LongPattern { .. }
                | Problem::TooMuchWork
        )
    }
}

/// Problem of a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text of the schema is too large.
    #[error("{found} bytes; the limit is {MAX_SCHEMA_BYTES}")]
    TooLarge {
        /// Size of the schema, in bytes.
        found: usize,
    },
    /// The schema is nested too deeply.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The schema has too many subschemas.
    #[error("more than {MAX_SUBSCHEMAS} subschemas")]
    TooManySubschemas,
    /// The draft is not known, or a subschema names another one.
    #[error(
        "\"$schema\" is {0:?}, expected one JSON Schema draft from 4 to 2020-12 for the whole document"
    )]
    Dialect(String),
    /// A part of the document has an identifier, which makes it a document of its own.
    #[error("an identifier inside the document ({0:?}) changes what references mean; leave it out")]
    InnerIdentifier(String),
    /// A reference leads out of the document.
    #[error(
        "the reference {0:?} leaves the document; only references that start with \"#\" are followed"
    )]
    OutsideReference(String),
    /// A reference has no target in the document.
    #[error("nothing is at the reference {0:?}")]
    DanglingReference(String),
    /// Too many subschemas apply inside each other to one value.
    #[error(
        "more than {limit} subschemas inside each other for one value; does a reference lead back to itself?",
        limit = MAX_NESTING
    )]
    TooNested,
    /// The subschemas of one value multiply.
    #[error("one value would be evaluated more than {limit} times", limit = MAX_EVALUATIONS)]
    TooManyEvaluations,
    /// The references that `unevaluated` keywords follow multiply.
    #[error("more than {limit} subschemas would be compiled for \"unevaluated\" keywords", limit = MAX_COPIES)]
    TooEntangled,
    /// A pattern cannot be matched in linear time, is not valid, or is too large when compiled.
    #[error("the pattern {0:?} is not a regular expression that can be matched in linear time within {kib} KiB", kib = MAX_COMPILED_BYTES >> 10)]
    Pattern(String),
    /// A pattern is too long to be parsed.
    #[error("a pattern of {found} bytes; the limit is {limit}", limit = MAX_PATTERN_BYTES)]
    LongPattern {
        /// Length of the pattern, in bytes.
        found: usize,
    },
    /// Compiling the schema takes more work than is left for it.
    #[error("its patterns and \"unevaluated\" keywords take too much work to compile")]
    TooMuchWork,
    /// The schema has too many different patterns.
    #[error("more than {limit} different patterns", limit = MAX_PATTERNS)]
    TooManyPatterns,
    /// The document is not a valid schema, or cannot be compiled.
    #[error("{0}")]
    Invalid(String),
}

/// A problem with its place in the schema.
pub(super) type Misplaced = (String, Problem);
