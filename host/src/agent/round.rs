//! One round of calls: which run, which wait for the caller, and how they ended.

use std::{collections::BTreeSet, error::Error as _};

use futures_util::{StreamExt as _, stream};
use tracing::warn;

use super::calls::ToolCall;
use crate::{
    catalog::CallError,
    door::{CallId, Caller},
    model::causes,
};

/// The calls of an answer, divided.
pub(super) struct Sorted {
    /// To be run.
    pub(super) run: Vec<ToolCall>,
    /// To be handed to the caller.
    pub(super) pending: Vec<Pending>,
}

/// A call that is handed to the caller.
pub(super) struct Pending {
    pub(super) call: ToolCall,
    pub(super) reason: Reason,
}

/// Why a call is handed to the caller.
pub(super) enum Reason {
    /// The tool may run only if someone says so.
    NeedsApproval,
    /// The script that ran came to a call that needs approval.
    Suspended {
        /// The tool that needs it.
        tool: String,
        /// What it was to be called with, as JSON text.
        arguments: String,
    },
    /// The tool is not the gateway's: the caller's own, or made up.
    NotOffered,
    /// The gateway would run it, had there not been so many rounds.
    DepthLimit,
}

/// A call that was run, or was refused with an answer for the model.
pub(super) struct Ended {
    pub(super) call: ToolCall,
    /// The door's identifier, if the call was let in.
    pub(super) id: Option<CallId>,
    /// The text of the result.
    pub(super) result: Result<String, CallError>,
}

impl Pending {
    pub(super) fn new(call: ToolCall, reason: Reason) -> Self {
        Self { call, reason }
    }
}

impl Ended {
    /// What the model is told.
    pub(super) fn text(&self) -> String {
        match &self.result {
            Ok(text) => text.clone(),
            Err(error) => format!("Error executing tool {}: {error}", self.call.name),
        }
    }
}

/// Asks the door about each call. Arguments that cannot be used do not make a call pending: the model can put them right.
pub(super) fn sort(calls: Vec<ToolCall>, offered: &BTreeSet<String>, caller: &Caller) -> Sorted {
    let mut sorted = Sorted { run: Vec::new(), pending: Vec::new() };
    for call in calls {
        match reason_to_wait(&call, offered, caller) {
            Some(reason) => sorted.pending.push(Pending::new(call, reason)),
            None => sorted.run.push(call),
        }
    }
    sorted
}

fn reason_to_wait(call: &ToolCall, offered: &BTreeSet<String>, caller: &Caller) -> Option<Reason> {
    let Some(arguments) = call.arguments.as_deref().filter(|_| offered.contains(&call.name)) else {
        return Some(Reason::NotOffered);
    };
    match caller.admit(&call.name, arguments) {
        Err(CallError::NeedsApproval { .. }) => Some(Reason::NeedsApproval),
        Err(CallError::NotFound { .. }) => Some(Reason::NotOffered),
        Ok(_) | Err(_) => None,
    }
}

/// Runs calls, at most `parallel` at the same time, and gives their ends in the order of the calls.
pub(super) async fn run(calls: Vec<ToolCall>, caller: &Caller, parallel: usize) -> Vec<Ended> {
    stream::iter(calls.into_iter().map(|call| run_one(call, caller))).buffered(parallel.max(1)).collect().await
}

async fn run_one(call: ToolCall, caller: &Caller) -> Ended {
    // Admitted only now, because the deadline of a call starts then, and it may have waited for its turn.
    match caller.admit(&call.name, call.arguments.as_deref().unwrap_or_default()) {
        Ok(admitted) => {
            let id = admitted.chain().id();
            let result = admitted.run().await;
            log_failure(&call.name, result.as_ref().err());
            Ended { call, id: Some(id), result: result.map(|output| output.to_text()) }
        }
        Err(error) => Ended { call, id: None, result: Err(error) },
    }
}

/// Writes down what only the operator may read of a failure.
pub(crate) fn log_failure(tool: &str, error: Option<&CallError>) {
    if let Some(error) = error
        && let Some(cause) = error.source()
    {
        warn!(tool, code = error.code(), cause = causes(cause), "tool call failed");
    }
}
