//! Guards of definitions: components of the operator that decide which tools of a source are offered, and with which
//! texts. A tool that they withhold is in no view; a call of it fails with their decision.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::tool::{CallError, GuardAct, GuardDecision, Tool, shown_reason};

/// The guards of the definitions that sources list. They can withhold a tool, and replace the texts of its definition.
pub trait DefinitionGuards: Send + Sync + 'static {
    /// Waits until the guards are loaded, or have failed to load.
    fn ready(&self) -> BoxFuture<'_, ()>;

    /// Decides about the tools of one list. Blocks for a bounded time. A tool about which a guard makes no valid
    /// decision is withheld.
    fn decide(&self, tools: Vec<Arc<Tool>>) -> GuardedList;
}

/// Tools of a list about which guards have decided.
#[derive(Default)]
pub struct GuardedList {
    /// The tools that are offered, in their order.
    pub tools: Vec<Arc<Tool>>,
    /// The other ones.
    pub withheld: Vec<WithheldTool>,
}

/// A tool that is not offered, because a guard denies its definition or has failed.
#[derive(Debug, Clone)]
pub struct WithheldTool {
    /// The tool.
    pub tool: Arc<Tool>,
    /// The decision.
    pub act: GuardAct,
    /// Identifier of the reason; empty if the guard has failed.
    pub code: String,
    /// The reason of the guard; empty if it has failed.
    pub reason: String,
}

impl WithheldTool {
    /// Returns the error of a call of the tool.
    pub fn error(&self) -> CallError {
        let name = self.tool.name.clone();
        if self.act.verdict == GuardDecision::Fail {
            return CallError::guard_failed(
                name,
                self.act.clone(),
                "its definition was not decided",
            );
        }
        CallError::guard_denied(name, self.act.clone(), &self.code, &self.reason)
    }

    /// Returns the reason for the operator, on one line.
    pub fn cause(&self) -> String {
        let GuardAct { guard, verdict, .. } = &self.act;
        if *verdict == GuardDecision::Fail {
            return format!("the guard {guard:?} failed on its definition; the log has the cause");
        }
        let reason = shown_reason(&format!("{} ({})", self.reason, self.code));
        format!("the guard {guard:?} denies its definition: {reason}")
    }
}
