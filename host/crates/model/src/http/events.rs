//! Server-sent events of a response, bounded in size and time.

use std::{mem, pin::pin, sync::Arc};

use bytes::{Buf as _, Bytes};
use serde::de::IgnoredAny;
use tokio::task::coop::consume_budget;

#[cfg(feature = "bedrock")]
use super::aws_events::{self, AwsDecoder};
use super::{HttpClient, ReadDocument, ServiceResponse};
use crate::{Document, ModelError};
use airlock_core::{
    memory::Charge,
    threads::{self, INLINE_BYTES},
    timer::RepeatedTimeout,
};
use airlock_json::Caps;
use airlock_wire::sse::{Dialect, Item, SseDecoder, SseEvent};

/// Data of the event after the last chunk of OpenAI's streams.
pub(crate) const DONE: &[u8] = b"[DONE]";

/// Bytes of a stream that take a unit of what a task may do before it yields. Of 128 units, a task reads as many short
/// events, or 128 KiB, which take a few milliseconds.
const UNIT_BYTES: usize = 1 << 10;

/// Events of one response. Dropping them closes the connection.
pub(crate) struct ServiceEvents<'a> {
    pub(crate) client: &'a HttpClient,
    response: ServiceResponse,
    idle: RepeatedTimeout,
    decoder: EventDecoder,
    /// Bytes that are received and not decoded yet.
    received: Bytes,
    received_bytes: usize,
    /// Bytes that the last step of the decoder has read.
    decoded_bytes: usize,
    /// Shared with the threads that read long events, which continue after the stream is dropped.
    held: Arc<Charge>,
    /// Bytes that `held` holds for the decoder.
    held_bytes: usize,
    has_ended: bool,
}

/// Decoder of the framing of a stream. There is one for each stream, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum EventDecoder {
    Sse(SseDecoder),
    #[cfg(feature = "bedrock")]
    Aws(AwsDecoder),
}

/// An event, or a description of what was received in the place of one.
type DecodedEvent = Result<SseEvent, &'static str>;

impl EventDecoder {
    /// Creates the decoder for the content of a response.
    fn new(response: &ServiceResponse, limit_bytes: usize) -> Self {
        match response.content_type() {
            #[cfg(feature = "bedrock")]
            Some(aws_events::CONTENT_TYPE) => Self::Aws(AwsDecoder::new(limit_bytes)),
            _ => Self::Sse(SseDecoder::new(Dialect::Model, limit_bytes)),
        }
    }

    /// Reads bytes up to the end of the next event, and removes them from `bytes`. Returns `None` and
    /// removes all bytes if they complete no event.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<DecodedEvent> {
        match self {
            Self::Sse(decoder) => decoder.next(bytes).map(decoded),
            #[cfg(feature = "bedrock")]
            Self::Aws(decoder) => decoder.next(bytes),
        }
    }

    /// Returns the event that the end of the stream completes.
    fn finish(&mut self) -> Option<DecodedEvent> {
        match self {
            Self::Sse(decoder) => decoder.finish().map(decoded),
            #[cfg(feature = "bedrock")]
            Self::Aws(_) => None,
        }
    }

    fn allocated(&self) -> usize {
        match self {
            Self::Sse(decoder) => decoder.allocated(),
            #[cfg(feature = "bedrock")]
            Self::Aws(decoder) => decoder.allocated(),
        }
    }
}

fn decoded(item: Item) -> DecodedEvent {
    match item {
        Item::Event(event) => Ok(event),
        Item::TooLong { .. } => Err("an event that is larger than the gateway accepts"),
    }
}

impl<'a> ServiceEvents<'a> {
    /// Reads the events of a response. Their memory is held in `held`.
    pub(crate) fn new(client: &'a HttpClient, mut response: ServiceResponse, held: Charge) -> Self {
        let decoder = EventDecoder::new(&response, client.bounds.event_bytes);
        response.drop_headers();
        Self {
            client,
            response,
            idle: RepeatedTimeout::new(client.bounds.idle),
            decoder,
            received: Bytes::new(),
            received_bytes: 0,
            decoded_bytes: 0,
            held: Arc::new(held),
            held_bytes: 0,
            has_ended: false,
        }
    }

    /// Returns the next event that has data; `None` at the end of the stream. Data that the end of
    /// the stream cuts off is left out. Fails if the connection breaks, if nothing arrives within
    /// `timeouts.idle`, or if an event or the stream is too large.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, ModelError> {
        while let Some(event) = self.any().await? {
            if !event.data.trim_ascii().is_empty() {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Parses the data of an event and redacts credentials in it. Fails if it is not a JSON object
    /// in UTF-8, or is too large.
    pub(crate) fn parse(
        &self,
        event: SseEvent,
    ) -> impl Future<Output = Result<Document, ModelError>> + Send {
        self.read(event.data, Document::read)
    }

    /// As [`parse`](Self::parse), for a chunk of a chat completion, whose tree is built when it is needed.
    pub(crate) fn parse_chunk(
        &self,
        event: SseEvent,
    ) -> impl Future<Output = Result<Document, ModelError>> + Send {
        self.read(event.data, Document::read_chunk)
    }

    /// Reads the data of an event: here if it is short, else on a blocking thread. A credential that is spread over events
    /// is not found.
    async fn read(&self, data: Vec<u8>, read: ReadDocument) -> Result<Document, ModelError> {
        let data = String::from_utf8(data);
        let data = data.map_err(|_| self.client.bad_answer("an event that is not UTF-8"))?;
        let caps = Caps::memory(self.client.bounds.answer_tree_bytes);
        let document = if data.len() <= INLINE_BYTES {
            read(self.client.without_credentials(data), &caps, &self.held)
        } else {
            let redaction = self.client.redaction();
            // An account of its own, because a thread continues after the request is dropped.
            let own = self.held.beside();
            let tenant = self.held.tenant();
            let reading = threads::run(&tenant, move || read(redaction.redact(data), &caps, &own));
            // Boxed: most events are short, and a stream would have room for the wait of a long one.
            Box::pin(reading).await
        };
        document.map_err(|error| self.client.unread(error))
    }

    /// Ends the stream. Later events are not read.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns the account of what is held until the events are dropped.
    pub(crate) fn held(&self) -> &Arc<Charge> {
        &self.held
    }

    async fn any(&mut self) -> Result<Option<SseEvent>, ModelError> {
        if self.has_ended {
            return Ok(None);
        }
        loop {
            self.yield_if_due().await;
            let mut bytes = &self.received[..];
            let event = self.decoder.next(&mut bytes);
            self.decoded_bytes = self.received.len() - bytes.len();
            self.received.advance(self.decoded_bytes);
            if let Some(event) = event {
                return event.map(Some).map_err(|what| self.client.bad_answer(what));
            }
            // Even an empty part would keep the buffer of the connection from being used again.
            self.received = Bytes::new();
            self.hold()?;
            if !self.receive().await? {
                return self.last();
            }
        }
    }

    /// Yields to other tasks if this one has read enough. A stream that is always ready, and whose events become no chunk
    /// for the caller, such as comments, pings or pieces of a call that is held back, would keep its thread to its end.
    async fn yield_if_due(&mut self) {
        for _ in 0..=mem::take(&mut self.decoded_bytes) / UNIT_BYTES {
            consume_budget().await;
        }
    }

    /// Waits for more bytes. Returns false at the end of the body.
    async fn receive(&mut self) -> Result<bool, ModelError> {
        // Pinned here: each future that takes another one as an argument has room for it twice.
        let received = self.idle.wait(pin!(self.response.chunk())).await;
        let received = received.ok_or_else(|| self.client.is_silent("timeouts.idle"))?;
        let received = received.map_err(|error| self.client.trouble(error, self.response.uri()))?;
        let Some(bytes) = received else {
            self.has_ended = true;
            return Ok(false);
        };
        self.received_bytes = self.received_bytes.saturating_add(bytes.len());
        if self.received_bytes > self.client.bounds.answer_bytes {
            return Err(self.client.bad_answer("a stream that is larger than the gateway accepts"));
        }
        self.received = bytes;
        Ok(true)
    }

    /// Returns the event that the end of the stream completes; `None` if it is not `[DONE]` or
    /// whole JSON, because then it was cut off.
    fn last(&mut self) -> Result<Option<SseEvent>, ModelError> {
        let event = self.decoder.finish().transpose();
        let event = event.map_err(|what| self.client.bad_answer(what))?;
        Ok(event.filter(|event| {
            event.data.trim_ascii() == DONE
                || serde_json::from_slice::<IgnoredAny>(&event.data).is_ok()
        }))
    }

    /// Holds the memory of the decoder, which grows with the event.
    fn hold(&mut self) -> Result<(), ModelError> {
        let allocated = self.decoder.allocated();
        if allocated > self.held_bytes {
            if !self.held.grow(allocated - self.held_bytes) {
                return Err(self.client.no_memory());
            }
            self.held_bytes = allocated;
        }
        Ok(())
    }
}
