//! Tokens of requests: estimates before them, and the counts of providers after them.
//!
//! A provider's count is not trusted. What one request is charged is bounded:
//!
//! - A count of tokens above [`MAX_TOKENS`] counts as [`MAX_TOKENS`], and more tokens from the cache than
//!   tokens as all tokens. No model reads or writes more for one request.
//! - A count without any token is no count.
//! - Without a count, the whole reservation is charged, or the parts of the stream that were received if those
//!   are more. A request that was cut short after a count is charged that, and at least the estimate of its input.
//! - Money is the price of these tokens, in 128 bits; what does not fit 64 bits is the greatest number of
//!   64 bits. Counts of limits are saturated too, so that none becomes smaller by an overflow.

use airlock_core::model_control::{ModelRequest, TokenUsage};

/// Most tokens of a request, and most tokens of a response, that are charged. A provider may report
/// any number, and one response must not use up a limit by it. What a request really uses is charged: the
/// longest context of a model has 10 million tokens, and 128 choices may have 262,144 each.
pub const MAX_TOKENS: u64 = 1 << 25;
/// Tokens of each choice of a response that are reserved if the request sets no maximum.
pub const UNDECLARED_OUTPUT: u64 = 16_384;
/// Bytes of text in one token. English has four, and many languages fewer.
const BYTES_OF_TOKEN: u64 = 3;

/// Tokens that a request may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenEstimate {
    /// The greatest expected number.
    pub(crate) most: TokenUsage,
    /// The number without which the request is not sent: of a request that sets a maximum, all of it, so
    /// that it does not exceed the limit. The response to another one may exceed what is left.
    pub(crate) least: TokenUsage,
    /// The input alone.
    pub(crate) input: TokenUsage,
}

impl TokenEstimate {
    pub(crate) fn new(request: &ModelRequest<'_>) -> Self {
        let bytes = u64::try_from(request.bytes).unwrap_or(u64::MAX);
        let input = bytes.div_ceil(BYTES_OF_TOKEN).clamp(1, MAX_TOKENS);
        let input = TokenUsage { input, ..TokenUsage::default() };
        let of_choice = request.max_output_tokens;
        let [most, least] = [of_choice.unwrap_or(UNDECLARED_OUTPUT), of_choice.unwrap_or(1)]
            .map(|output| output.saturating_mul(request.choices).min(MAX_TOKENS));
        Self {
            most: TokenUsage { output: most, ..input },
            least: TokenUsage { output: least, ..input },
            input,
        }
    }
}

/// Returns a count of tokens as far as it is possible.
pub(crate) fn clamped(usage: &TokenUsage) -> TokenUsage {
    let input = usage.input.min(MAX_TOKENS);
    let output = usage.output.min(MAX_TOKENS);
    TokenUsage {
        input,
        cached_input: usage.cached_input.min(input),
        output,
        reasoning: usage.reasoning.min(output),
    }
}

/// Returns the number of tokens of a count.
pub(crate) fn total(usage: &TokenUsage) -> u64 {
    let TokenUsage { input, output, .. } = clamped(usage);
    input + output
}

/// Returns whether a count tells something.
pub(crate) fn is_told(usage: &TokenUsage) -> bool {
    usage.input > 0 || usage.output > 0
}

#[cfg(test)]
mod tests {
    use airlock_core::{door::Membership, model_control::ServiceTier, tenant::Tenant};

    use super::*;

    fn estimate(bytes: usize, max_output_tokens: Option<u64>) -> TokenEstimate {
        estimate_of(bytes, 1, max_output_tokens)
    }

    fn estimate_of(bytes: usize, choices: u64, max_output_tokens: Option<u64>) -> TokenEstimate {
        TokenEstimate::new(&ModelRequest {
            tenant: &Tenant::ANONYMOUS,
            membership: &Membership::default(),
            model: "m",
            fallbacks: &[],
            bytes,
            choices,
            max_output_tokens,
            tier: ServiceTier::Standard,
            is_streamed: false,
            tool_tokens: None,
        })
    }

    #[test]
    fn a_request_that_sets_a_maximum_needs_all_of_it() {
        let declared = estimate(301, Some(50));
        assert_eq!([total(&declared.most), total(&declared.least)], [151, 151]);
        assert_eq!(total(&declared.input), 101);
        let open = estimate(0, None);
        assert_eq!([total(&open.most), total(&open.least)], [1 + UNDECLARED_OUTPUT, 2]);
        let huge = estimate(usize::MAX, Some(u64::MAX));
        assert_eq!(total(&huge.most), 2 * MAX_TOKENS);
    }

    #[test]
    fn each_choice_needs_tokens_of_its_own() {
        let declared = estimate_of(300, 3, Some(50));
        assert_eq!([total(&declared.most), total(&declared.least)], [250, 250]);
        let open = estimate_of(300, 3, None);
        assert_eq!([total(&open.most), total(&open.least)], [100 + 3 * UNDECLARED_OUTPUT, 103]);
    }

    #[test]
    fn the_longest_context_and_the_most_choices_are_reserved_and_charged_in_full() {
        let output = 128 * 262_144;
        let declared = estimate_of(30_000_000, 128, Some(262_144));
        assert_eq!([total(&declared.most), total(&declared.least)], [10_000_000 + output; 2]);
        let usage = TokenUsage { input: 10_000_000, output, ..TokenUsage::default() };
        assert_eq!(clamped(&usage), usage);
    }

    #[test]
    fn counts_that_are_not_possible_are_cut_to_those_that_are() {
        let lie =
            TokenUsage { input: 5, cached_input: u64::MAX, output: u64::MAX, reasoning: u64::MAX };
        let cut =
            TokenUsage { input: 5, cached_input: 5, output: MAX_TOKENS, reasoning: MAX_TOKENS };
        assert_eq!(clamped(&lie), cut);
        assert_eq!(total(&lie), MAX_TOKENS + 5);
        let nothing = TokenUsage { cached_input: 7, reasoning: 7, ..TokenUsage::default() };
        assert!(!is_told(&nothing) && is_told(&lie));
    }
}
