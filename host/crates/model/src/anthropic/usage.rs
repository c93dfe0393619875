//! Tokens and stop reasons of the Messages API in the terms of chat completions.

use serde_json::{Value, json};

use crate::{Object, object};

/// Tokens of one message. The counts of a stream are cumulative: each replaces an earlier one.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct TokenUsage {
    input: Option<u64>,
    cache_writes: Option<u64>,
    cache_reads: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl TokenUsage {
    /// Takes the counts that `usage` has.
    pub(super) fn update(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let details = usage.get("output_tokens_details");
        let thinking = details.and_then(|details| details.get("thinking_tokens")?.as_u64());
        self.input = count(usage, "input_tokens").or(self.input);
        self.cache_writes = count(usage, "cache_creation_input_tokens").or(self.cache_writes);
        self.cache_reads = count(usage, "cache_read_input_tokens").or(self.cache_reads);
        self.output = count(usage, "output_tokens").or(self.output);
        self.thinking = thinking.or(self.thinking);
    }

    /// Returns the usage of a chat completion. Tokens of the cache are part of `prompt_tokens`: the
    /// Messages API documents the whole input as the sum of its three counts. The native counts of
    /// the cache are kept, because their prices differ.
    pub(super) fn to_object(self) -> Object {
        let [input, writes, reads, output] =
            [self.input, self.cache_writes, self.cache_reads, self.output]
                .map(Option::unwrap_or_default);
        let prompt = input.saturating_add(writes).saturating_add(reads);
        let mut usage = object(json!({
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt.saturating_add(output),
            "prompt_tokens_details": {"cached_tokens": reads, "cache_write_tokens": writes},
            "cache_creation_input_tokens": writes,
            "cache_read_input_tokens": reads,
        }));
        if let Some(thinking) = self.thinking {
            let details = json!({"reasoning_tokens": thinking});
            usage.insert("completion_tokens_details".to_owned(), details);
        }
        usage
    }
}

fn count(usage: &Value, name: &str) -> Option<u64> {
    usage.get(name).and_then(Value::as_u64)
}

/// Returns the `finish_reason` of a `stop_reason`. Reasons that a later version of the API adds are
/// a `stop`.
pub(super) fn finish_reason(stop_reason: &str) -> &'static str {
    match stop_reason {
        // `pause_turn` ends a turn that is to be continued. Like the others, it marks an incomplete
        // response, and `length` is chat's only reason for one.
        "max_tokens" | "model_context_window_exceeded" | "pause_turn" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        // "end_turn", "stop_sequence"
        _ => "stop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stop_reason_has_its_finish_reason() {
        for (stop, finish) in [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("pause_turn", "length"),
            ("tool_use", "tool_calls"),
            ("refusal", "content_filter"),
            ("of_a_later_version", "stop"),
        ] {
            assert_eq!(finish_reason(stop), finish, "{stop}");
        }
    }

    #[test]
    fn tokens_of_the_cache_are_part_of_the_prompt_and_later_counts_replace_earlier_ones() {
        let mut usage = TokenUsage::default();
        usage.update(Some(&json!({
            "input_tokens": 10, "cache_creation_input_tokens": 200,
            "cache_read_input_tokens": 3000, "output_tokens": 1
        })));
        usage.update(Some(&json!({
            "input_tokens": null, "output_tokens": 50,
            "output_tokens_details": {"thinking_tokens": 20}
        })));
        usage.update(Some(&json!("odd")));
        usage.update(None);
        assert_eq!(
            Value::from(usage.to_object()),
            json!({
                "prompt_tokens": 3210, "completion_tokens": 50, "total_tokens": 3260,
                "prompt_tokens_details": {"cached_tokens": 3000, "cache_write_tokens": 200},
                "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000,
                "completion_tokens_details": {"reasoning_tokens": 20}
            })
        );
    }

    #[test]
    fn counts_beyond_every_number_do_not_overflow() {
        let mut usage = TokenUsage::default();
        usage.update(Some(&json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX})));
        assert_eq!(usage.to_object()["total_tokens"], u64::MAX);
    }
}
