//! Screens every message of one server, and hands each response to the request that it answers.
//!
//! Only the responses that the gateway requested, the messages that the protocol needs, and no more
//! of the rest than can be answered are kept. Every message that passes is bounded as a tree before
//! one is built, and the server's secrets are redacted. A message that cannot be read is charged and
//! logged, and the request that it seems to answer fails at once.

mod awaited;

use std::{borrow::Cow, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, SetOnce, mpsc},
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use self::awaited::InFlight;
pub(crate) use self::awaited::{AwaitedResponse, NotAsked, ResponseKind};
pub use self::awaited::{LogMessages, OpenQuestion, Party, ServerQuestion, Taker};
use super::{
    decode::{self, Reception},
    flood::{Flood, TokenBucket},
    limits::{
        BYTES_PER_TOKEN, MAX_EVENTS, MAX_MESSAGE_BYTES, MAX_NOTIFICATION_BYTES, MAX_QUESTION_BYTES,
        MAX_UNANSWERED, REQUEST_TOKENS, STREAM_TOKENS,
    },
};
use airlock_core::{secret::Scrubber, tool::QuestionKind};
use airlock_mcp_oauth::Redactor;
use airlock_strings::cut;
use airlock_wire::{
    envelope::{self, MessageKind},
    error::RpcError,
    id::RpcId,
    method, scan,
};

/// Screens the messages of one connection and records the requests in flight.
pub struct Inbox {
    redactor: Arc<Redactor>,
    bucket: Mutex<TokenBucket>,
    in_flight: Mutex<InFlight>,
    changed: Notify,
    check_request: Notify,
    flood: SetOnce<Flood>,
    created: Instant,
    /// Notified when the server has to wait before it is read.
    throttled: Notify,
    received: Mutex<Instant>,
    noise: Mutex<Option<Noise>>,
    noisy: Notify,
    requests: mpsc::Sender<ServerRequest>,
    responses: mpsc::UnboundedSender<ServerResponse>,
    events: mpsc::Sender<ServerEvent>,
}

/// Texts of a server that are no messages, such as the output of a program that logs to stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noise {
    /// Their number.
    pub(super) lines: u64,
    /// The first one: redacted, on one line, and cut.
    pub first: String,
}

/// A request of the server that passed the screening.
#[derive(Debug)]
pub struct ServerRequest {
    /// Its identifier.
    pub(super) id: RpcId,
    /// Its method, cut to [`airlock_strings::MAX_EXCERPT_BYTES`].
    pub(super) method: String,
    /// Reason that it reaches no caller; `None` if it is no question.
    pub(super) not_asked: Option<NotAsked>,
}

/// The response to a question of the server, with the identifier of the question.
pub(super) type ServerResponse = (RpcId, Result<String, RpcError>);

/// A notification of the server that passed the screening.
#[derive(Debug)]
pub struct ServerEvent {
    /// Its method.
    pub method: String,
    /// The whole message.
    pub text: Vec<u8>,
}

/// Messages that a server sends on its own, in the order of their arrival.
pub struct Unsolicited {
    /// Its requests, each of which must be answered.
    pub requests: mpsc::Receiver<ServerRequest>,
    /// Responses to its questions, which callers have given.
    pub responses: mpsc::UnboundedReceiver<ServerResponse>,
    /// Its notifications. Those that do not fit are dropped.
    pub events: mpsc::Receiver<ServerEvent>,
}

impl Inbox {
    /// Creates the inbox of a new connection.
    pub fn new(redactor: Arc<Redactor>) -> (Arc<Self>, Unsolicited) {
        // A request that is received is counted as unanswered, so the queue is never full.
        let (requests, pending_requests) = mpsc::channel(MAX_UNANSWERED);
        // One response for each question, whose number is bounded.
        let (responses, pending_responses) = mpsc::unbounded_channel();
        let (events, pending_events) = mpsc::channel(MAX_EVENTS);
        let now = Instant::now();
        let this = Self {
            redactor,
            bucket: Mutex::new(TokenBucket::new(now)),
            in_flight: Mutex::default(),
            changed: Notify::new(),
            check_request: Notify::new(),
            flood: SetOnce::new(),
            created: now,
            received: Mutex::new(now),
            throttled: Notify::new(),
            noise: Mutex::default(),
            noisy: Notify::new(),
            requests,
            responses,
            events,
        };
        let unsolicited = Unsolicited {
            requests: pending_requests,
            responses: pending_responses,
            events: pending_events,
        };
        (Arc::new(this), unsolicited)
    }

    /// Returns the scrubber for the server's present secrets.
    pub fn scrubber(&self) -> Arc<Scrubber> {
        self.redactor.scrubber()
    }

    /// Waits until the server has reported that its list of tools has changed. Several reports
    /// count as one.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Makes [`Self::changed`] return, because a report of a change may have been missed.
    pub fn suspect_change(&self) {
        self.changed.notify_one();
    }

    /// Requests a check of the server, because a message could not be sent or its stream could not be opened.
    pub(super) fn request_check(&self) {
        self.check_request.notify_one();
    }

    /// Waits until a check is requested.
    pub(super) async fn check_requested(&self) {
        self.check_request.notified().await;
    }

    /// Waits until the server floods the gateway.
    pub async fn flooded(&self) -> Flood {
        *self.flood.wait().await
    }

    /// Returns the flood; `None` if the server has not flooded the gateway.
    pub(super) fn flood(&self) -> Option<Flood> {
        self.flood.get().copied()
    }

    /// Waits until the next message may be read. Fails if the server floods the gateway. Dropping
    /// the future changes nothing.
    pub(super) async fn ready(&self) -> Result<(), Flood> {
        loop {
            if let Some(flood) = self.flood() {
                return Err(flood);
            }
            let wait = self.bucket.lock().wait(Instant::now());
            match wait {
                Ok(wait) if wait.is_zero() => return Ok(()),
                Ok(wait) => {
                    self.throttled.notify_one();
                    sleep(wait).await;
                }
                // The first flood that was found is kept.
                Err(flood) => drop(self.flood.set(flood)),
            }
        }
    }

    /// Records that the server has sent something. Any byte counts.
    pub fn touch(&self) {
        *self.received.lock() = Instant::now();
    }

    /// Returns the time at which the server sent something last.
    pub fn last_received(&self) -> Instant {
        *self.received.lock()
    }

    /// Returns whether the server has sent nothing at all.
    pub(super) fn is_silent(&self) -> bool {
        self.last_received() == self.created
    }

    /// Waits until the server has to wait before it is read, because it sends more than its rate.
    /// Returns once for several such waits.
    pub async fn throttled(&self) {
        self.throttled.notified().await;
    }

    /// Charges the server for received bytes, even if they are not a message.
    pub(super) fn charge(&self, bytes: usize) {
        self.spend(price(bytes));
    }

    /// Charges the server for a stream of events that is opened.
    pub(super) fn charge_stream(&self) {
        self.spend(STREAM_TOKENS);
    }

    /// Records that a request is sent, so that its response is accepted. Returns what its sender
    /// waits for; the request is no longer expected once this is dropped.
    pub(super) fn expect(self: &Arc<Self>, id: i64, kind: ResponseKind) -> AwaitedResponse {
        let (waiting, awaited) = AwaitedResponse::new(self.clone(), id, kind);
        let mut in_flight = self.in_flight.lock();
        if !in_flight.is_closed {
            in_flight.awaited.insert(id, awaited);
        }
        drop(in_flight);
        waiting
    }

    /// Returns whether the response to a request is expected.
    pub(super) fn is_awaited(&self, id: i64) -> bool {
        self.in_flight.lock().awaited.contains_key(&id)
    }

    /// Ends every wait for a response, because the connection has ended.
    pub(super) fn disconnect(&self) {
        let mut in_flight = self.in_flight.lock();
        in_flight.is_closed = true;
        in_flight.awaited.clear();
    }

    /// Returns whether the connection has ended.
    pub fn is_disconnected(&self) -> bool {
        self.in_flight.lock().is_closed
    }

    /// Returns whether a request of a caller was abandoned, and the server has not answered it.
    pub(super) fn is_abandoned(&self, id: i64) -> bool {
        self.in_flight.lock().is_abandoned(id)
    }

    /// Records that the server has read the cancellation of an abandoned request.
    pub(super) fn record_cancelled(&self, id: i64) {
        self.in_flight.lock().cancelled(id);
    }

    /// Has a response sent to a question of the server.
    fn respond(&self, id: RpcId, response: Result<String, RpcError>) {
        // The connection may have ended.
        let _ = self.responses.send((id, response));
    }

    /// Records that the server's request `id` was answered.
    pub(super) fn record_answered(&self, id: &RpcId) {
        let mut in_flight = self.in_flight.lock();
        in_flight.unanswered.remove(id);
        in_flight.asked.remove(id);
    }

    /// Screens a message and hands it on.
    pub(super) fn receive(self: &Arc<Self>, text: &[u8]) {
        self.receive_within(None, text);
    }

    /// Does the same as [`Self::receive`]. `request` is the request of the gateway on whose stream the
    /// message came, where the transport tells.
    pub(super) fn receive_within(self: &Arc<Self>, request: Option<i64>, text: &[u8]) {
        self.touch();
        match MessageKind::read(text) {
            Some(MessageKind::Answer(id)) => self.answer(&id, text),
            Some(MessageKind::Request { id, method }) => self.request(id, method, text, request),
            Some(MessageKind::Notification(method)) => self.notification(&method, text),
            // An error that names no request: only HTTP tells what it answers.
            Some(MessageKind::Refusal) => self.charge(text.len()),
            None => self.unreadable(scan::answered(text), text, "it is not a JSON-RPC message"),
        }
    }

    /// Fails a request whose response is longer than a message may be. The caller charges the bytes.
    pub(super) fn refuse_too_long(&self, id: i64) {
        let awaited = self.in_flight.lock().awaited.remove(&id);
        if let Some(awaited) = awaited {
            warn!(limit_bytes = MAX_MESSAGE_BYTES, "upstream response dropped: it is too long");
            awaited.end(Reception::TooLarge);
        }
    }

    fn unreadable(&self, answered: Option<i64>, text: &[u8], reason: &'static str) {
        let bytes = text.len();
        self.charge(bytes);
        let awaited = answered.and_then(|id| self.in_flight.lock().awaited.remove(&id));
        if let Some(awaited) = awaited {
            warn!(bytes, reason, "upstream response cannot be read");
            awaited.end(Reception::Unreadable(reason));
        } else {
            debug!(bytes, reason, "upstream message dropped");
            self.hear(text);
        }
    }

    /// Counts a text that is no message. Blank lines between messages do not count.
    fn hear(&self, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        let mut noise = self.noise.lock();
        if let Some(noise) = &mut *noise {
            noise.lines = noise.lines.saturating_add(1);
        } else {
            // The quoted part is cut before it is redacted.
            let first = self.quote(&text[..text.len().min(MAX_NOTIFICATION_BYTES)]);
            *noise = Some(Noise { lines: 1, first });
            self.noisy.notify_one();
        }
    }

    /// Returns the texts that were no messages; `None` if there were none.
    pub fn noise(&self) -> Option<Noise> {
        self.noise.lock().clone()
    }

    /// Waits until the server has sent a text that is no message. Returns once.
    pub async fn noisy(&self) {
        self.noisy.notified().await;
    }

    /// Screens a response. A response to a request of the gateway is free of charge, because it was
    /// requested, and dropped if its caller has left. Any other is charged and dropped.
    fn answer(&self, id: &RpcId, text: &[u8]) {
        let awaited = id.number().and_then(|id| self.in_flight.lock().awaited.remove(&id));
        let Some(awaited) = awaited else {
            let is_late = id.number().is_some_and(|id| self.in_flight.lock().answered_late(id));
            if !is_late {
                self.charge(text.len());
            }
            return;
        };
        let reception = match awaited.kind {
            ResponseKind::Pages => decode::screened_pages(text, &self.scrubber()),
            ResponseKind::Whole => decode::screened(text, &self.scrubber()),
        };
        if let Reception::Unreadable(reason) = &reception {
            warn!(bytes = text.len(), reason, "upstream response cannot be read");
        }
        awaited.end(reception);
    }

    /// Screens the body of a response that names another request or none, although it can only
    /// answer `id`: some servers do not repeat the identifier in errors.
    pub(super) fn receive_as(&self, id: i64, text: &[u8]) {
        self.touch();
        self.answer(&id.into(), text);
    }

    /// Screens a request of the server. Only the parameters of a question to a caller are read.
    fn request(
        self: &Arc<Self>,
        id: RpcId,
        method: Cow<'_, str>,
        text: &[u8],
        within: Option<i64>,
    ) {
        self.spend(price(text.len()).saturating_add(REQUEST_TOKENS));
        let unanswered = {
            let mut in_flight = self.in_flight.lock();
            // A second request with the same identifier could not be distinguished from the first.
            let is_new = !in_flight.asked.contains(&id) && in_flight.unanswered.insert(id.clone());
            if is_new { in_flight.unanswered.len() } else { 0 }
        };
        if unanswered > MAX_UNANSWERED {
            drop(self.flood.set(Flood::Unanswered));
        }
        if !(1..=MAX_UNANSWERED).contains(&unanswered) {
            return;
        }
        let mut not_asked = None;
        if is_question(&method) {
            let Err(reason) = self.question(&id, text, within) else { return };
            not_asked = Some(reason);
        }
        let method = cut(method.into_owned(), airlock_strings::MAX_EXCERPT_BYTES);
        // The queue has a place for every unanswered request, and its receiver lives as long as the
        // connection.
        let _ = self.requests.try_send(ServerRequest { id, method, not_asked });
    }

    /// Hands a question to the caller that it is for.
    fn question(
        self: &Arc<Self>,
        id: &RpcId,
        text: &[u8],
        within: Option<i64>,
    ) -> Result<(), NotAsked> {
        if text.len() > MAX_QUESTION_BYTES {
            return Err(NotAsked::Unusable);
        }
        let (within, taker) = self.in_flight.lock().taker(within)?;
        let text = decode::passed(text, &self.scrubber()).ok_or(NotAsked::Unusable)?;
        let open = OpenQuestion::new(self, id, within).ok_or(NotAsked::TooMany)?;
        taker.take(ServerQuestion { open, text }).map_err(|question| {
            question.open.withdraw();
            NotAsked::TooMany
        })
    }

    /// Screens a notification.
    fn notification(&self, method: &str, text: &[u8]) {
        self.charge(text.len());
        if text.len() > MAX_NOTIFICATION_BYTES {
            debug!(bytes = text.len(), "upstream notification dropped: it is too long");
            return;
        }
        match method {
            method::TOOLS_CHANGED => self.changed.notify_one(),
            method::PROGRESS => {
                if let Some(text) = decode::passed(text, &self.scrubber()) {
                    self.in_flight.lock().report(&text);
                }
            }
            method::CANCELLED => {
                // The gateway answers a cancelled request all the same.
                let id = envelope::cancelled(text);
                debug!(id = ?id, "upstream server cancelled a request");
            }
            method::LOG_MESSAGE => {
                if let Some(text) = decode::passed(text, &self.scrubber()) {
                    self.in_flight.lock().log(text);
                }
            }
            method::PROMPTS_CHANGED | method::RESOURCES_CHANGED | method::RESOURCE_UPDATED => {
                if let Some(text) = decode::passed(text, &self.scrubber()) {
                    // A full queue means that the server sends more than is passed on.
                    let _ = self.events.try_send(ServerEvent { method: method.to_owned(), text });
                }
            }
            _ => {}
        }
    }

    /// Returns a server's text for use in another message: redacted, on one line, and cut.
    pub(super) fn quote(&self, text: &[u8]) -> String {
        self.scrubber().line(&String::from_utf8_lossy(text), airlock_strings::MAX_EXCERPT_BYTES)
    }

    fn spend(&self, tokens: u32) {
        self.bucket.lock().charge(tokens, Instant::now());
    }
}

/// Returns the tokens for a message of `bytes` bytes.
fn price(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX).saturating_add(1)
}

/// Returns whether a request of a server is a question.
fn is_question(method: &str) -> bool {
    QuestionKind::ALL.iter().any(|kind| kind.method() == method)
}

#[cfg(test)]
mod tests;
