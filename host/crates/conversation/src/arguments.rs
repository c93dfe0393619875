//! Arguments of a call as an object, which some APIs need.

use airlock_json::{self as json, Caps};

use super::Object;

/// Member that Anthropic's documentation on fine-grained tool streaming names for arguments of the
/// model that are not valid JSON.
pub(crate) const INVALID_JSON: &str = "INVALID_JSON";

/// Limit on the memory of the arguments of one call as a tree, which can take 150 times the bytes
/// of their text. The gateway refuses to run a call beyond the same limit.
const CAPS: Caps = Caps::memory(32 << 20);

/// Returns the arguments of a call as an object. A model can write arguments that are not one, for
/// example if its output was cut. They are wrapped and not refused, and so are those whose tree takes
/// more than 32 MiB: the conversation could not continue otherwise, and the model would not see its
/// mistake.
pub fn arguments_object(arguments: String) -> Object {
    if arguments.trim().is_empty() {
        return Object::new();
    }
    let checked = json::check(arguments.as_bytes(), &CAPS);
    match checked.ok().and_then(|_| serde_json::from_str(&arguments).ok()) {
        Some(object) => object,
        None => Object::from_iter([(INVALID_JSON.to_owned(), arguments.into())]),
    }
}

/// Returns the memory of the object that [`arguments_object`] returns, in bytes, without that of the
/// text.
pub fn arguments_bytes(arguments: &str) -> usize {
    json::check(arguments.as_bytes(), &CAPS).map_or(0, |cost| cost.tree_bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn arguments_that_are_no_object_are_wrapped() {
        let deep = "{\"a\":".repeat(200) + "1" + &"}".repeat(200);
        for (arguments, object) in [
            ("", json!({})),
            (" \n", json!({})),
            ("{\"b\": 1, \"a\": [null]}", json!({"b": 1, "a": [null]})),
            ("{\"cut\": \"o", json!({"INVALID_JSON": "{\"cut\": \"o"})),
            ("[1]", json!({"INVALID_JSON": "[1]"})),
            ("{} {}", json!({"INVALID_JSON": "{} {}"})),
            (&deep, json!({"INVALID_JSON": deep})),
        ] {
            assert_eq!(Value::from(arguments_object(arguments.to_owned())), object, "{arguments}");
        }
    }

    #[test]
    fn the_tree_of_arguments_is_counted_and_bounded() {
        let dense = |objects: usize| format!("{{\"a\":[{}0]}}", "{\"\":0},".repeat(objects));
        let within = dense(1_000);
        assert!(arguments_bytes(&within) > 10 * within.len());
        assert!(arguments_object(within).contains_key("a"));
        let beyond = dense(100_000);
        assert_eq!(arguments_bytes(&beyond), 0);
        assert_eq!(arguments_object(beyond.clone()).get(INVALID_JSON), Some(&beyond.into()));
    }
}
