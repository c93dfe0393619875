//! Requests in flight, in both directions.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Deserialize;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    super::{
        envelope::{Id, RpcId},
        limits::{
            LOG_QUARANTINE, MAX_ASKED, MAX_KEPT_ABANDONED, MAX_PROGRESS_BYTES, PROGRESS_QUEUE,
        },
        questions::ServerQuestion,
    },
    Inbox, lock,
};
use crate::{
    door::Progress,
    tenant::Tenant,
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
    /// They are dropped.
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
    /// Questions of the server that were handed to callers, until they are answered or dropped.
    pub(super) asked: HashSet<RpcId>,
    /// Requests of callers that were given up and not answered. The server may still work on them.
    abandoned: HashMap<i64, Tenant>,
    /// True if there were more of them than are kept.
    has_lost_track: bool,
    /// Time at which the last one was given up.
    last_abandoned: Option<Instant>,
}

/// Receiving side of a request of the gateway.
pub(super) struct Awaited {
    pub(super) kind: ResponseKind,
    response: oneshot::Sender<Reception>,
    progress: mpsc::Sender<Progress>,
    logs: Logs,
    log: mpsc::Sender<Vec<u8>>,
    /// The tenant whose request it is; `None` if it is the gateway's own.
    tenant: Option<Tenant>,
    /// Takes the questions of the server; `None` if the caller cannot be asked.
    questions: Option<Taker>,
}

/// Takes the questions of a server to one caller. Cheap to clone.
#[derive(Debug, Clone)]
pub(in super::super) struct Taker {
    sender: mpsc::Sender<ServerQuestion>,
    has_asked: Arc<AtomicBool>,
}

impl Taker {
    /// Creates a taker for at most `capacity` questions at a time.
    pub(in super::super) fn new(capacity: usize) -> (Self, mpsc::Receiver<ServerQuestion>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self { sender, has_asked: Arc::default() }, receiver)
    }

    /// Returns whether a question was taken.
    pub(in super::super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Takes a question; false if too many wait.
    pub(super) fn take(&self, question: ServerQuestion) -> bool {
        let is_taken = self.sender.try_send(question).is_ok();
        self.has_asked.fetch_or(is_taken, Ordering::Relaxed);
        is_taken
    }
}

/// A question of the server that a caller has. Dropping it forgets the server's request, so that a
/// caller that leaves does not count against the server.
pub(in super::super) struct OpenQuestion {
    inbox: Weak<Inbox>,
    id: RpcId,
}

impl OpenQuestion {
    /// Records that a caller has the question; `None` if callers have too many.
    pub(super) fn new(inbox: &Arc<Inbox>, id: &RpcId) -> Option<Self> {
        let mut in_flight = lock(&inbox.in_flight);
        if in_flight.asked.len() >= MAX_ASKED || !in_flight.asked.insert(id.clone()) {
            return None;
        }
        in_flight.unanswered.remove(id);
        Some(Self { inbox: Arc::downgrade(inbox), id: id.clone() })
    }

    /// Returns the identifier of the server's request.
    pub(in super::super) fn id(&self) -> &RpcId {
        &self.id
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox.upgrade() {
            lock(&inbox.in_flight).asked.remove(&self.id);
        }
    }
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
        let awaited = Awaited {
            kind,
            response: sender,
            progress,
            logs: Logs::Dropped,
            log,
            tenant: None,
            questions: None,
        };
        (Self { inbox, id, response, reports, logs }, awaited)
    }

    /// Makes the request one of a caller, to whom log messages and questions of the server may belong.
    pub(in super::super) fn belong(&self, tenant: Tenant, logs: Logs, questions: Option<Taker>) {
        if let Some(awaited) = lock(&self.inbox.in_flight).awaited.get_mut(&self.id) {
            (awaited.tenant, awaited.logs, awaited.questions) = (Some(tenant), logs, questions);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut in_flight = lock(&self.inbox.in_flight);
        let given_up = in_flight.awaited.remove(&self.id);
        if let Some(tenant) = given_up.and_then(|awaited| awaited.tenant) {
            in_flight.give_up(self.id, tenant);
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
    fn give_up(&mut self, id: i64, tenant: Tenant) {
        self.last_abandoned = Some(Instant::now());
        if self.abandoned.len() < MAX_KEPT_ABANDONED {
            self.abandoned.insert(id, tenant);
        } else {
            self.has_lost_track = true;
        }
    }

    /// Records that the server has answered a request that was given up, so that it no longer works on
    /// it.
    pub(super) fn answered_late(&mut self, id: i64) {
        self.abandoned.remove(&id);
    }

    /// Returns the only request of a caller that a message of the server can belong to; `None` if
    /// there are several or none. No member of such a message says which request it belongs to, and a
    /// caller must not see those of another one. A request that was given up may have caused it too,
    /// however long ago, until the server has answered it: then nobody but its own tenant may see the
    /// message, and the tenant not within [`LOG_QUARANTINE`].
    fn only(&self) -> Option<&Awaited> {
        let now = Instant::now();
        if self.has_lost_track
            || self.last_abandoned.is_some_and(|given_up| now < given_up + LOG_QUARANTINE)
        {
            return None;
        }
        let mut callers = self.awaited.values().filter(|it| it.tenant.is_some());
        let only = callers.next()?;
        let is_own = self.abandoned.values().all(|tenant| only.tenant.as_ref() == Some(tenant));
        (callers.next().is_none() && is_own).then_some(only)
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
    pub(super) fn taker(&self, within: Option<i64>) -> Option<Taker> {
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
