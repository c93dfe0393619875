//! What a call tells while it runs, to whoever listens.

use serde::Serialize;
use tokio::sync::mpsc;

use super::CallId;
use crate::tool::Content;

/// Events that wait for a slow listener; further ones are lost, which is better than a guest that
/// waits.
const QUEUE: usize = 256;

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// How much is done. Grows, where the tool keeps to the contract.
    pub done: f64,
    /// How much there is to do, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Something that a caller's own call says before its answer. Calls further down are told in the
/// ledger alone.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// How far it is: MCP's progress.
    Progress {
        /// The call.
        call: CallId,
        /// How far it is.
        progress: Progress,
    },
    /// A part of the answer ahead of the rest: a plugin's partial result, a script's printed line.
    Partial {
        /// The call.
        call: CallId,
        /// The part.
        part: Content,
    },
}

/// Receives a caller's events. Dropping it ends nothing.
pub type Events = mpsc::Receiver<Event>;

/// A channel for the events of one caller.
pub(super) fn channel() -> (mpsc::Sender<Event>, Events) {
    mpsc::channel(QUEUE)
}
