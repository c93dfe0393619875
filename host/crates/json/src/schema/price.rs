//! Prices of the parts of an evaluation, in units of about 5 ns, and the size of a value.

use serde_json::Value;

/// Work of one evaluation, before the keywords.
pub(super) const EVALUATION: u64 = 4;
/// Work of a look-up of a member by name.
pub(super) const LOOKUP: u64 = 5;
/// Work of a `multipleOf`. Large floats are divided as fractions, which takes up to 5 µs, measured.
pub(super) const MULTIPLE_OF: u64 = 1_000;
/// Bytes of text that are compared, hashed or counted in one unit of work.
pub(super) const TEXT_BYTES: usize = 32;

/// Returns the size of a value: one for each value in it, and one for every [`TEXT_BYTES`].
pub(super) fn extent(value: &Value) -> u64 {
    1 + match value {
        Value::String(string) => text_units(string),
        Value::Array(items) => items.iter().map(extent).sum(),
        Value::Object(members) => {
            members.iter().map(|(key, member)| text_units(key) + extent(member)).sum()
        }
        _ => 0,
    }
}

/// Returns the size of a text: one for every [`TEXT_BYTES`].
pub(super) fn text_units(text: &str) -> u64 {
    (text.len() / TEXT_BYTES) as u64
}
