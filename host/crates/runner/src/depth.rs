//! Bounds the nesting of values before they are written as text: writing one recurses, and the parser of an executor refuses
//! what nests deeper.

use serde_json::Value;

/// Returns whether a value has at most so many levels of arrays and objects.
pub(crate) fn nests_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => {
            levels > 0 && items.iter().all(|item| nests_within(item, levels - 1))
        }
        Value::Object(members) => {
            levels > 0 && members.values().all(|member| nests_within(member, levels - 1))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levels_are_those_of_arrays_and_objects() {
        assert!(nests_within(&json!("text"), 0));
        assert!(!nests_within(&json!([]), 0));
        assert!(nests_within(&json!([1, {"a": []}]), 3));
        assert!(!nests_within(&json!([1, {"a": []}]), 2));
    }
}
