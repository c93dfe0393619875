//! Tokens and stop reasons of the Messages API in the terms of the other APIs.

use serde_json::Value;

use crate::{Delta, FinishReason, Usage};

/// Tier of service that both APIs name so.
const PRIORITY: &str = "priority";

/// Tokens of one message. The counts of a stream are cumulative: each replaces an earlier one.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct TokenUsage {
    input: Option<u64>,
    cache_writes: Option<u64>,
    cache_reads: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
    /// True if the message was written in the tier `priority`.
    is_priority: bool,
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
        if let Some(Value::String(tier)) = usage.get("service_tier") {
            self.is_priority = tier == PRIORITY;
        }
    }

    /// Returns the tier of service in the words of OpenAI's API; `None` for the standard one.
    pub(super) fn tier(self) -> Option<Delta> {
        self.is_priority.then(|| Delta::ServiceTier(PRIORITY.to_owned()))
    }

    /// Returns the usage of a reply. Tokens of the cache are part of its input: the Messages API documents
    /// the whole input as the sum of its three counts.
    pub(super) fn to_usage(self) -> Usage {
        let [input, writes, reads, output] =
            [self.input, self.cache_writes, self.cache_reads, self.output]
                .map(Option::unwrap_or_default);
        Usage {
            input: input.saturating_add(writes).saturating_add(reads),
            cache_reads: Some(reads),
            cache_writes: Some(writes),
            output,
            reasoning: self.thinking,
            ..Usage::default()
        }
    }
}

fn count(usage: &Value, name: &str) -> Option<u64> {
    usage.get(name).and_then(Value::as_u64)
}

/// Returns the reason of an end from the `stop_reason` and the `stop_sequence` of a message. Reasons that a
/// later version of the API adds are a stop.
pub(super) fn finish_reason(stop_reason: &str, stop_sequence: Option<&str>) -> FinishReason {
    match (stop_reason, stop_sequence) {
        // `pause_turn` ends a turn that is to be continued. Like the others, it marks an incomplete
        // response, and the length is the only reason that other APIs have for one.
        ("max_tokens" | "model_context_window_exceeded" | "pause_turn", _) => FinishReason::Length,
        ("tool_use", _) => FinishReason::ToolCalls,
        ("refusal", _) => FinishReason::ContentFilter,
        ("stop_sequence", Some(text)) => FinishReason::StopSequence(text.to_owned()),
        // "end_turn"
        _ => FinishReason::Stop,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_stop_reason_has_its_finish_reason() {
        for (stop, sequence, finish) in [
            ("end_turn", None, FinishReason::Stop),
            ("stop_sequence", None, FinishReason::Stop),
            ("stop_sequence", Some("END"), FinishReason::StopSequence("END".to_owned())),
            ("max_tokens", None, FinishReason::Length),
            ("model_context_window_exceeded", None, FinishReason::Length),
            ("pause_turn", None, FinishReason::Length),
            ("tool_use", Some("END"), FinishReason::ToolCalls),
            ("refusal", None, FinishReason::ContentFilter),
            ("of_a_later_version", None, FinishReason::Stop),
        ] {
            assert_eq!(finish_reason(stop, sequence), finish, "{stop}");
        }
    }

    #[test]
    fn tokens_of_the_cache_are_part_of_the_input_and_later_counts_replace_earlier_ones() {
        let mut tokens = TokenUsage::default();
        tokens.update(Some(&json!({
            "input_tokens": 10, "cache_creation_input_tokens": 200,
            "cache_read_input_tokens": 3000, "output_tokens": 1
        })));
        tokens.update(Some(&json!({
            "input_tokens": null, "output_tokens": 50,
            "output_tokens_details": {"thinking_tokens": 20}
        })));
        tokens.update(Some(&json!("odd")));
        tokens.update(None);
        let expected = Usage {
            input: 3210,
            cache_reads: Some(3000),
            cache_writes: Some(200),
            output: 50,
            reasoning: Some(20),
            ..Usage::default()
        };
        assert_eq!(tokens.to_usage(), expected);
    }

    #[test]
    fn a_tier_is_named_if_it_is_not_the_standard_one() {
        let mut tokens = TokenUsage::default();
        for (usage, tier) in [
            (json!({"service_tier": "standard"}), None),
            (json!({"service_tier": "priority"}), Some("priority")),
            (json!({"output_tokens": 1}), Some("priority")),
            (json!({"service_tier": "batch"}), None),
        ] {
            tokens.update(Some(&usage));
            let expected = tier.map(|tier| Delta::ServiceTier(tier.to_owned()));
            assert_eq!(tokens.tier(), expected, "{usage}");
        }
    }

    #[test]
    fn counts_beyond_every_number_do_not_overflow() {
        let mut tokens = TokenUsage::default();
        tokens.update(Some(&json!({"input_tokens": u64::MAX, "cache_read_input_tokens": 1})));
        assert_eq!(tokens.to_usage().input, u64::MAX);
    }
}
