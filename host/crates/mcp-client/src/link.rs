//! JSON-RPC with one server over any transport: requests, notifications, and responses to the
//! server's own requests.

mod error;
mod observer;
mod request;
mod trace;

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub use self::{
    error::AskError,
    observer::LinkObserver,
    request::{HeldPermits, Request},
};
use self::{
    observer::{ObservedAsk, connection_error},
    trace::AskSpan,
};
use super::{
    agreed::{Agreed, Capability},
    decode::{self, Reception},
    inbox::{AwaitedResponse, Inbox},
    limits::{CANCEL_TIMEOUT, LOG_LEVEL_TIMEOUT, MAX_ABANDONED, MAX_TASK_CANCELLATIONS},
    transport::{Outgoing, OutgoingKind, ReceiveError, RequestHead, SendError, Transport},
};
use airlock_core::door::{LogLevel, Progress};
use airlock_wire::{error::RpcError, id::RpcId, message, method};

/// Sends messages to the server of a connection.
pub struct Link {
    transport: Arc<dyn Transport>,
    inbox: Arc<Inbox>,
    next_id: AtomicI64,
    agreed: OnceLock<Agreed>,
    abandoned: mpsc::Sender<Abandoned>,
    log_level: Mutex<Option<LogLevel>>,
    users: TaskTracker,
    opened: Instant,
    observer: OnceLock<Arc<dyn LinkObserver>>,
    /// True if the connection was closed because of an error.
    has_failed: AtomicBool,
}

/// Report of a server about a request that is in flight.
pub enum RequestReport {
    /// Progress.
    Progress(Progress),
    /// A log message: `notifications/message`, as a whole.
    Log(Vec<u8>),
}

/// Queue of abandoned work, whose cancellations are to be sent.
pub type AbandonedRequests = mpsc::Receiver<Abandoned>;

/// Abandoned work of a server.
pub enum Abandoned {
    /// A request, with the permits that it holds.
    Request(i64, Option<HeldPermits>),
    /// A task.
    Task(String),
}

/// Task that receives messages until the connection ends, and returns the reason that it ended.
pub type Receiver = AbortOnDropHandle<ReceiveError>;

impl Link {
    /// Begins to receive over a transport. The connection ends when the returned task does; dropping
    /// the task stops receiving.
    pub fn open(
        transport: Arc<dyn Transport>,
        inbox: Arc<Inbox>,
    ) -> (Arc<Self>, AbandonedRequests, Receiver) {
        let (abandoned, queue) = mpsc::channel(MAX_ABANDONED);
        let receiving = transport.clone();
        let pending = inbox.clone();
        let receiver = tokio::spawn(async move {
            let ended = receiving.receive().await;
            pending.disconnect();
            ended
        });
        let link = Self {
            transport,
            inbox,
            next_id: AtomicI64::new(1),
            agreed: OnceLock::new(),
            abandoned,
            log_level: Mutex::new(None),
            users: TaskTracker::new(),
            opened: Instant::now(),
            observer: OnceLock::new(),
            has_failed: AtomicBool::new(false),
        };
        (Arc::new(link), queue, AbortOnDropHandle::new(receiver))
    }

    /// Returns the inbox.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Returns the transport.
    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Returns the tracker of the work that the connection must not be closed under, if it can be helped.
    pub fn users(&self) -> &TaskTracker {
        &self.users
    }

    /// Sets the observer of the connection, and of requests that end from now on. The first one stays.
    pub fn observe(&self, observer: Arc<dyn LinkObserver>) {
        // A connection has one server.
        let _ = self.observer.set(observer);
    }

    /// Records that the connection is closed because of an error.
    pub(super) fn record_failure(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Records the result of the handshake.
    pub(super) fn agree(&self, agreed: Agreed) {
        self.transport.negotiated(agreed.version);
        // The handshake is completed once.
        let _ = self.agreed.set(agreed);
    }

    /// Returns the result of the handshake; `None` until it is complete.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.get()
    }

    /// Returns whether the server speaks a revision without `initialize`.
    pub fn is_modern(&self) -> bool {
        self.agreed().is_some_and(|agreed| agreed.version.is_modern())
    }

    /// Prepares to send a request. It is sent when one of the methods of [`Asking`] is polled; dropping
    /// their future cancels it at the server.
    pub fn ask(&self, request: Request) -> Asking<'_> {
        Asking { link: self, request, report: Box::new(|_| {}) }
    }

    /// Sends a notification.
    pub(super) async fn notify(
        &self,
        method: &'static str,
        params: &Value,
    ) -> Result<(), SendError> {
        let text = message::notification(method, params);
        self.transport.send(Outgoing { text, kind: OutgoingKind::Notification(method) }).await
    }

    /// Makes a legacy server send log messages from `level` on. A level that was set before is only
    /// lowered: the callers take what they want.
    pub async fn lower_log_level(&self, level: LogLevel) {
        if !self.agreed().is_some_and(|agreed| agreed.has(Capability::Logging)) {
            return;
        }
        {
            let mut known = self.log_level.lock();
            if known.is_some_and(|known| known <= level) {
                return;
            }
            *known = Some(level);
        }
        let name = Value::from(level.as_str()).to_string();
        let request = Request::new(method::SET_LEVEL).with("level", name);
        // A server that refuses it sends what it likes.
        let _ = timeout(LOG_LEVEL_TIMEOUT, self.ask(request).result()).await;
    }

    /// Responds to a request of the server.
    pub(super) async fn respond(&self, id: &RpcId, response: Result<String, RpcError>) {
        let text = match response {
            Ok(result) => message::response(id, &result),
            Err(error) => message::failure(Some(id), &error),
        };
        // A response that cannot be sent no longer counts as pending either.
        let _ = self.transport.send(Outgoing { text, kind: OutgoingKind::Response }).await;
        self.inbox.record_answered(id);
    }

    /// Reports that a message could not be sent, so that the server is checked.
    pub fn request_check(&self) {
        self.inbox.request_check();
    }

    /// Waits until a check is requested.
    pub async fn check_requested(&self) {
        self.inbox.check_requested().await;
    }

    /// Cancels a task at the server.
    pub fn abandon_task(&self, id: String) {
        // A full queue means that the server does not read cancellations either.
        let _ = self.abandoned.try_send(Abandoned::Task(id));
    }

    async fn cancel(&self, abandoned: Abandoned) {
        // A server that does not accept it completes the work, and its result is dropped.
        match abandoned {
            // The permits are dropped at the end.
            Abandoned::Request(id, _permits) => {
                let params =
                    serde_json::json!({"requestId": id, "reason": "the caller no longer waits"});
                let is_sent = self.notify(method::CANCELLED, &params).await.is_ok();
                if is_sent && self.inbox.is_abandoned(id) && !self.is_modern() {
                    // Most servers do not answer a cancelled request. They read in order, so the answer
                    // to a later one shows that they have read the cancellation.
                    let asked = self.ask(Request::new(method::PING).uncancellable()).result().await;
                    if matches!(asked, Ok(_) | Err(AskError::Refused(_))) {
                        self.inbox.record_cancelled(id);
                    }
                }
            }
            Abandoned::Task(id) => {
                let request =
                    Request::new(method::TASKS_CANCEL).about("taskId", &id).taking_tasks();
                let _ = self.ask(request.uncancellable()).result().await;
            }
        }
    }

    /// Sends cancellations for abandoned work, as long as the connection exists.
    pub async fn cancel_abandoned(self: &Arc<Self>, mut abandoned: AbandonedRequests) {
        let mut sending = JoinSet::new();
        let places = Arc::new(Semaphore::new(MAX_TASK_CANCELLATIONS));
        loop {
            tokio::select! {
                Some(abandoned) = abandoned.recv() => {
                    let is_task = matches!(abandoned, Abandoned::Task(_));
                    // A request has the permits of its call.
                    let place = if is_task { places.clone().try_acquire_owned().ok() } else { None };
                    if is_task && place.is_none() {
                        continue;
                    }
                    let link = self.clone();
                    sending.spawn(async move {
                        let _ = timeout(CANCEL_TIMEOUT, link.cancel(abandoned)).await;
                        drop(place);
                    });
                }
                Some(_) = sending.join_next() => {}
                else => return,
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(observer) = self.observer.get() {
            let has_failed = self.has_failed.load(Ordering::Relaxed);
            observer.session_ended(self.opened.elapsed(), connection_error(has_failed));
        }
    }
}

/// A request that is ready to be sent.
#[must_use = "it is not sent before its response is awaited"]
pub struct Asking<'a> {
    link: &'a Link,
    request: Request,
    report: Box<dyn FnMut(RequestReport) + Send + 'a>,
}

impl<'a> Asking<'a> {
    /// Hands on what the server reports about the request. All of it is handed on before the response
    /// is returned.
    pub fn reporting(self, report: impl FnMut(RequestReport) + Send + 'a) -> Self {
        Self { report: Box::new(report), ..self }
    }

    /// Sends the request, and returns its result.
    pub async fn result(self) -> Result<Value, AskError> {
        let id = self.link.next_id.fetch_add(1, Ordering::Relaxed);
        let span = self.span(id);
        let observed = ObservedAsk::begin(&self.link.observer, self.request.method);
        let asked = self.send(id, &span).await.and_then(|text| read_result(&text));
        observed.end(&asked);
        span.end(&asked);
        asked
    }

    /// Sends the request, and returns the JSON text of the response, which may be an error.
    pub async fn text(self) -> Result<Vec<u8>, AskError> {
        let id = self.link.next_id.fetch_add(1, Ordering::Relaxed);
        let span = self.span(id);
        let observed = ObservedAsk::begin(&self.link.observer, self.request.method);
        let asked = self.send(id, &span).await;
        observed.end_with_text(&asked);
        span.end_with_text(&asked);
        asked
    }

    /// Begins the span of the request.
    fn span(&self, id: i64) -> AskSpan {
        AskSpan::begin(&self.request, id, self.link.agreed(), self.link.transport())
    }

    async fn send(self, id: i64, span: &AskSpan) -> Result<Vec<u8>, AskError> {
        let Self { link, request, report } = self;
        let request = span.inject(request);
        let waiting = link.inbox.expect(id, request.kind);
        if let Some(caller) = &request.caller {
            waiting.belong(caller.clone(), request.logs, request.questions.clone());
        }
        let id_to_cancel = request.is_cancellable.then_some(id);
        let mut pending = Pending { link, id: id_to_cancel, permits: request.permits.clone() };
        let text = request.to_text(id, link.agreed());
        let head = RequestHead {
            id,
            method: request.method,
            name: request.name,
            headers: request.headers,
        };
        let sending = link.transport.send(Outgoing { text, kind: OutgoingKind::Request(head) });
        let received = receive(waiting, sending, report).await;
        pending.id = None;
        match received? {
            Reception::Text(text) => Ok(text),
            Reception::TooLarge => Err(AskError::TooLarge),
            Reception::Unreadable(reason) => Err(AskError::Unreadable(reason)),
        }
    }
}

/// Reads the result in the text of a response.
fn read_result(text: &[u8]) -> Result<Value, AskError> {
    match decode::read_response(text) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(AskError::Refused(error)),
        Err(reason) => Err(AskError::Unreadable(reason)),
    }
}

/// Waits for a response while the request is being sent. Reports of progress come first.
async fn receive(
    mut waiting: AwaitedResponse,
    sending: impl Future<Output = Result<(), SendError>>,
    mut report: impl FnMut(RequestReport),
) -> Result<Reception, AskError> {
    let mut sending = pin!(sending);
    let mut is_sent = false;
    loop {
        tokio::select! {
            biased;
            Some(progress) = waiting.reports.recv() => report(RequestReport::Progress(progress)),
            Some(text) = waiting.logs.recv() => report(RequestReport::Log(text)),
            response = &mut waiting.response => return response.map_err(|_| AskError::Lost),
            sent = &mut sending, if !is_sent => {
                is_sent = true;
                if let Err(error) = sent {
                    // The response may have arrived before sending failed.
                    return waiting.response.try_recv().map_err(|_| AskError::Send(error));
                }
            }
        }
    }
}

/// A request whose response is awaited. Dropping it before the response arrives cancels the request
/// at the server.
struct Pending<'a> {
    link: &'a Link,
    id: Option<i64>,
    permits: Option<HeldPermits>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take()
            && !self.link.transport.cancels_by_drop()
        {
            // A full queue means that the server does not read cancellations either.
            let _ = self.link.abandoned.try_send(Abandoned::Request(id, self.permits.take()));
        }
    }
}

#[cfg(test)]
mod tests;
