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

airlock_strings::named_enum! {
    /// Severity of a log message, as in RFC 5424, the least severe first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LogLevel as as_str {
        /// Details for developers.
        Debug = "debug",
        /// An ordinary event.
        Info = "info",
        /// A remarkable event.
        Notice = "notice",
        /// A possible problem.
        Warning = "warning",
        /// A failure.
        Error = "error",
        /// A part does not work.
        Critical = "critical",
        /// The operator must act at once.
        Alert = "alert",
        /// Nothing works.
        Emergency = "emergency",
    }
}

impl LogLevel {
    /// Finds a level by its name; `None` if there is none.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// A log message of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// Its severity.
    pub level: LogLevel,
    /// Name of the client, and of the part of it that logs.
    pub logger: String,
    /// Its contents: JSON text on one line; bounded, and without secrets. It is not a tree, which may take 150 times
    /// as much memory while the message waits.
    pub data: String,
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
    /// A log message that the source sent during the call. Only a caller that asked for log messages
    /// receives them.
    Log {
        /// The call.
        call: CallId,
        /// The message.
        log: Box<Log>,
    },
    /// The source runs the call as a task, which takes long.
    Deferred {
        /// The call.
        call: CallId,
    },
}

/// Receiver of a caller's events. Dropping it cancels no call.
pub type Events = mpsc::Receiver<Event>;

/// Creates the channel for the events of one caller.
pub(super) fn channel() -> (mpsc::Sender<Event>, Events) {
    mpsc::channel(QUEUE)
}
