//! The state of one request for a control of requests to models: whether a provider has begun it, and the
//! tokens that its response reports.

use std::sync::atomic::{AtomicBool, Ordering};

use airlock_conversation::Usage;
use airlock_core::model_control::TokenUsage;

/// Records if a provider may have worked for a request. An attempt that was refused at once does not count.
#[derive(Debug, Default)]
pub struct ProviderWork {
    has_begun: AtomicBool,
    has_others: AtomicBool,
}

impl ProviderWork {
    /// Returns whether a provider may have begun the request.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Returns whether a model may have begun the request that was asked before the last one.
    pub fn has_others(&self) -> bool {
        self.has_others.load(Ordering::Relaxed)
    }

    /// Notes that the next model is asked.
    pub(super) fn fall_back(&self) {
        self.has_others.store(self.has_begun(), Ordering::Relaxed);
    }

    /// Notes that an attempt begins. Noted before it is sent, because it may be dropped at any time. Returns
    /// whether an earlier one counts.
    pub(super) fn begin(&self) -> bool {
        self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// Takes an attempt back. `before` is the result of [`Self::begin`].
    pub(super) fn take_back(&self, before: bool) {
        self.has_begun.store(before, Ordering::Relaxed);
    }
}

/// Returns the tokens of a reply. A count that is negative, fractional or beyond 64 bits was read as 0. A part
/// is not more than the whole. `None` if the input is 0: every request has some, so the provider does not
/// count.
pub(super) fn counted(usage: &Usage) -> Option<TokenUsage> {
    let Usage { input, output, .. } = *usage;
    if input == 0 {
        return None;
    }
    Some(TokenUsage {
        input,
        cached_input: usage.cache_reads.unwrap_or_default().min(input),
        output,
        reasoning: usage.reasoning.unwrap_or_default().min(output),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_is_taken_back_leaves_the_state_before_it() {
        let work = ProviderWork::default();
        let before = work.begin();
        assert!(work.has_begun());
        work.take_back(before);
        assert!(!work.has_begun());
        work.begin();
        let before = work.begin();
        work.take_back(before);
        assert!(work.has_begun(), "the first attempt counts");
    }

    #[test]
    fn models_before_the_last_one_count_if_they_may_have_begun() {
        let work = ProviderWork::default();
        let before = work.begin();
        work.take_back(before);
        work.fall_back();
        work.begin();
        assert!(!work.has_others());
        work.fall_back();
        assert!(work.has_others());
    }

    #[test]
    fn parts_are_not_more_than_the_whole_and_a_count_without_input_is_none() {
        let usage = Usage {
            input: 10,
            cache_reads: Some(u64::MAX),
            output: 5,
            reasoning: Some(7),
            ..Usage::default()
        };
        let expected = TokenUsage { input: 10, cached_input: 10, output: 5, reasoning: 5 };
        assert_eq!(counted(&usage), Some(expected));
        let most = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!(counted(&most).map(|counted| counted.input), Some(u64::MAX));
        assert_eq!(counted(&Usage { output: 5, ..Usage::default() }), None);
    }
}
