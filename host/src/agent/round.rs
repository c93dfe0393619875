//! One round of calls: which run, which wait for the caller, and how they ended.

use std::{collections::BTreeSet, error::Error as _, pin::pin, sync::Arc};

use futures_util::{StreamExt as _, stream};
use tokio::time::timeout_at;
use tracing::warn;

use super::{
    Settings,
    allowance::{Allowance, Exceeded},
    calls::ToolCall,
};
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
    /// What the model is told.
    pub(super) text: Arc<str>,
    /// Why there is no result.
    pub(super) error: Option<CallError>,
}

impl Pending {
    pub(super) fn new(call: ToolCall, reason: Reason) -> Self {
        Self { call, reason }
    }
}

impl Ended {
    fn new(call: ToolCall, id: Option<CallId>, result: Result<String, CallError>) -> Self {
        match result {
            Ok(text) => Self { call, id, text: text.into(), error: None },
            Err(error) => {
                let text = format!("Error executing tool {}: {error}", call.name).into();
                Self { call, id, text, error: Some(error) }
            }
        }
    }

    /// Whether it waits for an approval, and so has no result.
    pub(super) fn needs_approval(&self) -> bool {
        matches!(self.error, Some(CallError::NeedsApproval { .. }))
    }

    /// The same, with an error in place of a result that does not fit into the conversation.
    fn within(self, allowance: &Allowance) -> Self {
        if self.needs_approval() {
            return self;
        }
        match allowance.take(self.text.len()) {
            Ok(()) => self,
            Err(Exceeded { found, limit }) => {
                Self::new(self.call, self.id, Err(CallError::ResultsTooLarge { found, limit, was_made: true }))
            }
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

/// Runs calls, at most [`Settings::parallel_calls`] at the same time, and returns their ends in the order of the calls. What
/// goes beyond a limit ends with an error for the model. Returns soon after the deadline at the latest.
pub(super) async fn run(calls: Vec<ToolCall>, caller: &Caller, settings: &Settings, allowance: &Allowance) -> Vec<Ended> {
    let (found, limit) = (calls.len(), settings.calls_per_answer);
    let running = calls.into_iter().enumerate().map(|(index, call)| async move {
        let refused = if index >= limit { Some(CallError::TooManyCalls { found, limit }) } else { reason_to_refuse(allowance) };
        match refused {
            Some(error) => Ended::new(call, None, Err(error)),
            None => run_one(call, caller, allowance).await,
        }
    });
    let mut running = pin!(stream::iter(running).buffered(settings.parallel_calls.max(1)));
    let mut ended = Vec::with_capacity(found);
    // Results are charged as they come, so that no more of them are held than fit and than run at the same time.
    while let Some(next) = running.next().await {
        ended.push(next.within(allowance));
    }
    ended
}

/// Why a call is not even begun.
fn reason_to_refuse(allowance: &Allowance) -> Option<CallError> {
    if allowance.is_over() {
        return Some(CallError::Cancelled);
    }
    let exceeded = allowance.check().err();
    exceeded.map(|Exceeded { found, limit }| CallError::ResultsTooLarge { found, limit, was_made: false })
}

async fn run_one(call: ToolCall, caller: &Caller, allowance: &Allowance) -> Ended {
    // Admitted only now, because the deadline of a call starts then, and it may have waited for its turn.
    match caller.admit(&call.name, call.arguments.as_deref().unwrap_or_default()) {
        Ok(admitted) => {
            let id = admitted.chain().id();
            let result = timeout_at(allowance.deadline, admitted.run()).await.unwrap_or(Err(CallError::Cancelled));
            log_failure(&call.name, result.as_ref().err());
            Ended::new(call, Some(id), result.map(|output| output.to_text()))
        }
        Err(error) => Ended::new(call, None, Err(error)),
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
