//! A call that waits for a decision: of a client or a model, which is in the list of calls, or of a script, which
//! is in the journal of its run.

use airlock_agent::approvals;
use airlock_core::run::Position;
use airlock_scripts::runs::EXECUTE;
use airlock_store::{approvals::WaitingCall, runs::PendingRunCall};

/// A call that waits.
#[derive(Debug, Clone)]
pub(super) enum WaitingItem {
    Call(WaitingCall),
    Script(PendingRunCall),
}

impl WaitingItem {
    /// Returns the identifier of the call.
    pub(super) fn id(&self) -> String {
        match self {
            Self::Call(call) => call.id.clone(),
            Self::Script(call) => script_id(call),
        }
    }

    /// Returns the name of the tool.
    pub(super) fn tool(&self) -> String {
        match self {
            Self::Call(call) => approvals::tool_of(call),
            Self::Script(call) => call.tool.clone(),
        }
    }

    /// Returns whether it is the manifest of a script, which has calls of several tools.
    pub(super) fn is_manifest(&self) -> bool {
        matches!(self, Self::Script(call) if call.tool == EXECUTE)
    }

    /// Returns the digest of all that is shown of the call.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Call(call) => approvals::shown(call),
            // A run has one script, so its identifier stands for it.
            Self::Script(call) => approvals::shown_digest([
                &*script_id(call),
                &*call.epoch.to_string(),
                &*call.tool,
                &*call.definition,
                &*call.arguments,
                call.sources.as_deref().unwrap_or_default(),
                call.asked_by.as_deref().unwrap_or_default(),
            ]),
        }
    }

    /// Returns the bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Call(call) => call.text.len(),
            Self::Script(call) => {
                call.arguments.len() + call.asked_by.as_ref().map_or(0, String::len)
            }
        }
    }
}

/// Returns the identifier of a call of a script.
pub(super) fn script_id(call: &PendingRunCall) -> String {
    format!("{}:{}", call.run, call.position)
}

/// Returns the run and the position that an identifier names; `None` if it names no call of a script.
pub(super) fn run_call(id: &str) -> Option<(&str, Position)> {
    let (run, position) = id.split_once(':')?;
    Some((run, position.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> PendingRunCall {
        PendingRunCall {
            run: "run_1".to_owned(),
            owner: [1; 32],
            epoch: 3,
            stopped_ms: 1,
            position: "2.1".parse().expect("a position"),
            tool: "a-b".to_owned(),
            definition: "d".to_owned(),
            arguments: "{}".to_owned(),
            sources: None,
            asked_by: None,
        }
    }

    #[test]
    fn a_call_of_a_script_is_named_by_its_run_and_its_position() {
        let id = script_id(&pending());
        assert_eq!(id, "run_1:2.1");
        assert_eq!(run_call(&id), Some(("run_1", pending().position)));
        for id in ["call_1", "run_1", "run_1:", "run_1:x", "run_1:2:1"] {
            assert_eq!(run_call(id), None, "{id}");
        }
    }

    #[test]
    fn the_digest_of_a_call_of_a_script_changes_with_all_that_is_shown() {
        let shown = WaitingItem::Script(pending()).shown();
        for other in [
            PendingRunCall { epoch: 4, ..pending() },
            PendingRunCall { run: "run_2".to_owned(), ..pending() },
            PendingRunCall { tool: "a-c".to_owned(), ..pending() },
            PendingRunCall { definition: "e".to_owned(), ..pending() },
            PendingRunCall { arguments: "{ }".to_owned(), ..pending() },
            PendingRunCall { sources: Some("[\"web\"]".to_owned()), ..pending() },
            PendingRunCall { asked_by: Some("[\"web\"]".to_owned()), ..pending() },
        ] {
            assert_ne!(WaitingItem::Script(other.clone()).shown(), shown, "{other:?}");
        }
        assert!(shown.starts_with("sha256:") && shown.len() == 7 + 64);
    }
}
