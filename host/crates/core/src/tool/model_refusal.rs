//! Refusals of requests to models, and of their responses, by guards.

use std::fmt;

use super::{GuardAct, GuardDecision, GuardHook, HostCode, shown_reason};
use airlock_strings::{MAX_WORD_BYTES, cut};

/// Error of a request to a model that a guard denies or has failed on, or whose response it withholds. `Display` is
/// safe to show to callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRefusal {
    act: GuardAct,
    /// The reason with its code; empty if the guard has failed.
    reason: String,
}

impl ModelRefusal {
    /// Creates the error of a denial.
    pub fn denied(act: GuardAct, code: &str, reason: &str) -> Self {
        let code = cut(shown_reason(code), MAX_WORD_BYTES);
        Self { act, reason: format!("{} ({code})", shown_reason(reason)) }
    }

    /// Creates the error of a guard that has made no valid decision.
    pub fn failed(act: GuardAct) -> Self {
        Self { act, reason: String::new() }
    }

    /// Returns the code of the error for programs.
    pub fn code(&self) -> HostCode {
        match self.act.verdict {
            GuardDecision::Fail => HostCode::GuardFailed,
            _ => HostCode::GuardDenied,
        }
    }

    /// Returns the decision.
    pub fn act(&self) -> &GuardAct {
        &self.act
    }
}

impl fmt::Display for ModelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GuardAct { guard, hook, verdict, .. } = &self.act;
        let is_response = *hook == GuardHook::AfterModel;
        let what =
            if is_response { "the model's response is" } else { "the request to the model is" };
        match (verdict, is_response) {
            (GuardDecision::Fail, true) => {
                write!(f, "{what} withheld, because the guard {guard:?} failed")
            }
            (GuardDecision::Fail, false) => {
                write!(f, "{what} not sent, because the guard {guard:?} failed")
            }
            (_, true) => write!(f, "{what} withheld by the guard {guard:?}: {}", self.reason),
            (_, false) => write!(f, "{what} denied by the guard {guard:?}: {}", self.reason),
        }
    }
}

impl std::error::Error for ModelRefusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(hook: GuardHook, verdict: GuardDecision) -> GuardAct {
        GuardAct { guard: "secrets".into(), digest: "sha256:0".into(), hook, verdict }
    }

    #[test]
    fn a_refusal_names_the_guard_and_its_reason_on_one_line() {
        let denied = act(GuardHook::BeforeModel, GuardDecision::Deny);
        let denied = ModelRefusal::denied(denied, "card", "a\nb");
        let expected = r#"the request to the model is denied by the guard "secrets": a b (card)"#;
        assert_eq!((denied.to_string().as_str(), denied.code()), (expected, HostCode::GuardDenied));
        let withheld = act(GuardHook::AfterModel, GuardDecision::Deny);
        let withheld = ModelRefusal::denied(withheld, &"c".repeat(100), &"r".repeat(5_000));
        assert!(withheld.to_string().starts_with("the model's response is withheld by the guard"));
        assert!(withheld.to_string().len() < 1_300);
    }

    #[test]
    fn a_failure_tells_no_cause() {
        for (hook, expected) in [
            (GuardHook::BeforeModel, "the request to the model is not sent, because the guard"),
            (GuardHook::AfterModel, "the model's response is withheld, because the guard"),
        ] {
            let failed = ModelRefusal::failed(act(hook, GuardDecision::Fail));
            assert_eq!(failed.to_string(), format!("{expected} \"secrets\" failed"));
            assert_eq!(failed.code(), HostCode::GuardFailed);
        }
    }
}
