//! JSON Schema: checks values against schemas. Both are untrusted and may be malicious.
//!
//! The crate `jsonschema` checks any value against any schema and has no limit on its work. With
//! version 0.60.2, these cases were measured:
//!
//! - A reference that leads back to itself without a step into the value counts as satisfied, which
//!   is not a correct result.
//! - `anyOf: [b, b]` with `b` of the same form doubles the work with each level: 0.85 s at 26
//!   levels, for the value `1`.
//! - Collecting the errors of a recursion with two branches doubles the work with each level of the
//!   value: 13 s and gigabytes at 20 levels.
//! - `uniqueItems` compares each item with all others if hashes collide, which numbers above 2⁵³
//!   cause: 0.4 s for 400 KB.
//! - An error inside `anyOf` holds a copy of its value, and `required` has an error for each missing
//!   name: a thousand names and a thousand members make a million copies.
//! - For an `unevaluated` keyword, the target of a reference is compiled again for each path that
//!   leads there, which doubles the time with each level of `allOf: [b, b]`.
//! - A schema within its limits uses more than a megabyte of stack while it is compiled.
//!
//! A check is therefore bounded by an expansion: the number of evaluations if every subschema that
//! a keyword can apply is applied, whether the check needs it or not.
//!
//! - When a schema is loaded, it is read as a graph of subschemas ([`graph`]), and the subschemas
//!   that meet one value are counted ([`expansion`]). If they are too many, nest too deeply or never
//!   end, the check has no bound and the schema is not compiled: [`BadSchema::is_unbounded`].
//! - Before a value is checked, it is walked with its subschemas ([`walk`]). Each evaluation takes
//!   its price from one budget. If the budget is used up, the value fails without a check. A
//!   second budget decides whether the errors of a value are collected.
//! - The work of compiling is counted before it is done ([`work`]): a pattern of 260 KB took
//!   gigabytes and half a minute in the parser of `regex`, whose limits apply after parsing.
//!
//! All assertions of the document's draft are checked. `format` is an annotation, as is the default
//! in 2020-12, and is not checked; nor are the `content` keywords. References must stay within the
//! document. A tool whose schema is unbounded can be offered without a check. Its source decides
//! that; this module does not know which tools its schemas belong to.

mod document;
mod expansion;
mod graph;
mod limits;
mod pattern;
mod place;
mod price;
mod problem;
mod subset;
mod violations;
mod walk;
mod work;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use self::{
    document::SchemaDocument,
    graph::{Graph, Node},
    limits::{MAX_COMPILED_BYTES, MAX_DEPTH, MAX_SHOWN, MAX_STATES_BYTES},
    problem::Misplaced,
    work::DocumentWork,
};
pub use self::{
    limits::{MAX_SCHEMA_BYTES, MAX_SOURCE_BYTES},
    problem::{BadSchema, Problem},
    subset::check_accepts_all,
    violations::{Violation, Violations},
    work::CompileWork,
};
use crate::JsonText;
use airlock_strings::cut;

/// Approximate memory of a subschema, compiled and as a node of the graph, in bytes.
const SUBSCHEMA_BYTES: usize = 512 + size_of::<Node>();
/// Memory of an application of a subschema, in bytes, with the name of a member.
const EDGE_BYTES: usize = 96;
/// Stack for the compiler of `jsonschema`, which recurses. A schema of 64 levels with a reference
/// at the bottom of each takes less than two megabytes, measured; the compiler follows eight of the
/// references on its stack.
const COMPILER_STACK_BYTES: usize = 8 << 20;

/// A compiled schema, which checks values. A check holds no lock, and allocates nothing for a value
/// that fits.
pub struct CompiledSchema {
    validator: Validator,
    /// The subschemas, for the walk over a value.
    nodes: Vec<Node>,
    /// The schema as a document, for the explanation of errors.
    document: Value,
    bytes: usize,
}

impl CompiledSchema {
    /// Compiles `schema`. An error names the schema by `which`. The compiler runs on a thread of
    /// its own, whose stack is large enough for every schema within the limits. Blocks until that
    /// thread ends: about 0.1 ms for an ordinary schema.
    pub fn compile(which: &'static str, schema: &Value) -> Result<Self, BadSchema> {
        Self::compile_within(which, schema, &mut CompileWork::of_documents(1))
    }

    fn compile_within(
        which: &'static str,
        schema: &Value,
        work: &mut CompileWork,
    ) -> Result<Self, BadSchema> {
        let mut own = work.next();
        let compiled = Self::compile_on_thread(which, schema, &mut own);
        work.spend(&own);
        compiled
    }

    fn compile_on_thread(
        which: &'static str,
        schema: &Value,
        work: &mut DocumentWork,
    ) -> Result<Self, BadSchema> {
        let compiled = thread::scope(|scope| {
            let compiler =
                thread::Builder::new().name("schema".into()).stack_size(COMPILER_STACK_BYTES);
            let compiler = compiler.spawn_scoped(scope, || compile(schema, work));
            let compiler = compiler.map_err(|_| invalid("there is no thread to compile it on"))?;
            // `jsonschema` panics if one of its invariants is violated, and a malicious schema may
            // violate one.
            compiler.join().unwrap_or_else(|_| Err(invalid("it breaks the compiler")))
        });
        compiled.map_err(|(place, problem)| BadSchema { which, place, problem })
    }

    /// Compiles a schema that is kept as text, like [`CompiledSchema::compile`].
    pub fn compile_text(which: &'static str, schema: &JsonText) -> Result<Self, BadSchema> {
        Self::compile_text_within(which, schema, &mut CompileWork::of_documents(1))
    }

    /// Compiles one of several schemas of a source, like [`CompiledSchema::compile_text`]. The work
    /// is taken from `work`, also if the schema cannot be used.
    pub fn compile_text_within(
        which: &'static str,
        schema: &JsonText,
        work: &mut CompileWork,
    ) -> Result<Self, BadSchema> {
        // The text was rendered from a value, so it is valid JSON. Parsing it can fail only if it
        // is nested too deeply.
        let schema = schema.to_value().map_err(|_| BadSchema {
            which,
            place: "#".into(),
            problem: Problem::TooDeep,
        })?;
        Self::compile_within(which, &schema, work)
    }

    /// Returns the approximate upper bound on the memory of the compiled schema, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether [`CompiledSchema::check`] takes at most about a millisecond or two for a value.
    /// Takes less itself.
    pub fn is_quick(&self, instance: &Value) -> bool {
        document::is_deeper(instance, MAX_DEPTH) || walk::is_quick(&self.nodes, instance)
    }

    /// Returns whether a value fits, if that is known within about a millisecond; false does not mean that it does not
    /// fit. Without errors to collect, it takes less than [`Self::is_quick`] and [`Self::check`] together.
    pub fn fits_quickly(&self, instance: &Value) -> bool {
        if document::is_deeper(instance, MAX_DEPTH)
            || !walk::affords_quick_check(&self.nodes, instance)
        {
            return false;
        }
        // As in `check`.
        catch_unwind(AssertUnwindSafe(|| self.validator.is_valid(instance))).unwrap_or(false)
    }

    /// Checks a value. Takes at most about 50 ms, twice that for one that does not fit, and about a
    /// microsecond for typical arguments from a model. Fails without a check if the check would take
    /// longer.
    pub fn check(&self, instance: &Value) -> Result<(), Violations> {
        if document::is_deeper(instance, MAX_DEPTH) {
            return Err(Violations::too_deep());
        }
        if !walk::affords_check(&self.nodes, instance) {
            return Err(Violations::too_large());
        }
        // A panic of `jsonschema` fails this call and nothing else.
        let checked = catch_unwind(AssertUnwindSafe(|| {
            if self.validator.is_valid(instance) {
                Ok(())
            } else if walk::affords_errors(&self.nodes, instance) {
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

fn invalid(reason: &str) -> Misplaced {
    ("#".into(), Problem::Invalid(reason.to_owned()))
}

fn compile(schema: &Value, work: &mut DocumentWork) -> Result<CompiledSchema, Misplaced> {
    let SchemaDocument { draft, schema: document, bytes } = SchemaDocument::read(schema)?;
    let mut graph = Graph::read(&document, work)?;
    let copies = expansion::expand(&mut graph)?;
    let compiled = graph.nodes.len() + copies;
    work.take(compiled as u64 * work::SUBSCHEMA).map_err(|problem| ("#".into(), problem))?;
    let Graph { nodes, pattern_bytes, edges, .. } = graph;
    let bytes = bytes + compiled * SUBSCHEMA_BYTES + edges * EDGE_BYTES + pattern_bytes;
    let validator = options(draft).build(&document).map_err(|error| {
        let place = format!("#{}", error.instance_path());
        (cut(place, MAX_SHOWN), Problem::Invalid(cut(error.to_string(), MAX_SHOWN)))
    })?;
    Ok(CompiledSchema { validator, nodes, document, bytes })
}

fn options(draft: Draft) -> jsonschema::ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(false)
        // Without this, draft 7 would decode and parse the texts of the value.
        .without_content_encoding_support("base64")
        .without_content_media_type_support("application/json")
        .with_pattern_options(
            PatternOptions::regex().size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_STATES_BYTES),
        )
        .offline()
}

airlock_strings::debug_fields!(CompiledSchema {});

#[cfg(test)]
mod tests;
