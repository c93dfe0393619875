//! Server-sent events of a response, bounded in size and time.

use bytes::{Buf as _, Bytes};
use serde::de::IgnoredAny;

use super::{HttpClient, ServiceResponse};
use crate::{Charge, Document, ModelError, document::keep_all};
use airlock_core::{threads, timer::RepeatedTimeout};
use airlock_json::Caps;
use airlock_wire::sse::{Dialect, Item, SseDecoder, SseEvent};

/// Data of the event after the last chunk of OpenAI's streams.
pub(crate) const DONE: &[u8] = b"[DONE]";

/// Events of one response. Dropping them closes the connection.
pub(crate) struct Events<'a> {
    pub(crate) client: &'a HttpClient,
    response: ServiceResponse,
    idle: RepeatedTimeout,
    decoder: SseDecoder,
    /// Bytes that are received and not decoded yet.
    received: Bytes,
    received_bytes: usize,
    held: Charge,
    /// Bytes that `held` holds for the decoder.
    held_bytes: usize,
    has_ended: bool,
}

impl<'a> Events<'a> {
    /// Reads the events of a response. Their memory is held in `held`.
    pub(crate) fn new(client: &'a HttpClient, response: ServiceResponse, held: Charge) -> Self {
        Self {
            client,
            response,
            idle: RepeatedTimeout::new(client.bounds.idle),
            decoder: SseDecoder::new(Dialect::Model, client.bounds.event_bytes),
            received: Bytes::new(),
            received_bytes: 0,
            held,
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
    pub(crate) async fn parse(&self, event: SseEvent) -> Result<Document, ModelError> {
        let data = String::from_utf8(event.data);
        let data = data.map_err(|_| self.client.bad_answer("an event that is not UTF-8"))?;
        let data = self.client.without_secrets_in(data);
        let caps = Caps::memory(self.client.bounds.answer_tree_bytes);
        // An account of its own, because a thread continues after the request is dropped.
        let own = self.held.beside();
        let length = data.len();
        let tenant = self.held.tenant();
        let read = threads::read(&tenant, length, move || Document::read(data, &caps, &own)).await;
        read.map_err(|error| self.client.unread(error))
    }

    /// Ends the stream. Later events are not read.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Holds `bytes` more until the events are dropped. Fails if there is no memory.
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), ModelError> {
        if self.held.grow(bytes) { Ok(()) } else { Err(self.client.no_memory()) }
    }

    /// Holds the memory of the chunks that an event became, each until it is dropped. Fails if there
    /// is none.
    pub(crate) fn keep_chunks(&self, chunks: &mut [Document]) -> Result<(), ModelError> {
        if keep_all(chunks, &self.held) { Ok(()) } else { Err(self.client.no_memory()) }
    }

    async fn any(&mut self) -> Result<Option<SseEvent>, ModelError> {
        if self.has_ended {
            return Ok(None);
        }
        loop {
            let mut bytes = &self.received[..];
            let item = self.decoder.next(&mut bytes);
            let read = self.received.len() - bytes.len();
            self.received.advance(read);
            if let Some(item) = item {
                return self.event(item).map(Some);
            }
            // Even an empty part would keep the buffer of the connection from being used again.
            self.received = Bytes::new();
            self.hold()?;
            if !self.receive().await? {
                return self.last();
            }
        }
    }

    /// Waits for more bytes. Returns false at the end of the body.
    async fn receive(&mut self) -> Result<bool, ModelError> {
        let received = self.idle.wait(self.response.chunk()).await;
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
        let item = self.decoder.finish();
        let event = item.map(|item| self.event(item)).transpose()?;
        Ok(event.filter(|event| {
            event.data.trim_ascii() == DONE
                || serde_json::from_slice::<IgnoredAny>(&event.data).is_ok()
        }))
    }

    /// Holds the memory of the decoder, which grows with the event.
    fn hold(&mut self) -> Result<(), ModelError> {
        let allocated = self.decoder.allocated();
        if allocated > self.held_bytes {
            self.keep(allocated - self.held_bytes)?;
            self.held_bytes = allocated;
        }
        Ok(())
    }

    /// Returns an event. Fails if it is larger than the limit.
    fn event(&self, item: Item) -> Result<SseEvent, ModelError> {
        match item {
            Item::Event(event) => Ok(event),
            Item::TooLong { .. } => {
                Err(self.client.bad_answer("an event that is larger than the gateway accepts"))
            }
        }
    }
}
