//! The tokens in the member `usage` of a chat completion. They are read with its outline, without a tree.

use airlock_conversation::Usage;
use airlock_core::model_control::TokenUsage;

/// The member `usage`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageMember {
    #[default]
    Absent,
    Null,
    /// Its tokens, as [`counted`](crate::work::counted) returns them.
    Present(Option<TokenUsage>),
}

/// Numbers of tokens in a `usage` and in its details. A number that is negative, fractional or beyond 64 bits is `None`,
/// like one that is absent. Of two members of one name, the last one counts.
#[derive(Default, Clone, Copy)]
pub(super) struct TokenCounts {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    /// Details of the input.
    pub(super) cached_input: Option<u64>,
    /// Details of the output.
    pub(super) reasoning_output: Option<u64>,
    /// Anthropic's name of the tokens from the cache.
    pub(super) native_reads: Option<u64>,
    /// `DeepSeek`'s name of them.
    pub(super) cache_hits: Option<u64>,
}

impl From<TokenCounts> for Usage {
    /// Returns the tokens as [`read_usage`](airlock_conversation::chat::read_usage) reads them, without those
    /// that were written to a cache and without other members.
    fn from(counts: TokenCounts) -> Self {
        Self {
            input: counts.input.unwrap_or_default(),
            cache_reads: counts.cached_input.or(counts.native_reads).or(counts.cache_hits),
            output: counts.output.unwrap_or_default(),
            reasoning: counts.reasoning_output,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::{outline::tests::of_chunk, work::counted};
    use airlock_conversation::chat;

    /// Returns the `usage` of a chunk.
    fn read(usage: &str) -> UsageMember {
        let text = format!(r#"{{"choices":[],"usage":{usage}}}"#);
        of_chunk(&text).expect("an outline").usage
    }

    #[test]
    fn tokens_are_read_whatever_is_beside_them() {
        for (usage, input) in [
            (r#"{"prompt_tokens":7,"cost":0.5,"a":["x",{"b":null}]}"#, Some(7)),
            (r#"{"prompt\u005ftokens":7}"#, Some(7)),
            (r#"{"prompt_tokens":1,"prompt_tokens":7}"#, Some(7)),
            (r#"{"prompt_tokens":7,"prompt_tokens":null}"#, None),
            (r#"{"prompt_tokens":-7}"#, None),
            (r#"{"prompt_tokens":7.0}"#, None),
            (r#"{"prompt_tokens":18446744073709551615}"#, Some(u64::MAX)),
            (r#"{"prompt_tokens":18446744073709551616}"#, None),
            (r#"{"prompt_tokens":{"prompt_tokens":7}}"#, None),
            ("{}", None),
            ("[7]", None),
            ("7", None),
            ("true", None),
            (r#""7""#, None),
        ] {
            let expected =
                input.map(|input| TokenUsage { input, cached_input: 0, output: 0, reasoning: 0 });
            assert_eq!(read(usage), UsageMember::Present(expected), "{usage}");
        }
        assert_eq!(read("null"), UsageMember::Null);
        let without = of_chunk(r#"{"choices":[]}"#).expect("an outline");
        assert_eq!(without.usage, UsageMember::Absent);
    }

    fn usages() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            Just(json!("7")),
            Just(json!(0.5)),
            (-2..9_i64).prop_map(Value::from),
        ];
        let name = prop::sample::select(vec![
            "prompt_tokens",
            "completion_tokens",
            "prompt_tokens_details",
            "completion_tokens_details",
            "cache_read_input_tokens",
            "prompt_cache_hit_tokens",
            "cached_tokens",
            "reasoning_tokens",
            "other",
        ]);
        leaf.prop_recursive(3, 24, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..2).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..8).prop_map(|members| {
                    members
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect::<Value>()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_tokens_agree_with_those_of_the_tree(usage in usages()) {
            let tree = usage.as_object().cloned().map(chat::read_usage);
            let expected = match usage {
                Value::Null => UsageMember::Null,
                _ => UsageMember::Present(tree.and_then(|usage| counted(&usage))),
            };
            prop_assert_eq!(read(&usage.to_string()), expected);
        }
    }
}
