//! Translates token usage.

use serde_json::{Value, json};

/// Translates the `usage` of chat completions. A count that is absent is 0, and `total_tokens` the
/// sum, because OpenAI's clients require every count. Returns `null` if `usage` is not an object.
pub(super) fn to_responses(usage: &Value) -> Value {
    if !usage.is_object() {
        return Value::Null;
    }
    let input = count(usage, "/prompt_tokens").unwrap_or_default();
    let output = count(usage, "/completion_tokens").unwrap_or_default();
    json!({
        "input_tokens": input,
        "input_tokens_details": {
            "cached_tokens": count(usage, "/prompt_tokens_details/cached_tokens").unwrap_or_default(),
            "cache_write_tokens":
                count(usage, "/prompt_tokens_details/cache_write_tokens").unwrap_or_default(),
        },
        "output_tokens": output,
        "output_tokens_details": {
            "reasoning_tokens":
                count(usage, "/completion_tokens_details/reasoning_tokens").unwrap_or_default(),
        },
        "total_tokens": count(usage, "/total_tokens").unwrap_or_else(|| input.saturating_add(output)),
    })
}

fn count(usage: &Value, pointer: &str) -> Option<u64> {
    usage.pointer(pointer).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_has_every_count_that_clients_require() {
        for (usage, expected) in [
            (
                json!({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 13,
                    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
                    "completion_tokens_details": {"reasoning_tokens": 4}}),
                [7, 3, 2, 5, 4, 13],
            ),
            (json!({"prompt_tokens": 7, "completion_tokens": 5}), [7, 0, 0, 5, 0, 12]),
            (json!({"prompt_tokens": -1, "prompt_tokens_details": null}), [0; 6]),
            (
                json!({"prompt_tokens": u64::MAX, "completion_tokens": 1}),
                [u64::MAX, 0, 0, 1, 0, u64::MAX],
            ),
        ] {
            let found = to_responses(&usage);
            let counts = [
                "/input_tokens",
                "/input_tokens_details/cached_tokens",
                "/input_tokens_details/cache_write_tokens",
                "/output_tokens",
                "/output_tokens_details/reasoning_tokens",
                "/total_tokens",
            ]
            .map(|pointer| found.pointer(pointer).and_then(Value::as_u64).expect("a count"));
            assert_eq!(counts, expected, "{usage}");
        }
        assert_eq!(to_responses(&json!("many")), Value::Null);
    }
}
