//! JSON Schema: a value is checked against a schema where both may have been written to do harm.
//!
//! The crate that does the checking takes any schema and any value and returns when it is done.
//! What it then does was seen with `jsonschema` 0.60.2: a reference that leads back to itself
//! without a step into the value counts as satisfied, which is no answer; `anyOf: [b, b]` with `b`
//! of the same form doubles the work with each level (0.85 s at 26 levels, for the value `1`);
//! collecting the errors of a recursion with two branches doubles it with each level of the value
//! (13 s and gigabytes at 20); `uniqueItems` compares each item with all others where numbers above
//! 2⁵³ make hashes collide (0.4 s for 400 KB); and a schema within its limits recurses over a
//! megabyte deep while it is compiled. So a schema is first read as a graph of what meets which
//! value ([`graph`]), its costs are summed up ([`cost`]), and what cannot be bounded is refused
//! when it is loaded; each value is then priced before it is looked at ([`price`]).
//!
//! `format` is an annotation, as 2020-12 has it by default, and so are the `content` keywords.
//! References stay within the document. This module does not know which tools its schemas belong
//! to.

mod cost;
mod document;
mod graph;
mod pattern;
mod place;
mod price;
mod violations;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

pub use self::violations::{Violation, Violations};
use self::{cost::Costs, document::Document, graph::Graph};
use crate::{json::JsonText, text::cut};

/// The largest schema, as JSON text.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// The deepest nesting of a schema, and of a value that is checked. The outermost value is at depth
/// 0.
pub const MAX_DEPTH: usize = 64;
/// The most subschemas that a document may have within reach.
pub const MAX_SUBSCHEMAS: usize = 4_096;
/// What a compiled subschema takes, about.
const SUBSCHEMA_BYTES: usize = 512;
/// Text of the schema or the value that is shown in an error, in bytes.
const MAX_SHOWN: usize = 120;
/// What the compiler of the crate may recurse through. 64 levels with a reference at the bottom of
/// each, eight of which it follows on the stack, were seen to take less than two megabytes.
const COMPILER_STACK_BYTES: usize = 8 << 20;

/// A schema that values are checked against. Checking holds no lock and allocates nothing for a
/// value that fits.
pub struct CompiledSchema {
    validator: Validator,
    costs: Costs,
    /// What errors are explained with.
    document: Value,
    bytes: usize,
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {which} cannot be used: {place}: {problem}")]
pub struct BadSchema {
    /// What the schema is for: `inputSchema`, `outputSchema`.
    pub which: &'static str,
    /// Where in the schema, as a JSON pointer behind `#`.
    pub place: String,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Over [`MAX_SCHEMA_BYTES`].
    #[error("{found} bytes, the limit is {MAX_SCHEMA_BYTES}")]
    TooLarge {
        /// Its size.
        found: usize,
    },
    /// Over [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// Over [`MAX_SUBSCHEMAS`].
    #[error("more than {MAX_SUBSCHEMAS} subschemas")]
    TooManySubschemas,
    /// No draft that is known, or another one inside.
    #[error(
        "\"$schema\" is {0:?}, expected one JSON Schema draft from 4 to 2020-12 for the whole document"
    )]
    Dialect(String),
    /// Part of the document is a document of its own.
    #[error("an identifier inside the document ({0:?}) changes what references mean; leave it out")]
    InnerIdentifier(String),
    /// A reference to somewhere else.
    #[error(
        "the reference {0:?} leaves the document; only references that start with \"#\" are followed"
    )]
    OutsideReference(String),
    /// A reference to nothing.
    #[error("nothing is at the reference {0:?}")]
    DanglingReference(String),
    /// A subschema that applies itself to the value it is applied to.
    #[error("the subschema leads back to itself without going into the value")]
    Cycle,
    /// Subschemas inside each other, on one value.
    #[error("{found} subschemas apply inside each other to one value, the limit is {limit}")]
    TooNested {
        /// How many.
        found: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Subschemas that multiply.
    #[error("one value would be looked at {found} times, the limit is {limit}")]
    TooManyEvaluations {
        /// How often.
        found: u64,
        /// How often it may be.
        limit: u64,
    },
    /// Recursion that multiplies.
    #[error("a value {depth} levels down would be looked at {found} times, the limit is {limit}")]
    TooManyBranches {
        /// How deep.
        depth: usize,
        /// How often.
        found: u64,
        /// How often it may be.
        limit: u64,
    },
    /// It takes too long to find out.
    #[error("its subschemas are too entangled to tell what a check costs")]
    TooEntangled,
    /// A regular expression that takes too much.
    #[error("the pattern {0:?} is no regular expression that can be matched in linear time within {kib} KiB", kib = pattern::MAX_COMPILED_BYTES >> 10)]
    Pattern(String),
    /// Too many regular expressions.
    #[error("more than {limit} different patterns", limit = pattern::MAX_PATTERNS)]
    TooManyPatterns,
    /// Not a schema.
    #[error("{0}")]
    Invalid(String),
}

impl CompiledSchema {
    /// Compiles `schema`, which stands for `which` in the error. It runs on a thread of its own,
    /// whose stack is large enough for any schema within the limits, and blocks until that has
    /// ended: some 0.1 ms for an ordinary schema.
    pub fn compile(which: &'static str, schema: &Value) -> Result<Self, BadSchema> {
        let bad = |(place, problem)| BadSchema { which, place, problem };
        let failed = |what: &str| bad(("#".into(), Problem::Invalid(what.to_owned())));
        thread::scope(|scope| {
            let compiler =
                thread::Builder::new().name("schema".into()).stack_size(COMPILER_STACK_BYTES);
            let compiler = compiler.spawn_scoped(scope, || compile(schema));
            let compiler = compiler.map_err(|_| failed("there is no thread to compile it on"))?;
            // The crate states its invariants as panics, and not all of them have been tried by
            // someone who wants them broken.
            compiler
                .join()
                .unwrap_or_else(|_| {
                    Err(("#".into(), Problem::Invalid("it breaks the compiler".into())))
                })
                .map_err(bad)
        })
    }

    /// Compiles a schema that is kept as text, as [`CompiledSchema::compile`] does.
    pub fn compile_text(which: &'static str, schema: &JsonText) -> Result<Self, BadSchema> {
        // Text that was rendered from a value is JSON, so it can only be too deep to be read again.
        let too_deep = |_| BadSchema { which, place: "#".into(), problem: Problem::TooDeep };
        Self::compile(which, &schema.to_value().map_err(too_deep)?)
    }

    /// Memory that the compiled schema takes at most, in bytes, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks a value. It takes at most some 50 ms, and a microsecond for what a model writes by
    /// hand; what would take longer is refused unseen.
    pub fn check(&self, instance: &Value) -> Result<(), Violations> {
        let price = self.costs.price(instance).map_err(Violations::unpriced)?;
        // As above: a broken invariant costs the call and no more.
        let checked = catch_unwind(AssertUnwindSafe(|| {
            if self.validator.is_valid(instance) {
                Ok(())
            } else if price.affords_errors {
                Err(violations::explain(
                    self.validator.iter_errors(instance),
                    &self.document,
                    instance,
                ))
            } else {
                Err(Violations::unexplained())
            }
        }));
        checked.unwrap_or_else(|_| Err(Violations::unexplained()))
    }
}

fn compile(schema: &Value) -> Result<CompiledSchema, graph::Misplaced> {
    let Document { draft, schema: document, bytes } = Document::read(schema)?;
    let graph = Graph::read(&document)?;
    let costs = Costs::of(&graph)?;
    let bytes = bytes + graph.nodes.len() * SUBSCHEMA_BYTES + graph.pattern_costs.bytes();
    let validator = options(draft).build(&document).map_err(|error| {
        let place = format!("#{}", error.instance_path());
        (cut(place, MAX_SHOWN), Problem::Invalid(cut(error.to_string(), MAX_SHOWN)))
    })?;
    Ok(CompiledSchema { validator, costs, document, bytes })
}

fn options(draft: Draft) -> jsonschema::ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(false)
        // Draft 7 would decode and parse what the value holds as text.
        .without_content_encoding_support("base64")
        .without_content_media_type_support("application/json")
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(pattern::MAX_COMPILED_BYTES)
                .dfa_size_limit(pattern::MAX_STATES_BYTES),
        )
        .offline()
}

impl std::fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledSchema").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
