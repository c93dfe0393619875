//! The record of one request of a model, bounded in bytes. Each exchange with a provider is one entry of it.

use std::{
    mem,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use airlock_conversation::Object;
use airlock_core::tenant::Tenant;
use airlock_json as json;
use airlock_model::{Redaction, SentRequest};
use airlock_strings::{MAX_MESSAGE_BYTES, cut};

/// Memory of a request, and of each exchange, beside its texts, in bytes.
const FRAME_BYTES: usize = 1 << 10;

/// A request that may be recorded.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) id: Uuid,
    pub(super) path: String,
    pub(super) tenant: Tenant,
    pub(super) begun: SystemTime,
}

/// One request. `Debug` shows no content.
#[derive(Clone)]
pub(super) struct DebugRecord {
    path: String,
    caller: String,
    begun: SystemTime,
    state: RecordState,
    exchanges: Vec<RecordedExchange>,
    current: CurrentExchange,
    airlock: Option<Object>,
    failure: Option<String>,
    bytes: usize,
    limit: usize,
    /// True if something had no room.
    is_cut: bool,
    /// True if the content was dropped in favour of other requests.
    is_evicted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordState {
    Running,
    Completed,
    Failed,
    Cancelled,
}

/// The exchange that events are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CurrentExchange {
    /// No request was sent yet.
    NotSent,
    /// Its place.
    Recorded(usize),
    /// Its request had no room.
    NoRoom,
}

/// An attempt to get a response from a provider.
#[derive(Clone)]
struct RecordedExchange {
    provider: String,
    /// `None` if none was sent.
    request: Option<RecordedRequest>,
    status: Option<u16>,
    received: Vec<u8>,
    received_bytes: usize,
    failure: Option<String>,
}

/// A request to a provider.
#[derive(Clone)]
struct RecordedRequest {
    url: String,
    redaction: Redaction,
    body: Bytes,
    body_bytes: usize,
}

impl DebugRecord {
    /// Creates the record of a request, which gets at most `limit` bytes.
    pub(super) fn new(head: &RequestHead, limit: usize) -> Self {
        let caller = head.tenant.to_string();
        Self {
            bytes: FRAME_BYTES + head.path.len() + caller.len(),
            path: head.path.clone(),
            caller,
            begun: head.begun,
            state: RecordState::Running,
            exchanges: Vec::new(),
            current: CurrentExchange::NotSent,
            airlock: None,
            failure: None,
            limit,
            is_cut: false,
            is_evicted: false,
        }
    }

    /// Memory of the record, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted
    }

    /// Drops the content. Nothing is recorded any more.
    pub(super) fn evict(&mut self) {
        self.is_evicted = true;
        self.exchanges = Vec::new();
        self.airlock = None;
    }

    pub(super) fn begun(&mut self) {
        self.current = CurrentExchange::NotSent;
    }

    pub(super) fn sent(&mut self, request: SentRequest<'_>) {
        let SentRequest { provider, url, body, redaction } = request;
        self.current = CurrentExchange::NoRoom;
        let frame = FRAME_BYTES + provider.len() + url.len();
        if self.take(frame) < frame {
            return;
        }
        let kept = self.take(body.len());
        // A slice would keep all of it.
        let is_whole = kept == body.len();
        let copy = if is_whole { body.clone() } else { Bytes::copy_from_slice(&body[..kept]) };
        let request = RecordedRequest { url, redaction, body: copy, body_bytes: body.len() };
        let place = self.push(provider, Some(request));
        self.current = CurrentExchange::Recorded(place);
    }

    pub(super) fn answered(&mut self, status: StatusCode) {
        if let Some(exchange) = self.current() {
            exchange.status = Some(status.as_u16());
        }
    }

    pub(super) fn received(&mut self, part: &[u8]) {
        if self.current().is_none() {
            return;
        }
        // The capacity of a text that grows doubles.
        let kept = self.take(2 * part.len()) / 2;
        if let Some(exchange) = self.current() {
            // What follows a gap would be read as what it is not.
            let is_whole = exchange.received.len() == exchange.received_bytes;
            exchange.received.extend_from_slice(&part[..if is_whole { kept } else { 0 }]);
            exchange.received_bytes += part.len();
        }
    }

    pub(super) fn failed(&mut self, provider: &str, reason: &str) {
        let place = match mem::replace(&mut self.current, CurrentExchange::NotSent) {
            CurrentExchange::Recorded(place) => place,
            CurrentExchange::NoRoom => return,
            CurrentExchange::NotSent => {
                let frame = FRAME_BYTES + provider.len();
                if self.take(frame) < frame {
                    return;
                }
                self.push(provider, None)
            }
        };
        let reason = self.reason(reason);
        if let Some(exchange) = self.exchanges.get_mut(place) {
            exchange.failure = reason;
        }
    }

    pub(super) fn ended(&mut self, airlock: Option<&Object>, failure: Option<&str>) {
        self.state = if failure.is_some() { RecordState::Failed } else { RecordState::Completed };
        self.failure = failure.and_then(|reason| self.reason(reason));
        // A tree takes several times the memory of its text.
        let bytes = airlock.map_or(0, json::weight::object_weight);
        if self.take(bytes) == bytes {
            self.airlock = airlock.cloned();
        }
    }

    /// Notes that a request which has not ended will not.
    pub(super) fn cancel(&mut self) {
        if self.state == RecordState::Running {
            self.state = RecordState::Cancelled;
        }
    }

    fn current(&mut self) -> Option<&mut RecordedExchange> {
        match self.current {
            CurrentExchange::Recorded(place) => self.exchanges.get_mut(place),
            CurrentExchange::NotSent | CurrentExchange::NoRoom => None,
        }
    }

    /// Adds an exchange. Returns its place.
    fn push(&mut self, provider: &str, request: Option<RecordedRequest>) -> usize {
        self.exchanges.push(RecordedExchange {
            provider: provider.to_owned(),
            request,
            status: None,
            received: Vec::new(),
            received_bytes: 0,
            failure: None,
        });
        self.exchanges.len() - 1
    }

    fn reason(&mut self, reason: &str) -> Option<String> {
        let end = reason.floor_char_boundary(MAX_MESSAGE_BYTES);
        let reason = cut(reason[..end].to_owned(), MAX_MESSAGE_BYTES);
        (self.take(reason.len()) == reason.len()).then_some(reason)
    }

    /// Takes room for so many bytes. Returns the number for which there is room.
    fn take(&mut self, bytes: usize) -> usize {
        let taken = bytes.min(self.limit.saturating_sub(self.bytes));
        self.bytes += taken;
        self.is_cut |= taken < bytes;
        taken
    }

    /// Describes the request.
    pub(super) fn to_json(&self, id: &str) -> Value {
        let begun = self.begun.duration_since(UNIX_EPOCH).unwrap_or_default();
        let state = match self.state {
            RecordState::Running => "running",
            RecordState::Completed => "completed",
            RecordState::Failed => "failed",
            RecordState::Cancelled => "cancelled",
        };
        json!({
            "id": id,
            "path": self.path,
            "caller": self.caller,
            "begun_at": begun.as_secs(),
            "state": state,
            "error": self.failure,
            "is_truncated": self.is_cut,
            "exchanges": self.exchanges.iter().map(RecordedExchange::to_json).collect::<Vec<_>>(),
            "airlock": self.airlock,
        })
    }
}

airlock_strings::debug_fields!(DebugRecord { state });

impl RecordedExchange {
    fn to_json(&self) -> Value {
        let request = self.request.as_ref();
        let sent = request.map(RecordedRequest::to_json);
        json!({
            "provider": self.provider,
            "url": request.map(|request| request.url.as_str()),
            "request": sent,
            "response": {
                "status": self.status,
                "body": request.map(|request| request.text(&self.received)).unwrap_or_default(),
                "bytes": self.received_bytes,
            },
            "error": self.failure,
        })
    }
}

impl RecordedRequest {
    fn to_json(&self) -> Value {
        json!({"body": self.text(&self.body), "bytes": self.body_bytes})
    }

    /// Returns a text of the exchange without the credentials of the provider.
    fn text(&self, bytes: &[u8]) -> String {
        self.redaction.apply(String::from_utf8_lossy(bytes).into_owned())
    }
}
