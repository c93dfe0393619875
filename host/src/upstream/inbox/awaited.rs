//! Requests in flight, in both directions.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::Deserialize;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    super::{
        envelope::{Id, RpcId},
        limits::{LOG_QUARANTINE, MAX_PROGRESS_BYTES, PROGRESS_QUEUE},
        questions::ServerQuestion,
    },
    Inbox, lock,
};
use crate::{
    door::Progress,
    text::{cut, one_line},
};

/// Form in which a response is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ResponseKind {
    /// As a whole, bounded as a tree and redacted.
    Whole,
    /// As received, because one item of a list may be unusable and the others not. The reader
    /// bounds and redacts each item.
    Pages,
}

/// Result of waiting for a response.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Reception {
    /// The JSON text of the response.
    Text(Vec<u8>),
    /// The response is over a bound.
    TooLarge,
    /// The response cannot be read, with the reason.
    Unreadable(&'static str),
}

/// Reports of progress of one request, in the order of their arrival.
pub(in super::super) type Reports = mpsc::Receiver<Progress>;

/// Use of the log messages of the server during a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Logs {
    /// It is not a request of a caller, so no log message belongs to it.
    Foreign,
    /// They may belong to it, and are dropped.
    Dropped,
    /// They are handed on.
    Wanted,
}

/// Requests in flight, in both directions. Its size is bounded by the number of calls that may run
/// and by [`MAX_UNANSWERED`](super::MAX_UNANSWERED).
#[derive(Default)]
pub(super) struct InFlight {
    /// Requests of the gateway, until the response has arrived or the request is abandoned.
    pub(super) awaited: HashMap<i64, Awaited>,
    /// Requests of the server, until the response is sent.
    pub(super) unanswered: HashSet<RpcId>,
    /// True once the connection has ended.
    pub(super) is_closed: bool,
    /// Time at which a request of a caller was last given up. The server may still work on it.
    abandoned: Option<Instant>,
}

/// Receiving side of a request of the gateway.
pub(super) struct Awaited {
    pub(super) kind: ResponseKind,
    response: oneshot::Sender<Reception>,
    progress: mpsc::Sender<Progress>,
    logs: Logs,
    log: mpsc::Sender<Vec<u8>>,
    /// Takes the questions of the server; `None` if the caller cannot be asked.
    questions: Option<mpsc::Sender<ServerQuestion>>,
}

impl Awaited {
    /// Ends the wait for the response.
    pub(super) fn end(self, reception: Reception) {
        // The sender of the request may have left.
        let _ = self.response.send(reception);
    }
}

/// A response that is expected. Dropping it ends the expectation: a response that arrives later is
/// dropped.
pub(in super::super) struct Waiting {
    inbox: Arc<Inbox>,
    id: i64,
    /// Completes with the response; fails if the connection is gone.
    pub(in super::super) response: oneshot::Receiver<Reception>,
    /// The progress that the server reports.
    pub(in super::super) reports: Reports,
    /// The log messages that the server sends: `notifications/message`, as a whole.
    pub(in super::super) logs: mpsc::Receiver<Vec<u8>>,
}

impl Waiting {
    pub(super) fn new(inbox: Arc<Inbox>, id: i64, kind: ResponseKind) -> (Self, Awaited) {
        let (sender, response) = oneshot::channel();
        let (progress, reports) = mpsc::channel(PROGRESS_QUEUE);
        let (log, logs) = mpsc::channel(PROGRESS_QUEUE);
        let (logs_of, questions) = (Logs::Foreign, None);
        let awaited = Awaited { kind, response: sender, progress, logs: logs_of, log, questions };
        (Self { inbox, id, response, reports, logs }, awaited)
    }

    /// Sets what happens with log messages and questions of the server. Without it, they do not
    /// belong to the request.
    pub(in super::super) fn belong(
        &self,
        logs: Logs,
        questions: Option<mpsc::Sender<ServerQuestion>>,
    ) {
        if let Some(awaited) = lock(&self.inbox.in_flight).awaited.get_mut(&self.id) {
            (awaited.logs, awaited.questions) = (logs, questions);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut in_flight = lock(&self.inbox.in_flight);
        let given_up = in_flight.awaited.remove(&self.id);
        if given_up.is_some_and(|awaited| awaited.logs != Logs::Foreign) {
            in_flight.abandoned = Some(Instant::now());
        }
    }
}

/// Parameters of `notifications/progress`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    progress_token: Id,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Notification {
    params: Params,
}

impl InFlight {
    /// Returns the only request of a caller that a message of the server can belong to; `None` if
    /// there are several or none, or if one was given up shortly before. No member of such a message
    /// says which request it belongs to, and a caller must not see those of another one.
    fn only(&self) -> Option<&Awaited> {
        let now = Instant::now();
        if self.abandoned.is_some_and(|given_up| now < given_up + LOG_QUARANTINE) {
            return None;
        }
        let mut callers = self.awaited.values().filter(|it| it.logs != Logs::Foreign);
        let only = callers.next()?;
        callers.next().is_none().then_some(only)
    }

    /// Hands a log message to the request that it belongs to.
    pub(super) fn log(&self, text: Vec<u8>) {
        if let Some(only) = self.only().filter(|it| it.logs == Logs::Wanted) {
            // A full queue means that the caller takes them more slowly than the server sends them.
            let _ = only.log.try_send(text);
        }
    }

    /// Returns the taker of a question; `None` if nobody can be asked. `within` is the request on
    /// whose stream it came, where the transport tells.
    pub(super) fn taker(&self, within: Option<i64>) -> Option<mpsc::Sender<ServerQuestion>> {
        let asked = match within {
            Some(id) => self.awaited.get(&id),
            None => self.only(),
        };
        asked?.questions.clone()
    }

    /// Passes on a report of progress, whose token is the identifier of the request. One that
    /// belongs to no request in flight is dropped.
    pub(super) fn report(&self, text: &[u8]) {
        let Ok(Notification { params }) = serde_json::from_slice(text) else { return };
        let token = params.progress_token.0.and_then(|token| token.own());
        let Some(awaited) = token.and_then(|token| self.awaited.get(&token)) else { return };
        let message = params.message.map(|message| one_line(&cut(message, MAX_PROGRESS_BYTES)));
        // A full queue means that the caller takes reports more slowly than the server sends them.
        let _ = awaited.progress.try_send(Progress {
            done: params.progress,
            total: params.total,
            message,
        });
    }
}
