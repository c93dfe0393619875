//! Token usage.

use serde_json::{Value, json};

use crate::{Object, object};

/// Returns the usage of a chat completion; `None` if a Response has none.
pub(super) fn to_chat(usage: Option<&Value>) -> Option<Object> {
    let usage = usage.filter(|usage| usage.is_object())?;
    let input = count(usage, "/input_tokens").unwrap_or_default();
    let output = count(usage, "/output_tokens").unwrap_or_default();
    let cached = count(usage, "/input_tokens_details/cached_tokens");
    let mut details = object(json!({"cached_tokens": cached.unwrap_or_default()}));
    if let Some(written) = count(usage, "/input_tokens_details/cache_write_tokens") {
        details.insert("cache_write_tokens".to_owned(), written.into());
    }
    let reasoning = count(usage, "/output_tokens_details/reasoning_tokens").unwrap_or_default();
    Some(object(json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": count(usage, "/total_tokens").unwrap_or_else(|| input.saturating_add(output)),
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    })))
}

fn count(usage: &Value, pointer: &str) -> Option<u64> {
    usage.pointer(pointer).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_its_name_in_chat_completions() {
        let usage = json!({
            "input_tokens": 7, "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 12
        });
        assert_eq!(
            to_chat(Some(&usage)).map(Value::from),
            Some(json!({
                "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12,
                "prompt_tokens_details": {"cached_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 4}
            }))
        );
        let most = json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX});
        assert_eq!(to_chat(Some(&most)).expect("usage")["total_tokens"], u64::MAX);
        assert_eq!((to_chat(None), to_chat(Some(&json!(null)))), (None, None));
    }
}
