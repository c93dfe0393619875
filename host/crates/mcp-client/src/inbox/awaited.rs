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
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::Instant,
};

use super::{
    super::{
        decode::Reception,
        limits::{LOG_QUARANTINE, MAX_ASKED, MAX_KEPT_ABANDONED, PROGRESS_QUEUE},
    },
    Inbox,
};
use airlock_core::{
    door::{Progress, SessionId},
    tenant::Tenant,
};
use airlock_strings::{MAX_LINE_BYTES, cut, one_line};
use airlock_wire::{
    error::{RpcError, code},
    id::RpcId,
};

/// Form in which a response is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// As a whole, bounded as a tree and redacted.
    Whole,
    /// As received, because one item of a list may be unusable and the others not. The reader
    /// bounds and redacts each item.
    Pages,
}

/// Reports of progress of one request, in the order of their arrival.
pub(crate) type Reports = mpsc::Receiver<Progress>;

/// Use of the log messages of the server during a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogMessages {
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
    /// Requests of callers that were abandoned and not answered. The server may still work on them.
    abandoned: HashMap<i64, AbandonedRequest>,
    /// True if there were more of them than are kept.
    has_lost_track: bool,
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// The tenant that the request is accounted to.
    pub tenant: Tenant,
    /// Session of its client; `None` if the request belongs to none.
    pub session: Option<SessionId>,
}

impl Party {
    /// Returns whether both are certainly the same client.
    fn is_same_client(&self, other: &Self) -> bool {
        self.session.is_some() && self == other
    }
}

/// An abandoned request of a caller.
struct AbandonedRequest {
    tenant: Tenant,
    since: Instant,
    /// True once the server has read the cancellation.
    is_cancelled: bool,
}

impl AbandonedRequest {
    /// Returns whether a caller of this tenant may get messages that may be about the request.
    fn permits(&self, tenant: &Tenant, now: Instant) -> bool {
        self.tenant == *tenant && (self.is_cancelled || now >= self.since + LOG_QUARANTINE)
    }
}

/// Reason that a question of the server reaches no caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAsked {
    /// No request of a caller that can be asked is in flight.
    #[error("no call is running whose client can answer it")]
    NoCaller,
    /// Requests of several sessions are in flight.
    #[error(
        "calls of several clients are running at this server, and the question names none of them; with \
         `lifecycle: \"per_call\"` in the gateway's configuration each call has a server of its own"
    )]
    SeveralClients,
    /// An abandoned request may have caused it.
    #[error(
        "it may be about a cancelled call, which the server has not answered; with `lifecycle: \"per_call\"` \
         in the gateway's configuration each call has a server of its own"
    )]
    Cancelled,
    /// It is over a bound, or malformed.
    #[error("it is too large, or is not a message of MCP")]
    Unusable,
    /// Callers have too many questions.
    #[error("too many questions wait for answers")]
    TooMany,
}

/// Receiving side of a request of the gateway.
pub(super) struct Awaited {
    pub(super) kind: ResponseKind,
    response: oneshot::Sender<Reception>,
    progress: mpsc::Sender<Progress>,
    logs: LogMessages,
    log: mpsc::Sender<Vec<u8>>,
    /// The caller whose request it is; `None` if it is the gateway's own.
    caller: Option<Party>,
    /// Takes the questions of the server; `None` if the caller cannot be asked.
    questions: Option<Taker>,
}

/// Takes the questions of a server to one caller. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Taker {
    sender: mpsc::Sender<ServerQuestion>,
    has_asked: Arc<AtomicBool>,
}

impl Taker {
    /// Creates a taker for at most `capacity` questions at a time.
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<ServerQuestion>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self { sender, has_asked: Arc::default() }, receiver)
    }

    /// Returns whether a question was taken.
    pub fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Takes a question. Fails, and returns it, if too many wait.
    pub(super) fn take(&self, question: ServerQuestion) -> Result<(), ServerQuestion> {
        self.sender.try_send(question).map_err(TrySendError::into_inner)?;
        self.has_asked.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// A request of a legacy server that may be passed on to a caller. The server waits for its answer
/// until it is dropped.
pub struct ServerQuestion {
    /// Its identifier. Dropping it forgets the request.
    pub open: OpenQuestion,
    /// The whole message; redacted, and at most [`MAX_QUESTION_BYTES`](super::MAX_QUESTION_BYTES) long.
    pub(crate) text: Vec<u8>,
}

/// A question of the server that a caller has. Dropping it forgets the server's request, so that a
/// caller that leaves does not count against the server. If another request may have caused the
/// question, the server gets an error, so that it does not wait in vain.
pub struct OpenQuestion {
    inbox: Weak<Inbox>,
    id: RpcId,
    /// The request whose caller has the question.
    within: i64,
    is_answered: bool,
}

impl OpenQuestion {
    /// Records that a caller has the question; `None` if callers have too many.
    pub(super) fn new(inbox: &Arc<Inbox>, id: &RpcId, within: i64) -> Option<Self> {
        let mut in_flight = inbox.in_flight.lock();
        if in_flight.asked.len() >= MAX_ASKED || !in_flight.asked.insert(id.clone()) {
            return None;
        }
        in_flight.unanswered.remove(id);
        Some(Self { inbox: Arc::downgrade(inbox), id: id.clone(), within, is_answered: false })
    }

    /// Makes it a request that no caller has.
    pub(super) fn withdraw(mut self) {
        self.is_answered = true;
        if let Some(inbox) = self.inbox.upgrade() {
            let mut in_flight = inbox.in_flight.lock();
            in_flight.asked.remove(&self.id);
            in_flight.unanswered.insert(self.id.clone());
        }
    }

    /// Responds to the server.
    pub fn respond(mut self, response: Result<String, RpcError>) {
        self.is_answered = true;
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.respond(self.id.clone(), response);
        }
    }

    /// Returns the identifier of the server's request.
    #[cfg(test)]
    pub(crate) fn id(&self) -> &RpcId {
        &self.id
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let Some(inbox) = self.inbox.upgrade() else { return };
        let has_others = {
            let mut in_flight = inbox.in_flight.lock();
            in_flight.asked.remove(&self.id);
            in_flight.callers().any(|(id, _, _)| id != self.within)
        };
        if has_others {
            let error = RpcError::new(code::INTERNAL, "the caller that was asked has left");
            inbox.respond(self.id.clone(), Err(error));
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
pub(crate) struct AwaitedResponse {
    inbox: Arc<Inbox>,
    id: i64,
    /// Completes with the response; fails if the connection is gone.
    pub(crate) response: oneshot::Receiver<Reception>,
    /// The progress that the server reports.
    pub(crate) reports: Reports,
    /// The log messages that the server sends: `notifications/message`, as a whole.
    pub(crate) logs: mpsc::Receiver<Vec<u8>>,
}

impl AwaitedResponse {
    pub(super) fn new(inbox: Arc<Inbox>, id: i64, kind: ResponseKind) -> (Self, Awaited) {
        let (sender, response) = oneshot::channel();
        let (progress, reports) = mpsc::channel(PROGRESS_QUEUE);
        let (log, logs) = mpsc::channel(PROGRESS_QUEUE);
        let awaited = Awaited {
            kind,
            response: sender,
            progress,
            logs: LogMessages::Dropped,
            log,
            caller: None,
            questions: None,
        };
        (Self { inbox, id, response, reports, logs }, awaited)
    }

    /// Makes the request one of a caller, to whom log messages and questions of the server may belong.
    pub(crate) fn belong(&self, caller: Party, logs: LogMessages, questions: Option<Taker>) {
        if let Some(awaited) = self.inbox.in_flight.lock().awaited.get_mut(&self.id) {
            (awaited.caller, awaited.logs, awaited.questions) = (Some(caller), logs, questions);
        }
    }
}

impl Drop for AwaitedResponse {
    fn drop(&mut self) {
        let mut in_flight = self.inbox.in_flight.lock();
        let abandoned = in_flight.awaited.remove(&self.id);
        if let Some(caller) = abandoned.and_then(|awaited| awaited.caller) {
            in_flight.abandon(self.id, caller.tenant);
        }
    }
}

/// Parameters of `notifications/progress`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    progress_token: Option<RpcId>,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Notification {
    params: Params,
}

impl InFlight {
    fn abandon(&mut self, id: i64, tenant: Tenant) {
        if self.abandoned.len() < MAX_KEPT_ABANDONED {
            let since = Instant::now();
            self.abandoned.insert(id, AbandonedRequest { tenant, since, is_cancelled: false });
        } else {
            self.has_lost_track = true;
        }
    }

    /// Records that the server has answered an abandoned request, so that it no longer works on
    /// it. Returns whether the request is known as abandoned and was not answered before.
    pub(super) fn answered_late(&mut self, id: i64) -> bool {
        self.abandoned.remove(&id).is_some()
    }

    /// Returns whether a request was abandoned and is not answered.
    pub(super) fn is_abandoned(&self, id: i64) -> bool {
        self.abandoned.contains_key(&id)
    }

    /// Records that the server has read the cancellation of an abandoned request.
    pub(super) fn cancelled(&mut self, id: i64) {
        if let Some(request) = self.abandoned.get_mut(&id) {
            request.is_cancelled = true;
        }
    }

    /// Iterates over the requests of callers.
    fn callers(&self) -> impl Iterator<Item = (i64, &Awaited, &Party)> + Clone {
        self.awaited
            .iter()
            .filter_map(|(id, request)| Some((*id, request, request.caller.as_ref()?)))
    }

    /// Returns the newest request that `suits`, with its identifier, among those that a message of the
    /// server can belong to. No member of such a message says which request it belongs to, and a caller
    /// must not see those of another one. So it belongs to the only request, or to one of several of the
    /// same session, whose user is the same. An abandoned request may have caused it too, however
    /// long ago, until the server has answered it: then only its own tenant may see the message, and
    /// only once the server has read the cancellation, or after [`LOG_QUARANTINE`].
    fn newest(&self, suits: impl Fn(&Awaited) -> bool) -> Result<(i64, &Awaited), NotAsked> {
        let mut others = self.callers();
        let (_, _, party) = others.next().ok_or(NotAsked::NoCaller)?;
        if !others.all(|(_, _, other)| other.is_same_client(party)) {
            return Err(NotAsked::SeveralClients);
        }
        let now = Instant::now();
        let is_settled = self.abandoned.values().all(|request| request.permits(&party.tenant, now));
        if self.has_lost_track || !is_settled {
            return Err(NotAsked::Cancelled);
        }
        let suitable = self.callers().filter(|(_, awaited, _)| suits(awaited));
        let newest = suitable.max_by_key(|(id, _, _)| *id).ok_or(NotAsked::NoCaller)?;
        Ok((newest.0, newest.1))
    }

    /// Hands a log message to the request that it belongs to.
    pub(super) fn log(&self, text: Vec<u8>) {
        if let Ok((_, newest)) = self.newest(|request| request.logs == LogMessages::Wanted) {
            // A full queue means that the caller takes them more slowly than the server sends them.
            let _ = newest.log.try_send(text);
        }
    }

    /// Returns the request whose caller is asked a question, and the taker of its questions. `within` is
    /// the request on whose stream it came, where the transport tells.
    pub(super) fn taker(&self, within: Option<i64>) -> Result<(i64, Taker), NotAsked> {
        let (id, asked) = match within {
            Some(id) => (id, self.awaited.get(&id).ok_or(NotAsked::NoCaller)?),
            None => self.newest(|request| request.questions.is_some())?,
        };
        Ok((id, asked.questions.clone().ok_or(NotAsked::NoCaller)?))
    }

    /// Passes on a report of progress, whose token is the identifier of the request. One that
    /// belongs to no request in flight is dropped.
    pub(super) fn report(&self, text: &[u8]) {
        let Ok(Notification { params }) = serde_json::from_slice(text) else { return };
        let token = params.progress_token.and_then(|token| token.number());
        let Some(awaited) = token.and_then(|token| self.awaited.get(&token)) else { return };
        let message = params.message.map(|message| one_line(&cut(message, MAX_LINE_BYTES)));
        // A full queue means that the caller takes reports more slowly than the server sends them.
        let _ = awaited.progress.try_send(Progress {
            done: params.progress,
            total: params.total,
            message,
        });
    }
}
