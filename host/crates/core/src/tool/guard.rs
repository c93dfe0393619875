//! Errors of calls about which guards decide, and the decisions that are recorded.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use super::{
    CallError, Cause, Details, ErrorKind, HostCode, ToolName,
    guard_reason::{shown, shown_reason},
};

/// A decision of a guard that is recorded: one that has changed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardAct {
    /// Name of the guard in the configuration.
    pub guard: Arc<str>,
    /// Digest of its component: `sha256:` and hexadecimal; empty if it is not loaded.
    pub digest: Arc<str>,
    /// The hook that has decided.
    pub hook: GuardHook,
    /// The decision.
    pub verdict: GuardDecision,
}

/// Decisions of guards about one call, or about one request to a model with its response, that are recorded: each once,
/// in their order.
#[derive(Debug, Default)]
pub struct GuardActs(Mutex<Vec<GuardAct>>);

impl GuardActs {
    /// Records a decision. One that is recorded already is not added.
    pub fn record(&self, act: GuardAct) {
        let mut acts = self.0.lock();
        if !acts.contains(&act) {
            acts.push(act);
        }
    }

    /// Returns the decisions so far.
    pub fn recorded(&self) -> Vec<GuardAct> {
        self.0.lock().clone()
    }
}

airlock_strings::named_enum! {
    /// Hook of a guard. The names are those in the configuration and in records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum GuardHook {
        /// Before the call.
        Before = "before",
        /// After the call.
        After = "after",
        /// On a definition that a source lists.
        Definition = "definition",
        /// Before a request to a model.
        BeforeModel = "before_model",
        /// After the response of a model.
        AfterModel = "after_model",
    }
}

airlock_strings::named_enum! {
    /// Decision of a guard, apart from the one that changes nothing. The names are those in records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum GuardDecision {
        /// It has replaced the arguments or the outcome.
        Rewrite = "rewrite",
        /// It has denied the call, or withheld the outcome.
        Deny = "deny",
        /// It requires an approval.
        Ask = "ask",
        /// It has made no valid decision, which denies the call.
        Fail = "fail",
    }
}

impl CallError {
    /// Creates the error of a call that a guard denies, or whose outcome it withholds.
    pub fn guard_denied(tool: ToolName, act: GuardAct, code: &str, reason: &str) -> Self {
        let what = match act.hook {
            GuardHook::Before | GuardHook::BeforeModel => "is denied by",
            GuardHook::After | GuardHook::AfterModel => "has ended, and its outcome is withheld by",
            GuardHook::Definition => "is not made, because the tool's definition is denied by",
        };
        let code = shown(code, airlock_strings::MAX_WORD_BYTES);
        let reason = shown_reason(reason);
        let guard = &act.guard;
        let message =
            ("the call of tool '", format!("' {what} the guard {guard:?}: {reason} ({code})"));
        Self::about(tool, ErrorKind::Denied, HostCode::GuardDenied, message)
            .with_details(Details::Guarded(Box::new(act)))
    }

    /// Creates the error of a call whose guard has failed, so that the call is not made, or its outcome is
    /// withheld. The cause is for the operator.
    pub fn guard_failed(tool: ToolName, act: GuardAct, cause: impl Into<Cause>) -> Self {
        let what = match act.hook {
            GuardHook::Before | GuardHook::BeforeModel => "did not run, because",
            GuardHook::After | GuardHook::AfterModel => {
                "has ended, and its outcome is withheld, because"
            }
            GuardHook::Definition => "is not offered, because",
        };
        let message = ("tool '", format!("' {what} the guard {:?} failed", act.guard));
        Self::about(tool, ErrorKind::Internal, HostCode::GuardFailed, message)
            .with_details(Details::Guarded(Box::new(act)))
            .with_cause(cause)
    }

    /// Returns the decision of the guard that has refused the call; `None` if none has.
    pub fn guard_act(&self) -> Option<&GuardAct> {
        if let Details::Guarded(act) = self.details() { Some(act) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_strings::{MAX_LINE_BYTES, MAX_WORD_BYTES};

    fn act(hook: GuardHook, verdict: GuardDecision) -> GuardAct {
        GuardAct { guard: "secrets".into(), digest: "sha256:00".into(), hook, verdict }
    }

    #[test]
    fn a_denial_names_the_guard_its_code_and_its_reason_within_bounds() {
        let denied = act(GuardHook::Before, GuardDecision::Deny);
        let error = CallError::guard_denied(ToolName::alias("a-b"), denied.clone(), "card", "a\nb");
        assert_eq!(
            error.to_string(),
            r#"the call of tool 'a-b' is denied by the guard "secrets": a b (card)"#
        );
        assert_eq!((error.code(), error.kind()), (HostCode::GuardDenied, ErrorKind::Denied));
        assert_eq!(error.guard_act(), Some(&denied));
        let long = "x".repeat(MAX_LINE_BYTES * 2);
        let error = CallError::guard_denied(ToolName::alias("a-b"), denied, &long, &long);
        assert!(error.to_string().len() < MAX_LINE_BYTES + MAX_WORD_BYTES + 100);
    }

    #[test]
    fn a_reason_has_no_hidden_characters() {
        let hidden = "\u{202e}a\u{1b}[2J\u{e0041}\n\nb";
        let expected = "\u{27e8}U+202E\u{27e9}a\u{fffd}[2J\u{27e8}U+E0041\u{27e9} b";
        assert_eq!(shown_reason(hidden), expected);
        let denied = act(GuardHook::After, GuardDecision::Deny);
        let error = CallError::guard_denied(ToolName::alias("a-b"), denied, "c", hidden);
        assert!(error.to_string().ends_with(&format!(": {expected} (c)")), "{error}");
    }

    #[test]
    fn a_failure_keeps_its_cause_for_the_operator() {
        let failed = act(GuardHook::After, GuardDecision::Fail);
        let error = CallError::guard_failed(ToolName::alias("a-b"), failed, "it trapped");
        assert_eq!(error.code(), HostCode::GuardFailed);
        assert!(!error.to_string().contains("trapped"), "{error}");
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn a_recorded_decision_has_the_words_of_the_contract() {
        let text = serde_json::to_string(&act(GuardHook::After, GuardDecision::Ask));
        assert_eq!(
            text.expect("it is JSON"),
            r#"{"guard":"secrets","digest":"sha256:00","hook":"after","verdict":"ask"}"#
        );
        for hook in [
            GuardHook::Before,
            GuardHook::After,
            GuardHook::Definition,
            GuardHook::BeforeModel,
            GuardHook::AfterModel,
        ] {
            let written = serde_json::to_value(hook).expect("it is JSON");
            assert_eq!(written, hook.name());
        }
        for verdict in
            [GuardDecision::Rewrite, GuardDecision::Deny, GuardDecision::Ask, GuardDecision::Fail]
        {
            let written = serde_json::to_value(verdict).expect("it is JSON");
            assert_eq!(written, verdict.name());
        }
    }

    #[test]
    fn a_decision_is_recorded_once_however_often_it_is_made() {
        let acts = GuardActs::default();
        let rewritten = act(GuardHook::BeforeModel, GuardDecision::Rewrite);
        let denied = act(GuardHook::BeforeModel, GuardDecision::Deny);
        for made in [&rewritten, &rewritten, &denied, &rewritten] {
            acts.record(made.clone());
        }
        assert_eq!(acts.recorded(), [rewritten, denied]);
    }
}
