//! Tokens of a reply, in both directions.

use serde_json::{Value, json};

use super::object_of;
use crate::{Object, Usage};

/// Member with the sum, which a service may count in another way.
const TOTAL: &str = "total_tokens";

/// Reads the tokens of a Response; `None` if it has none. OpenAI's clients expect the counts of its
/// own API, so those are 0 if they are absent.
pub(super) fn read(usage: Option<&Value>) -> Option<Usage> {
    let usage = usage.filter(|usage| usage.is_object())?;
    let mut read = Usage {
        input: count(usage, "/input_tokens").unwrap_or_default(),
        cache_reads: Some(count(usage, "/input_tokens_details/cached_tokens").unwrap_or_default()),
        cache_writes: count(usage, "/input_tokens_details/cache_write_tokens"),
        output: count(usage, "/output_tokens").unwrap_or_default(),
        reasoning: Some(
            count(usage, "/output_tokens_details/reasoning_tokens").unwrap_or_default(),
        ),
        ..Usage::default()
    };
    if let Some(total) = count(usage, "/total_tokens").filter(|total| *total != read.total()) {
        read.extra.insert(TOTAL.to_owned(), total.into());
    }
    Some(read)
}

fn count(usage: &Value, pointer: &str) -> Option<u64> {
    usage.pointer(pointer).and_then(Value::as_u64)
}

/// Writes a `usage`. A count that is not known is 0, because OpenAI's clients require every count.
pub fn write(usage: &Usage) -> Object {
    let total = usage.extra.get(TOTAL).and_then(Value::as_u64);
    object_of([
        ("input_tokens", usage.input.into()),
        (
            "input_tokens_details",
            json!({
                "cached_tokens": usage.cache_reads.unwrap_or_default(),
                "cache_write_tokens": usage.cache_writes.unwrap_or_default(),
            }),
        ),
        ("output_tokens", usage.output.into()),
        ("output_tokens_details", json!({"reasoning_tokens": usage.reasoning.unwrap_or_default()})),
        (TOTAL, total.unwrap_or_else(|| usage.total()).into()),
    ])
}

#[cfg(test)]
mod tests {
    use airlock_json::object;

    use super::*;
    use crate::chat::read_usage;

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
            let found = Value::from(write(&read_usage(object(usage.clone()))));
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
    }

    #[test]
    fn every_count_is_read_and_a_total_that_is_not_the_sum_is_kept() {
        let mut usage = json!({
            "input_tokens": 7, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 12
        });
        let mut expected = Usage {
            input: 7,
            cache_reads: Some(3),
            cache_writes: Some(2),
            output: 5,
            reasoning: Some(4),
            ..Usage::default()
        };
        assert_eq!(read(Some(&usage)), Some(expected.clone()));
        usage["total_tokens"] = 13.into();
        expected.extra.insert("total_tokens".to_owned(), 13.into());
        assert_eq!(read(Some(&usage)), Some(expected.clone()));
        assert_eq!(Value::from(write(&expected)), usage);
        let most = json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX});
        let most = read(Some(&most)).expect("usage");
        assert_eq!((most.total(), most.cache_reads, most.reasoning), (u64::MAX, Some(0), Some(0)));
        assert_eq!((read(None), read(Some(&json!(null)))), (None, None));
    }
}
