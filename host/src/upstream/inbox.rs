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
        RequestId, ServerJsonRpcMessage,
    },
    service::RxJsonRpcMessage,
};
use tokio::{
    sync::{Notify, SetOnce},
    time::{Instant, sleep},
};

use super::{
    decode::{self, Asked},
    envelope::{self, Kind},
    limits::{
        BYTES_PER_TOKEN, MAX_NOTIFICATION_BYTES, MAX_UNANSWERED, REQUEST_TOKENS, STREAM_TOKENS,
    },
    meter::{Flood, Meter},
};
use crate::secret::Scrubber;

/// Screens the messages of one connection and records the requests in flight.
pub(super) struct Inbox {
    scrubber: Arc<Scrubber>,
    meter: Mutex<Meter>,
    book: Mutex<Book>,
    changed: Notify,
    flood: SetOnce<Flood>,
}

/// Requests in flight, in both directions. Its size is bounded by the number of calls that may run
/// and by [`MAX_UNANSWERED`].
#[derive(Default)]
struct Book {
    /// Requests of the gateway, until the response has arrived or the request is abandoned.
    awaited: HashMap<RequestId, Asked>,
    /// Requests of the server, until the response is sent.
    unanswered: HashSet<RequestId>,
}

/// Result of screening a message.
#[derive(Debug)]
enum Screened<'t> {
    Nothing,
    /// A message of the gateway, in place of the received one.
    Replaced(Box<ServerJsonRpcMessage>),
    /// The received message, with secrets redacted.
    Passed {
        text: Cow<'t, [u8]>,
        answers: Option<(RequestId, Asked)>,
    },
}

impl Inbox {
    /// Creates the inbox of a new connection.
    pub(super) fn new(scrubber: Arc<Scrubber>) -> Arc<Self> {
        Arc::new(Self {
            scrubber,
            meter: Mutex::new(Meter::new(Instant::now())),
            book: Mutex::default(),
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
    pub(super) async fn room(&self) -> Result<(), Flood> {
        loop {
            if let Some(flood) = self.flood() {
                return Err(flood);
            }
            let wait = lock(&self.meter).wait(Instant::now());
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
    pub(super) fn sending(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => self.expect(&request.id, &request.request),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.forget(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Records that a request is in flight, so that its response is accepted.
    pub(super) fn expect(&self, id: &RequestId, request: &ClientRequest) {
        let asked = if matches!(request, ClientRequest::CallToolRequest(_)) {
            Asked::Call
        } else {
            Asked::Other
        };
        lock(&self.book).awaited.insert(envelope::comparable(id), asked);
    }

    /// Records that the response to a request is no longer expected: the request was cancelled or
    /// not sent.
    pub(super) fn forget(&self, id: &RequestId) {
        lock(&self.book).awaited.remove(&envelope::comparable(id));
    }

    /// Records that the server's request `id` was answered.
    pub(super) fn answered(&self, id: &RequestId) {
        lock(&self.book).unanswered.remove(&envelope::comparable(id));
    }

    /// Reads a message. Returns `None` if `rmcp` has nothing to do with it: it is not a message,
    /// was not requested, or has no use.
    pub(super) fn take(&self, text: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self.screen(text) {
            Screened::Nothing => None,
            Screened::Replaced(message) => Some(*message),
            Screened::Passed { text, answers } => decode::message(&text, answers),
        }
    }

    /// Reads an event of an HTTP stream like [`Self::take`], but returns its text, which `rmcp`
    /// parses itself.
    pub(super) fn take_event(&self, text: &str) -> Option<String> {
        match self.screen(text.as_bytes()) {
            Screened::Nothing => None,
            Screened::Replaced(message) => serde_json::to_string(&message).ok(),
            Screened::Passed { text: passed, .. } => String::from_utf8(passed.into_owned()).ok(),
        }
    }

    /// Reads the error in the body of a refused request, whatever request it names: some servers do
    /// not know the request.
    pub(super) fn take_refusal(&self, text: &[u8]) -> Option<ErrorData> {
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
                Screened::Nothing
            }
        }
    }

    /// Screens a response. A response to a request of the gateway is free of charge, because it was
    /// requested. Any other is dropped.
    fn answer<'t>(&self, id: RequestId, text: &'t [u8]) -> Screened<'t> {
        let asked = lock(&self.book).awaited.remove(&envelope::comparable(&id));
        let Some(asked) = asked else {
            self.charge(text.len());
            return Screened::Nothing;
        };
        match self.pass(text, Some((id.clone(), asked))) {
            Screened::Nothing => Screened::Replaced(Box::new(decode::unusable(text, id))),
            passed => passed,
        }
    }

    /// Screens a request of the server. Only its method is passed on: the gateway offers servers
    /// nothing but a response to `ping`.
    fn request(&self, id: RequestId, method: Cow<'_, str>, bytes: usize) -> Screened<'static> {
        self.spend(price(bytes).saturating_add(REQUEST_TOKENS));
        let unanswered = {
            let mut book = lock(&self.book);
            // A second request with the same identifier could not be distinguished from the first.
            let is_new = book.unanswered.insert(envelope::comparable(&id));
            if is_new { book.unanswered.len() } else { 0 }
        };
        match unanswered {
            0 => Screened::Nothing,
            1..=MAX_UNANSWERED => Screened::Replaced(Box::new(decode::bare_request(method, id))),
            _ => {
                drop(self.flood.set(Flood::Unanswered));
                Screened::Nothing
            }
        }
    }

    /// Screens a notification. `rmcp` needs those about its subscriptions. The gateway needs only
    /// the report that the list of tools has changed.
    fn notification<'t>(&self, method: &str, text: &'t [u8]) -> Screened<'t> {
        self.charge(text.len());
        let is_needed = match method {
            "notifications/tools/list_changed" => {
                self.changed.notify_one();
                false
            }
            "notifications/subscriptions/acknowledged" => true,
            // A server that cancelled its own request would leave it pending here forever. The
            // gateway answers every request at once anyway.
            "notifications/cancelled" => !self.cancels_its_own(text),
            _ => false,
        };
        if !is_needed || text.len() > MAX_NOTIFICATION_BYTES {
            return Screened::Nothing;
        }
        self.spend(REQUEST_TOKENS);
        self.pass(text, None)
    }

    fn cancels_its_own(&self, text: &[u8]) -> bool {
        envelope::cancelled(text)
            .is_some_and(|id| lock(&self.book).unanswered.contains(&envelope::comparable(&id)))
    }

    fn pass<'t>(&self, text: &'t [u8], answers: Option<(RequestId, Asked)>) -> Screened<'t> {
        if !decode::fits(text) {
            return Screened::Nothing;
        }
        self.scrubber
            .json(text)
            .map_or(Screened::Nothing, |text| Screened::Passed { text, answers })
    }

    fn spend(&self, tokens: u32) {
        lock(&self.meter).charge(tokens, Instant::now());
    }
}

/// Returns the tokens for a message of `bytes` bytes.
fn price(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX).saturating_add(1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The meter and the book are consistent after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
