//! Bound of one check: a walk over the value with the subschemas that may evaluate it.
//!
//! The walk takes every step that a check can take: nothing fails and nothing is skipped, so all
//! branches of an `anyOf` are walked. Each evaluation has a price, and the walk ends when its budget
//! is used up.

use serde_json::Value;

use super::{
    graph::{Edge, Node},
    limits::{MAX_CHECK_WORK, MAX_ERROR_BYTES, MAX_NESTING},
    price::{LOOKUP, TEXT_BYTES, extent, text_units},
};

/// The most that a quick check may cost: a millisecond.
const QUICK_WORK: u64 = MAX_CHECK_WORK / 50;
/// The most memory of all errors of a quick check, in bytes: about a thousand of them.
const QUICK_ERROR_BYTES: u64 = MAX_ERROR_BYTES / 16;

/// Cost of the start of a match, in bytes of text.
const MATCH_START_BYTES: usize = 4;
/// The largest integer that has a hash of its own in `jsonschema`, which hashes integers as floats.
const EXACT: u64 = 1 << 53;
/// Memory of an error without its path and the value that it describes, in bytes.
const ERROR_BYTES: u64 = 512;
/// Least price of an evaluation whose errors are collected. It bounds their number to 20,000,
/// because `anyOf` and `oneOf` check each value again at each of their levels.
const EXPLANATION_BYTES: u64 = MAX_ERROR_BYTES / 20_000;
/// Bytes of an index and the slashes in the path of an error.
const STEP_BYTES: usize = 8;
/// Memory of a copied value for each unit of its [`extent`], in bytes.
const COPIED_BYTES: u64 = 128;

/// Returns whether the check of a value takes at most [`MAX_CHECK_WORK`] and nests at most
/// [`MAX_NESTING`] subschemas.
pub(super) fn affords_check(nodes: &[Node], value: &Value) -> bool {
    ValueWalk { nodes, price: work, left: MAX_CHECK_WORK }.affords(value)
}

/// Returns whether the check of a value takes at most [`QUICK_WORK`] and nests at most [`MAX_NESTING`] subschemas, if its
/// errors are not collected.
pub(super) fn affords_quick_check(nodes: &[Node], value: &Value) -> bool {
    ValueWalk { nodes, price: work, left: QUICK_WORK }.affords(value)
}

/// Returns whether the check of a value takes at most [`QUICK_WORK`], also if its errors are collected.
pub(super) fn is_quick(nodes: &[Node], value: &Value) -> bool {
    affords_quick_check(nodes, value)
        && ValueWalk { nodes, price: error_bytes, left: QUICK_ERROR_BYTES }.affords(value)
}

/// Returns whether all errors of a value may be collected. Errors inside `anyOf` and `oneOf` hold a
/// copy of the value that they describe.
pub(super) fn affords_errors(nodes: &[Node], value: &Value) -> bool {
    ValueWalk { nodes, price: error_bytes, left: MAX_ERROR_BYTES }.affords(value)
}

struct ValueWalk<'n> {
    nodes: &'n [Node],
    /// Price of an evaluation at a path of so many bytes.
    price: fn(&Node, Evaluated<'_>, u64) -> u64,
    left: u64,
}

/// Subject of an evaluation: a value, or a key of an object (`propertyNames`).
#[derive(Clone, Copy)]
enum Evaluated<'v> {
    Value(&'v Value),
    Key(&'v str),
}

/// The budget of a walk is used up.
struct Exhausted;

impl ValueWalk<'_> {
    fn affords(mut self, value: &Value) -> bool {
        self.evaluate(0, (Evaluated::Value(value), 0), 1, MAX_NESTING).is_ok()
    }

    /// Pays for `times` evaluations of a subject by a subschema, and by all subschemas that it
    /// applies. The subject has a path of so many bytes. Inside it, at most `nesting - 1` subschemas
    /// may nest.
    fn evaluate(
        &mut self,
        number: usize,
        (subject, path): (Evaluated<'_>, u64),
        times: u64,
        nesting: u64,
    ) -> Result<(), Exhausted> {
        let node = &self.nodes[number];
        let nesting = nesting.checked_sub(1).ok_or(Exhausted)?;
        let price = (self.price)(node, subject, path).saturating_mul(times);
        self.left = self.left.checked_sub(price).ok_or(Exhausted)?;
        let again = times.saturating_mul(node.repeats);
        for (edge, child) in &node.edges {
            match (edge, subject) {
                (Edge::Same | Edge::Reference, _) => {
                    self.evaluate(*child, (subject, path), again, nesting)?;
                }
                (Edge::Key, Evaluated::Value(Value::Object(members))) => {
                    for key in members.keys() {
                        self.evaluate(*child, (Evaluated::Key(key), path), times, nesting)?;
                    }
                }
                (Edge::Member(name), Evaluated::Value(Value::Object(members))) => {
                    if let Some(member) = members.get(name) {
                        let path = path + (name.len() + STEP_BYTES) as u64;
                        let member = Evaluated::Value(member);
                        self.evaluate(*child, (member, path), times, nesting)?;
                    }
                }
                (Edge::AnyMember, Evaluated::Value(Value::Object(members))) => {
                    for (key, member) in members {
                        let path = path + (key.len() + STEP_BYTES) as u64;
                        let member = Evaluated::Value(member);
                        self.evaluate(*child, (member, path), again, nesting)?;
                    }
                }
                (Edge::Item(index), Evaluated::Value(Value::Array(items))) => {
                    if let Some(item) = items.get(*index) {
                        let item = (Evaluated::Value(item), path + STEP_BYTES as u64);
                        self.evaluate(*child, item, times, nesting)?;
                    }
                }
                (Edge::AnyItem, Evaluated::Value(Value::Array(items))) => {
                    for item in items {
                        let item = (Evaluated::Value(item), path + STEP_BYTES as u64);
                        self.evaluate(*child, item, again, nesting)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the work of one evaluation, in units of about 5 ns.
fn work(node: &Node, subject: Evaluated<'_>, _: u64) -> u64 {
    let own = match subject {
        Evaluated::Key(key) => matched(key, node.pattern_cost),
        Evaluated::Value(Value::String(text)) => matched(text, node.pattern_cost),
        Evaluated::Value(Value::Array(items)) => {
            let compared = if node.is_unique { comparisons(items) } else { 0 };
            compared.saturating_add(items.len() as u64 * LOOKUP)
        }
        Evaluated::Value(Value::Object(members)) => members
            .keys()
            .map(|key| matched(key, node.key_pattern_cost).saturating_add(LOOKUP))
            .fold(0, u64::saturating_add),
        Evaluated::Value(_) => 0,
    };
    node.weight.saturating_add(own)
}

/// Returns the work of matching a text with patterns that cost `cost` for each byte.
fn matched(text: &str, cost: u64) -> u64 {
    let bytes = text.len() + MATCH_START_BYTES;
    cost.saturating_mul(bytes as u64).saturating_add(text_units(text))
}

/// Returns the work of `uniqueItems`. If the hashes of items can be made equal, each item is
/// compared with all others.
fn comparisons(items: &[Value]) -> u64 {
    let extent: u64 = items.iter().map(extent).sum();
    if items.iter().all(has_own_hash) { extent } else { extent.saturating_mul(items.len() as u64) }
}

/// Returns whether an attacker cannot easily choose the hash of a value. The hashes of arrays,
/// objects and integers above 2⁵³ can be made equal.
fn has_own_hash(value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::Number(number) => {
            number.is_f64()
                || number.as_i64().is_some_and(|integer| integer.unsigned_abs() <= EXACT)
        }
        _ => true,
    }
}

/// Returns the memory of all errors that one evaluation can have, in bytes, and at least
/// [`EXPLANATION_BYTES`]. Each error holds its path, and may hold a copy of the value.
/// `propertyNames` has an error for each key, which describes the whole object.
fn error_bytes(node: &Node, subject: Evaluated<'_>, path: u64) -> u64 {
    let keys = match subject {
        Evaluated::Value(Value::Object(members)) => members.len() as u64,
        _ => 0,
    };
    let errors = node.errors.saturating_add(node.errors_per_key.saturating_mul(keys));
    if errors == 0 {
        return EXPLANATION_BYTES;
    }
    let extent = match subject {
        Evaluated::Value(value) => extent(value),
        Evaluated::Key(key) => 1 + (key.len() / TEXT_BYTES) as u64,
    };
    let bytes = errors.saturating_mul(ERROR_BYTES + path + COPIED_BYTES * extent);
    bytes.max(EXPLANATION_BYTES)
}
