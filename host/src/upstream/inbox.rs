//! Screens every message of one server before `rmcp` sees it.
//!
//! `rmcp` starts a task for each notification and each request that it receives, and builds several
//! trees of every response. It therefore receives only the responses that the gateway requested,
//! the messages that the protocol needs, and no more of the rest than can be answered. Every
//! message that passes is bounded as a tree, and the server's secrets are redacted.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, JsonRpcMessage,
        ProgressToken, RequestId, ServerJsonRpcMessage,
    },
    service::RxJsonRpcMessage,
};
use tokio::{
    sync::{Notify, SetOnce},
    time::{Instant, sleep},
};

use super::{
    decode::{self, RequestKind},
    envelope::{self, Kind},
    flood::{Flood, TokenBucket},
    limits::{
        BYTES_PER_TOKEN, MAX_NOTIFICATION_BYTES, MAX_UNANSWERED, REQUEST_TOKENS, STREAM_TOKENS,
    },
    progress::{Feeds, Reports},
};
use crate::secret::Scrubber;

/// Screens the messages of one connection and records the requests in flight.
pub(super) struct Inbox {
    scrubber: Arc<Scrubber>,
    bucket: Mutex<TokenBucket>,
    in_flight: Mutex<InFlight>,
    changed: Notify,
    flood: SetOnce<Flood>,
}

/// Requests in flight, in both directions. Its size is bounded by the number of calls that may run
/// and by [`MAX_UNANSWERED`].
#[derive(Default)]
struct InFlight {
    /// Requests of the gateway, until the response has arrived or the request is abandoned.
    awaited: HashMap<RequestId, RequestKind>,
    /// Requests of the server, until the response is sent.
    unanswered: HashSet<RequestId>,
    /// Progress of the gateway's tool calls.
    progress: Feeds,
}

/// Result of screening a message.
#[derive(Debug)]
enum Screened<'t> {
    /// No message: it was dropped.
    Dropped,
    /// A message of the gateway, in place of the received one.
    Replaced(Box<ServerJsonRpcMessage>),
    /// The received message, with secrets redacted.
    Passed { text: Cow<'t, [u8]>, answers: Option<(RequestId, RequestKind)> },
}

impl Inbox {
    /// Creates the inbox of a new connection.
    pub(super) fn new(scrubber: Arc<Scrubber>) -> Arc<Self> {
        Arc::new(Self {
            scrubber,
            bucket: Mutex::new(TokenBucket::new(Instant::now())),
            in_flight: Mutex::default(),
            changed: Notify::new(),
            flood: SetOnce::new(),
        })
    }

    /// Returns the scrubber for the server's secrets.
    pub(super) fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// Waits until the server has reported that its list of tools has changed. Several reports
    /// count as one.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Makes [`Self::changed`] return, because a report of a change may have been missed.
    pub(super) fn suspect_change(&self) {
        self.changed.notify_one();
    }

    /// Waits until the server floods the gateway.
    pub(super) async fn flooded(&self) -> Flood {
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
            let wait = lock(&self.bucket).wait(Instant::now());
            match wait {
                Ok(wait) if wait.is_zero() => return Ok(()),
                Ok(wait) => sleep(wait).await,
                // The first flood that was found is kept.
                Err(flood) => drop(self.flood.set(flood)),
            }
        }
    }

    /// Charges the server for received bytes, even if they are not a message.
    pub(super) fn charge(&self, bytes: usize) {
        self.spend(price(bytes));
    }

    /// Charges the server for a stream of events that is opened.
    pub(super) fn charge_stream(&self) {
        self.spend(STREAM_TOKENS);
    }

    /// Records a message to the server before it is sent.
    pub(super) fn record_sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => self.expect_response(&request.id, &request.request),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.forget_request(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Records that a request is in flight, so that its response is accepted.
    pub(super) fn expect_response(&self, id: &RequestId, request: &ClientRequest) {
        let kind = if matches!(request, ClientRequest::CallToolRequest(_)) {
            RequestKind::ToolCall
        } else {
            RequestKind::Other
        };
        let (mut in_flight, id) = (lock(&self.in_flight), envelope::comparable(id));
        in_flight.progress.open(&id, request);
        in_flight.awaited.insert(id, kind);
    }

    /// Records that the response to a request is no longer expected: the request was cancelled or
    /// not sent.
    pub(super) fn forget_request(&self, id: &RequestId) {
        let (mut in_flight, id) = (lock(&self.in_flight), envelope::comparable(id));
        in_flight.progress.close(&id);
        in_flight.awaited.remove(&id);
    }

    /// Takes the progress of the request that is sent with a token; `None` if it is taken already.
    pub(super) fn progress(&self, token: &ProgressToken) -> Option<Reports> {
        lock(&self.in_flight).progress.take(token)
    }

    /// Ends the progress of a request that may not have been sent.
    pub(super) fn forget_progress(&self, token: &ProgressToken) {
        lock(&self.in_flight).progress.close_token(token);
    }

    /// Records that the server's request `id` was answered.
    pub(super) fn record_answered(&self, id: &RequestId) {
        lock(&self.in_flight).unanswered.remove(&envelope::comparable(id));
    }

    /// Reads a message. Returns `None` if `rmcp` has nothing to do with it: it is not a message,
    /// was not requested, or has no use.
    pub(super) fn receive(&self, text: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self.screen(text) {
            Screened::Dropped => None,
            Screened::Replaced(message) => Some(*message),
            Screened::Passed { text, answers } => decode::message(&text, answers),
        }
    }

    /// Reads an event of an HTTP stream like [`Self::receive`], but returns its text, which `rmcp`
    /// parses itself.
    pub(super) fn receive_event(&self, text: &str) -> Option<String> {
        match self.screen(text.as_bytes()) {
            Screened::Dropped => None,
            Screened::Replaced(message) => serde_json::to_string(&message).ok(),
            Screened::Passed { text: passed, .. } => String::from_utf8(passed.into_owned()).ok(),
        }
    }

    /// Reads the error in the body of a refused request, whatever request it names: some servers do
    /// not know the request.
    pub(super) fn receive_refusal(&self, text: &[u8]) -> Option<ErrorData> {
        let Screened::Passed { text, .. } = self.pass(text, None) else { return None };
        decode::refusal(&text)
    }

    fn screen<'t>(&self, text: &'t [u8]) -> Screened<'t> {
        match Kind::of(text) {
            Some(Kind::Answer(id)) => self.answer(id, text),
            Some(Kind::Request { id, method }) => self.request(id, method, text.len()),
            Some(Kind::Notification(method)) => self.notification(&method, text),
            Some(Kind::Refusal) if text.len() <= MAX_NOTIFICATION_BYTES => {
                self.charge(text.len());
                self.pass(text, None)
            }
            Some(Kind::Refusal) | None => {
                self.charge(text.len());
                Screened::Dropped
            }
        }
    }

    /// Screens a response. A response to a request of the gateway is free of charge, because it was
    /// requested. Any other is dropped.
    fn answer<'t>(&self, id: RequestId, text: &'t [u8]) -> Screened<'t> {
        let kind = {
            let (mut in_flight, id) = (lock(&self.in_flight), envelope::comparable(&id));
            in_flight.progress.close(&id);
            in_flight.awaited.remove(&id)
        };
        let Some(kind) = kind else {
            self.charge(text.len());
            return Screened::Dropped;
        };
        match self.pass(text, Some((id.clone(), kind))) {
            Screened::Dropped => Screened::Replaced(Box::new(decode::unusable(text, id))),
            passed => passed,
        }
    }

    /// Screens a request of the server. Only its method is passed on: the gateway offers servers
    /// nothing but a response to `ping`.
    fn request(&self, id: RequestId, method: Cow<'_, str>, bytes: usize) -> Screened<'static> {
        self.spend(price(bytes).saturating_add(REQUEST_TOKENS));
        let unanswered = {
            let mut in_flight = lock(&self.in_flight);
            // A second request with the same identifier could not be distinguished from the first.
            let is_new = in_flight.unanswered.insert(envelope::comparable(&id));
            if is_new { in_flight.unanswered.len() } else { 0 }
        };
        match unanswered {
            0 => Screened::Dropped,
            1..=MAX_UNANSWERED => Screened::Replaced(Box::new(decode::bare_request(method, id))),
            _ => {
                drop(self.flood.set(Flood::Unanswered));
                Screened::Dropped
            }
        }
    }

    /// Screens a notification. `rmcp` needs those about its subscriptions. The gateway needs progress,
    /// and the report that the list of tools has changed.
    fn notification<'t>(&self, method: &str, text: &'t [u8]) -> Screened<'t> {
        self.charge(text.len());
        let is_needed = match method {
            "notifications/tools/list_changed" => {
                self.changed.notify_one();
                false
            }
            "notifications/progress" => {
                if text.len() <= MAX_NOTIFICATION_BYTES
                    && let Screened::Passed { text, .. } = self.pass(text, None)
                {
                    lock(&self.in_flight).progress.report(&text);
                }
                false
            }
            "notifications/subscriptions/acknowledged" => true,
            // A server that cancelled its own request would leave it pending here forever. The
            // gateway answers every request at once anyway.
            "notifications/cancelled" => !self.cancels_its_own(text),
            _ => false,
        };
        if !is_needed || text.len() > MAX_NOTIFICATION_BYTES {
            return Screened::Dropped;
        }
        self.spend(REQUEST_TOKENS);
        self.pass(text, None)
    }

    fn cancels_its_own(&self, text: &[u8]) -> bool {
        envelope::cancelled(text)
            .is_some_and(|id| lock(&self.in_flight).unanswered.contains(&envelope::comparable(&id)))
    }

    fn pass<'t>(&self, text: &'t [u8], answers: Option<(RequestId, RequestKind)>) -> Screened<'t> {
        if !decode::fits(text) {
            return Screened::Dropped;
        }
        self.scrubber
            .json(text)
            .map_or(Screened::Dropped, |text| Screened::Passed { text, answers })
    }

    fn spend(&self, tokens: u32) {
        lock(&self.bucket).charge(tokens, Instant::now());
    }
}

/// Returns the tokens for a message of `bytes` bytes.
fn price(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX).saturating_add(1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The bucket and the requests in flight are consistent after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
