//! Reasons of an end, tokens and probabilities, in the terms of the other APIs.

use serde_json::Value;

use crate::{FinishReason, Object, Usage, gemini::object_of, read::excerpt};

/// Reasons of a reply that failed, which is repeated or asked of another provider: the model wrote what
/// cannot be read, and chat would show it as an empty reply.
const FAILURES: [&str; 4] = [
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
];

/// Maximum number of the alternatives of a token; Gemini's maximum is 20. They are copied for each token.
const MAX_ALTERNATIVES: usize = 20;

/// Tokens of one reply. The counts of a stream are cumulative: each replaces an earlier one.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct TokenCounts {
    prompt: Option<u64>,
    /// Results of tools that ran at the provider.
    tools: Option<u64>,
    cached: Option<u64>,
    candidates: Option<u64>,
    thoughts: Option<u64>,
}

impl TokenCounts {
    /// Takes the counts that `usageMetadata` has.
    pub(super) fn update(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        self.prompt = count(usage, "promptTokenCount").or(self.prompt);
        self.tools = count(usage, "toolUsePromptTokenCount").or(self.tools);
        self.cached = count(usage, "cachedContentTokenCount").or(self.cached);
        self.candidates = count(usage, "candidatesTokenCount").or(self.candidates);
        self.thoughts = count(usage, "thoughtsTokenCount").or(self.thoughts);
    }

    /// Returns the usage; `None` if the provider did not count. `candidatesTokenCount` does not have
    /// the thoughts.
    pub(super) fn to_usage(self) -> Option<Usage> {
        let Self { prompt, tools, cached, candidates, thoughts } = self;
        prompt.or(tools).or(candidates).or(thoughts)?;
        Some(Usage {
            input: sum(prompt, tools),
            cache_reads: cached,
            output: sum(candidates, thoughts),
            reasoning: thoughts,
            ..Usage::default()
        })
    }
}

/// Adds two counts, of which an absent one is zero.
fn sum(a: Option<u64>, b: Option<u64>) -> u64 {
    a.unwrap_or(0).saturating_add(b.unwrap_or(0))
}

/// Returns the status of a reply that failed; `None` if the reason is that of an end.
pub(super) fn failure(native: &str) -> Option<u16> {
    match native {
        // The request has a call without its signature, so another attempt fails too.
        "MISSING_THOUGHT_SIGNATURE" => Some(400),
        _ => FAILURES.contains(&native).then_some(502),
    }
}

/// Returns the reason of an end; `None` if it is none. Reasons that a later version of the API adds
/// are a stop.
pub(super) fn finish_reason(native: &str) -> Option<FinishReason> {
    Some(match native {
        "FINISH_REASON_UNSPECIFIED" => return None,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "IMAGE_OTHER"
        | "NO_IMAGE"
        // The provider stopped for a reason that it does not tell.
        | "OTHER" => FinishReason::ContentFilter,
        // "STOP"
        _ => FinishReason::Stop,
    })
}

/// Returns a sentence about a prompt that was blocked; `None` if it was not.
pub(super) fn block_reason(response: &Object) -> Option<String> {
    let feedback = response.get("promptFeedback")?;
    let reason = text(feedback, "blockReason")?;
    let message = text(feedback, "blockReasonMessage").map(str::to_owned);
    Some(message.unwrap_or_else(|| format!("Gemini blocked the prompt: {}.", excerpt(reason))))
}

/// Returns a member that is a text; `None` if it is empty.
fn text<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns a member that is a count.
fn count(usage: &Value, name: &str) -> Option<u64> {
    usage.get(name).and_then(Value::as_u64)
}

/// Returns the `logprobs` of a choice for a `logprobsResult`; `None` if it has no tokens. Takes their
/// number from `tokens_left`; tokens beyond it are left out.
pub(super) fn logprobs(result: &Value, tokens_left: &mut usize) -> Option<Value> {
    let chosen = result.get("chosenCandidates")?.as_array()?;
    let top = result.get("topCandidates").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let tokens = chosen.iter().take(*tokens_left).enumerate().filter_map(|(place, token)| {
        let mut token = token_of(token)?;
        let others = top.get(place).and_then(|top| top.get("candidates")?.as_array());
        let others = others.into_iter().flatten().take(MAX_ALTERNATIVES).filter_map(token_of);
        let others: Vec<_> = others.map(Value::Object).collect();
        token.insert("top_logprobs".to_owned(), others.into());
        Some(Value::Object(token))
    });
    let tokens: Vec<_> = tokens.collect();
    *tokens_left -= tokens.len();
    let members = [("content", tokens.into()), ("refusal", Value::Null)];
    Some(object_of(members).into())
}

/// Returns a token in the form of chat; `None` if it has no text. A list of anything else would become
/// much larger.
fn token_of(candidate: &Value) -> Option<Object> {
    let text = candidate.get("token")?.as_str()?;
    let logprob = candidate.get("logProbability").filter(|value| value.is_number());
    Some(object_of([
        ("token", text.into()),
        ("logprob", logprob.cloned().unwrap_or_else(|| 0.into())),
        ("bytes", Value::Null),
    ]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_reason_is_an_end_or_a_failure() {
        for native in [
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "OTHER",
        ] {
            assert_eq!(finish_reason(native), Some(FinishReason::ContentFilter), "{native}");
            assert_eq!(failure(native), None, "{native}");
        }
        for (native, reason) in [
            ("STOP", Some(FinishReason::Stop)),
            ("MAX_TOKENS", Some(FinishReason::Length)),
            ("OF_A_LATER_VERSION", Some(FinishReason::Stop)),
            ("FINISH_REASON_UNSPECIFIED", None),
        ] {
            assert_eq!((finish_reason(native), failure(native)), (reason, None), "{native}");
        }
        for native in FAILURES {
            assert_eq!(failure(native), Some(502), "{native}");
        }
        assert_eq!(failure("MISSING_THOUGHT_SIGNATURE"), Some(400));
    }

    #[test]
    fn later_counts_replace_earlier_ones_and_thoughts_are_part_of_the_output() {
        let mut tokens = TokenCounts::default();
        tokens.update(None);
        tokens.update(Some(&json!("odd")));
        assert_eq!(tokens.to_usage(), None);
        tokens.update(Some(&json!({"promptTokenCount": 10, "candidatesTokenCount": 1})));
        tokens.update(Some(&json!({
            "candidatesTokenCount": 5, "thoughtsTokenCount": 20, "cachedContentTokenCount": 4,
            "toolUsePromptTokenCount": 2, "totalTokenCount": 37
        })));
        let expected = Usage {
            input: 12,
            cache_reads: Some(4),
            output: 25,
            reasoning: Some(20),
            ..Usage::default()
        };
        assert_eq!(tokens.to_usage(), Some(expected));
        tokens.update(Some(&json!({
            "promptTokenCount": u64::MAX, "thoughtsTokenCount": u64::MAX
        })));
        let usage = tokens.to_usage().expect("counts");
        assert_eq!((usage.input, usage.output), (u64::MAX, u64::MAX));
    }

    #[test]
    fn probabilities_have_the_form_of_chat() {
        let result = json!({
            "topCandidates": [{"candidates": [
                {"token": "a", "tokenId": 1, "logProbability": -0.5},
                {"token": "b", "tokenId": 2, "logProbability": -1.5}
            ]}],
            "chosenCandidates": [
                {"token": "a", "tokenId": 1, "logProbability": -0.5}, {"token": "c"}
            ]
        });
        assert_eq!(
            logprobs(&result, &mut 9),
            Some(json!({
                "content": [
                    {"token": "a", "logprob": -0.5, "bytes": null, "top_logprobs": [
                        {"token": "a", "logprob": -0.5, "bytes": null},
                        {"token": "b", "logprob": -1.5, "bytes": null}
                    ]},
                    {"token": "c", "logprob": 0, "bytes": null, "top_logprobs": []}
                ],
                "refusal": null
            }))
        );
        assert_eq!(logprobs(&json!({"chosenCandidates": null}), &mut 9), None);
    }

    #[test]
    fn tokens_without_a_text_and_those_beyond_the_limit_are_left_out() {
        let tokens = json!([0, {}, {"token": 1}, {"token": "a"}, {"token": "b"}, {"token": "c"}]);
        let result =
            json!({"chosenCandidates": tokens, "topCandidates": [0, 0, 0, {"candidates": tokens}]});
        for (limit, texts, left) in
            [(9, vec!["a", "b", "c"], 6), (5, vec!["a", "b"], 3), (0, vec![], 0)]
        {
            let mut tokens_left = limit;
            let found = logprobs(&result, &mut tokens_left).expect("tokens");
            let found = found["content"].as_array().expect("a list");
            let names: Vec<_> = found.iter().map(|token| &token["token"]).collect();
            assert_eq!((json!(names), tokens_left), (json!(texts), left));
            let others = found
                .first()
                .map_or(0, |token| token["top_logprobs"].as_array().map_or(0, Vec::len));
            assert_eq!(others, found.len().min(1) * 3);
        }
    }
}
