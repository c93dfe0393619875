//! Token usage.

use serde_json::Value;

use crate::{Object, Usage};

/// Reads the tokens of a Response; `None` if it has none. OpenAI's clients expect the counts of its
/// own API, so those are 0 if they are absent.
pub(super) fn read(usage: Option<&Value>) -> Option<Usage> {
    let usage = usage.filter(|usage| usage.is_object())?;
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let mut read = Usage {
        input: count("/input_tokens").unwrap_or_default(),
        cache_reads: Some(count("/input_tokens_details/cached_tokens").unwrap_or_default()),
        cache_writes: count("/input_tokens_details/cache_write_tokens"),
        output: count("/output_tokens").unwrap_or_default(),
        reasoning: Some(count("/output_tokens_details/reasoning_tokens").unwrap_or_default()),
        extra: Object::new(),
    };
    if let Some(total) = count("/total_tokens").filter(|total| *total != read.total()) {
        read.extra.insert("total_tokens".to_owned(), total.into());
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            extra: Object::new(),
        };
        assert_eq!(read(Some(&usage)), Some(expected.clone()));
        usage["total_tokens"] = 13.into();
        expected.extra.insert("total_tokens".to_owned(), 13.into());
        assert_eq!(read(Some(&usage)), Some(expected));
        let most = json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX});
        let most = read(Some(&most)).expect("usage");
        assert_eq!((most.total(), most.cache_reads, most.reasoning), (u64::MAX, Some(0), Some(0)));
        assert_eq!((read(None), read(Some(&json!(null)))), (None, None));
    }
}
