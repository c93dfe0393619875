//! Events of a running call, for a caller that receives them.

use serde::Serialize;
use tokio::sync::mpsc;

use super::CallId;
use crate::tool::Content;

/// Number of events that the queue of a slow receiver holds. Further events are dropped, because
/// otherwise the guest would have to wait.
const QUEUE: usize = 256;
/// Number of events that the queue keeps free of progress. Only the last progress matters, so a storm
/// of it must not displace content.
pub(super) const RESERVED: usize = QUEUE / 2;

/// Progress of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// Amount of work that is done. It grows if the tool keeps the contract.
    pub done: f64,
    /// Total amount of work; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Description of the current step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An event of a caller's own call, before its result. Reports of nested calls are only in the
/// ledger.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Progress of the call, as in MCP.
    Progress {
        /// The call.
        call: CallId,
        /// The progress.
        progress: Progress,
    },
    /// Content that the call sent before its result: a plugin's partial result, a script's printed
    /// line.
    Partial {
        /// The call.
        call: CallId,
        /// The content.
        part: Box<Content>,
    },
}

/// Receiver of a caller's events. Dropping it cancels no call.
pub type Events = mpsc::Receiver<Event>;

/// Creates the channel for the events of one caller.
pub(super) fn channel() -> (mpsc::Sender<Event>, Events) {
    mpsc::channel(QUEUE)
}
