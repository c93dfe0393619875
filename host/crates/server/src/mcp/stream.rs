//! Streams of the endpoint, as server-sent events.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::lease::StreamLease;
use airlock_core::request_memory::RequestCharge;
use airlock_http::events::{self, EventSource};
use airlock_mcp_server::{
    EventReader, Exchange, ListWatch, Listening, McpService, Outgoing, STOPPING, list_changed,
    no_memory, resource_updated,
};
use airlock_wire::{headers::LAST_EVENT, message};

/// Time after which a client opens a lost stream again, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// Stream of one request of the modern era. Dropping it cancels the request.
pub(super) struct ModernSource {
    exchange: Exchange,
    /// The message that was received before the stream began.
    first: Option<Outgoing>,
    /// That of a stream that waits for notifications.
    lease: Option<StreamLease>,
    charge: RequestCharge,
}

impl ModernSource {
    pub(super) fn new(
        exchange: Exchange,
        first: Option<Outgoing>,
        lease: Option<StreamLease>,
        charge: RequestCharge,
    ) -> Self {
        Self { exchange, first, lease, charge }
    }
}

impl EventSource for ModernSource {
    async fn next(&mut self) -> Option<Bytes> {
        let outgoing = if let Some(first) = self.first.take() {
            first
        } else {
            tokio::select! {
                () = ended(self.lease.as_ref()) => return None,
                outgoing = self.exchange.next() => outgoing?,
            }
        };
        Some(match outgoing {
            Outgoing::Before(text) | Outgoing::Ask(text) => events::data(&text),
            Outgoing::Last(answer) if self.charge.grow(answer.text.len()).is_ok() => {
                events::data(&answer.text)
            }
            Outgoing::Last(_) => {
                events::data(&message::failure(Some(self.exchange.id()), &no_memory()))
            }
        })
    }
}

/// Waits until a stream that waits for notifications has to end. Never completes for another one.
async fn ended(lease: Option<&StreamLease>) {
    match lease {
        Some(lease) => {
            lease.ended().await;
        }
        None => std::future::pending().await,
    }
}

/// Stream of one request of a session. Dropping it leaves the request running.
pub(super) struct LogSource {
    reader: EventReader,
    /// True if the stream begins with an event that only names its beginning, so that a client that
    /// loses the stream before the first message can resume it.
    is_primed: bool,
    has_ended: bool,
}

impl LogSource {
    pub(super) fn new(reader: EventReader, is_primed: bool) -> Self {
        Self { reader, is_primed, has_ended: false }
    }
}

impl EventSource for LogSource {
    async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.is_primed) {
            let text = format!("id: {}-0\nretry: {RETRY_MS}\ndata: \n\n", self.reader.stream());
            return Some(text.into());
        }
        if self.has_ended {
            return None;
        }
        let next = self.reader.next().await?;
        self.has_ended = next.is_last;
        let text = format!("id: {}-{}\ndata: {}\n\n", self.reader.stream(), next.number, next.text);
        Some(text.into())
    }
}

/// Returns the stream and the number of the last event that a client has received; `None` if it
/// names none of the gateway's.
pub(super) fn last_event(headers: &HeaderMap) -> Option<(u64, u64)> {
    let (stream, number) = headers.get(LAST_EVENT)?.to_str().ok()?.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// Stream of a session that waits for notifications.
pub(super) struct NoticeSource {
    service: Arc<McpService>,
    listening: Listening,
    watch: ListWatch,
    has_begun: bool,
    has_ended: bool,
    lease: StreamLease,
}

impl NoticeSource {
    pub(super) fn new(
        service: Arc<McpService>,
        listening: Listening,
        watch: ListWatch,
        lease: StreamLease,
    ) -> Self {
        Self { service, listening, watch, has_begun: false, has_ended: false, lease }
    }
}

impl NoticeSource {
    /// Ends the stream with a comment: the protocol has no message for the reason.
    fn end(&mut self, reason: &str) -> Bytes {
        self.has_ended = true;
        format!(": {reason}\n\n").into()
    }
}

impl EventSource for NoticeSource {
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(format!("retry: {RETRY_MS}\n\n").into());
        }
        if self.has_ended {
            return None;
        }
        loop {
            tokio::select! {
                () = self.listening.session().closed().cancelled() => return Some(self.end("the session was closed")),
                () = self.service.closing().cancelled() => return Some(self.end(STOPPING)),
                reason = self.lease.ended() => return Some(self.end(reason)),
                changed = self.watch.changed(self.service.toolboxes()) => {
                    if self.listening.is_current() {
                        self.listening.session().set_known(changed);
                        let notices = changed.kinds().map(|list| events::data(&list_changed(list)));
                        return Some(notices.collect::<Vec<_>>().concat().into());
                    }
                }
                // The newest stream takes them.
                uri = self.listening.session().subscriptions().updated(), if self.listening.is_current() => {
                    return Some(events::data(&resource_updated(&uri)));
                }
            }
        }
    }
}
