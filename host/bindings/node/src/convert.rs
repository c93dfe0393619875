//! Values as text for JavaScript.
//!
//! A number of JavaScript has 53 bits. A text with an integer beyond them begins with a mark; in it, such
//! an integer is a string with a prefix, and every other string has another prefix. `lib/values.js` reads
//! both forms.

use serde_json::{Number, Value};

/// Begins a text with marked strings. No JSON text begins with it.
const MARK: char = '~';
/// Prefix of an integer that has become a string.
const INTEGER: char = 'n';
/// Prefix of a string.
const TEXT: char = 't';
/// Largest integer that a number of JavaScript has exactly, with all below it.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// Writes a value.
pub(crate) fn to_text(value: &Value) -> String {
    if has_wide(value) { format!("{MARK}{}", marked(value)) } else { value.to_string() }
}

fn has_wide(value: &Value) -> bool {
    match value {
        Value::Number(number) => is_wide(number),
        Value::Array(items) => items.iter().any(has_wide),
        Value::Object(members) => members.values().any(has_wide),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

fn is_wide(number: &Number) -> bool {
    number.as_u64().is_some_and(|integer| integer > MAX_SAFE)
        || number.as_i64().is_some_and(|integer| integer.unsigned_abs() > MAX_SAFE)
}

fn marked(value: &Value) -> Value {
    match value {
        Value::Number(number) if is_wide(number) => Value::String(format!("{INTEGER}{number}")),
        Value::String(text) => Value::String(format!("{TEXT}{text}")),
        Value::Array(items) => items.iter().map(marked).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), marked(member))).collect()
        }
        other => other.clone(),
    }
}
