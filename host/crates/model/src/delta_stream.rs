//! Replies of APIs other than chat completions, streamed and whole: they become deltas.

use std::{mem, sync::Arc};

use serde_json::Value;

use super::{
    Document, ModelError,
    backend::{ChunkSource, Response},
    http::{self, DONE, EncodedRequest, ErrorOf, HttpClient, ServiceEvents, ServiceResponse},
    reply::ReplyChunk,
    translation::ResponseError,
};
use airlock_conversation::{Delta, Object, ReplyError, gemini, messages, responses};
use airlock_core::{
    memory::Charge,
    threads::{self, INLINE_BYTES},
};
use airlock_json::weight::weight;

/// Memory of an open item of a Response, beside the texts that it keeps.
const ITEM_BYTES: usize = 128;
/// A stream that was cut.
const CUT: ReplyError = ReplyError::Invalid { what: "a stream that ended before the response did" };

/// Reason why an event or a whole reply was not read.
#[derive(Debug)]
enum UnreadReply {
    /// The memory of the request has no room for what is kept of it.
    NoMemory,
    Reply(ReplyError),
}

/// Reader of the replies of an API.
pub(super) trait EventReader: Default + Send + 'static {
    /// Reads a reply that was not streamed. Fails if it reports an error, or is none of this API.
    fn whole(&mut self, reply: Object) -> Result<Vec<Delta>, ReplyError>;

    /// Reads the data of an event. Fails if it reports an error, or cannot follow the events before it.
    fn event(&mut self, data: Object) -> Result<Vec<Delta>, ReplyError>;

    /// Reads the end of the stream. Fails if the reply is not complete.
    fn end(&mut self) -> Result<Vec<Delta>, ReplyError> {
        Err(CUT)
    }

    /// Returns whether the reply is complete.
    fn has_ended(&self) -> bool;

    /// Returns the bytes of an event that are kept until the stream ends.
    fn kept_bytes(event: &Object) -> usize;
}

/// Deltas of one stream.
pub(super) struct DeltaStream<'a, R> {
    events: ServiceEvents<'a>,
    reader: R,
    has_ended: bool,
}

impl<'a, R: EventReader> DeltaStream<'a, R> {
    /// Reads the events of a stream.
    pub(super) fn new(events: ServiceEvents<'a>, reader: R) -> Self {
        Self { events, reader, has_ended: false }
    }

    /// Returns the deltas of the next event, or of the end.
    async fn chunk(&mut self) -> Result<ReplyChunk, ModelError> {
        let client = self.events.client;
        // Some proxies send `[DONE]` in streams of every API.
        let event = self.events.next().await?.filter(|event| event.data.trim_ascii() != DONE);
        let Some(event) = event else {
            self.has_ended = true;
            let deltas = self.reader.end().map_err(|error| into_model_error(error, client))?;
            return Ok(deltas.into());
        };
        let event = self.events.parse(event).await?;
        let chunk = read_event(&mut self.reader, event, self.events.held()).await;
        self.has_ended = self.reader.has_ended();
        chunk.map_err(|error| error.into_model_error(client))
    }
}

impl<R: EventReader> ChunkSource for DeltaStream<'_, R> {
    async fn next(&mut self) -> Result<Option<ReplyChunk>, ModelError> {
        while !self.has_ended {
            let chunk = self.chunk().await?;
            if self.has_ended {
                self.events.end();
            }
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }
}

/// Reads an event: here if its text is short, else on a blocking thread, as it was parsed. What is kept of it is held in
/// `held`. If the future is dropped, the reader has nothing of the events before.
async fn read_event<R: EventReader>(
    reader: &mut R,
    event: Document,
    held: &Arc<Charge>,
) -> Result<ReplyChunk, UnreadReply> {
    if event.text_bytes() <= INLINE_BYTES {
        return deltas_of(reader, event, held);
    }
    let mut taken = mem::take(reader);
    let held = held.clone();
    let tenant = held.tenant();
    let reading = threads::run(&tenant, move || {
        let read = deltas_of(&mut taken, event, &held);
        (taken, read)
    });
    // Boxed: most events are short, and the future would have room for the wait of a long one.
    let (taken, read) = Box::pin(reading).await;
    *reader = taken;
    read
}

/// Returns the deltas of an event. What is kept of it is held in `held`.
fn deltas_of<R: EventReader>(
    reader: &mut R,
    event: Document,
    held: &Charge,
) -> Result<ReplyChunk, UnreadReply> {
    if !held.grow(R::kept_bytes(event.object())) {
        return Err(UnreadReply::NoMemory);
    }
    read_charged(event, held, |data| reader.event(data))
}

/// Reads a document, and holds the memory by which its deltas are larger.
fn read_charged(
    document: Document,
    held: &Charge,
    read: impl FnOnce(Object) -> Result<Vec<Delta>, ReplyError>,
) -> Result<ReplyChunk, UnreadReply> {
    let bytes = document.bytes();
    let mut chunk = ReplyChunk::read(document, read).map_err(UnreadReply::Reply)?;
    if chunk.keep_growth(bytes, held) { Ok(chunk) } else { Err(UnreadReply::NoMemory) }
}

/// Reads the response to a request with a new `reader`: a stream as one, and any other as a whole reply. Fails as [`HttpClient::receive`]
/// and the reader do.
pub(super) async fn decode<'a, R: EventReader>(
    client: &'a HttpClient,
    response: ServiceResponse,
    outgoing: &EncodedRequest,
    error_of: ErrorOf,
    held: &Charge,
    mut reader: R,
) -> Result<Response<'a>, ModelError> {
    if outgoing.is_streamed && http::is_stream(&response) {
        let events = ServiceEvents::new(client, response, held.beside());
        return Ok(Response::streamed(DeltaStream::new(events, reader)));
    }
    let answer = client.receive(response, error_of, held).await?;
    let own = held.beside();
    let tenant = held.tenant();
    let reading = threads::read(&tenant, answer.text_bytes(), move || {
        read_charged(answer, &own, |reply| reader.whole(reply))
    });
    reading.await.map(Response::Whole).map_err(|error| error.into_model_error(client))
}

/// Returns the failure of a request whose reply was not read.
pub(super) fn into_model_error(error: ReplyError, client: &HttpClient) -> ModelError {
    ResponseError::from(error).into_model_error(client)
}

impl UnreadReply {
    fn into_model_error(self, client: &HttpClient) -> ModelError {
        match self {
            Self::NoMemory => client.no_memory(),
            Self::Reply(error) => into_model_error(error, client),
        }
    }
}

impl EventReader for messages::ReplyReader {
    fn whole(&mut self, reply: Object) -> Result<Vec<Delta>, ReplyError> {
        messages::ReplyReader::whole(self, reply)
    }

    fn event(&mut self, data: Object) -> Result<Vec<Delta>, ReplyError> {
        messages::ReplyReader::event(self, &data)
    }

    fn has_ended(&self) -> bool {
        messages::ReplyReader::has_ended(self)
    }

    /// A block of thinking is kept until its signature has come, the input of a call until its pieces come, and the
    /// reason of the end until the message ends.
    fn kept_bytes(event: &Object) -> usize {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let delta = event.get("delta");
        match kind {
            "content_block_start" => event.get("content_block").map_or(0, weight),
            "message_delta" => delta.map_or(0, weight),
            _ => {
                let texts = ["thinking", "signature"].map(|name| delta?.get(name)?.as_str());
                texts.into_iter().flatten().map(str::len).sum()
            }
        }
    }
}

impl EventReader for responses::ReplyReader {
    fn whole(&mut self, reply: Object) -> Result<Vec<Delta>, ReplyError> {
        responses::ReplyReader::whole(self, reply)
    }

    fn event(&mut self, data: Object) -> Result<Vec<Delta>, ReplyError> {
        responses::ReplyReader::event(self, data)
    }

    fn has_ended(&self) -> bool {
        responses::ReplyReader::has_ended(self)
    }

    /// Identifier and name of an item are kept while it is open.
    fn kept_bytes(event: &Object) -> usize {
        if event.get("type").is_none_or(|kind| kind != "response.output_item.added") {
            return 0;
        }
        let Some(item) = event.get("item") else { return 0 };
        let texts = ["id", "name"].into_iter().filter_map(|name| item.get(name)?.as_str());
        ITEM_BYTES + texts.map(str::len).sum::<usize>()
    }
}

impl EventReader for gemini::ReplyReader {
    fn whole(&mut self, reply: Object) -> Result<Vec<Delta>, ReplyError> {
        let mut deltas = self.response(reply)?;
        deltas.append(&mut self.finish()?);
        Ok(deltas)
    }

    fn event(&mut self, data: Object) -> Result<Vec<Delta>, ReplyError> {
        self.response(data)
    }

    /// Gemini ends the connection after the last event.
    fn end(&mut self) -> Result<Vec<Delta>, ReplyError> {
        self.finish()
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn kept_bytes(_: &Object) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use airlock_core::memory::{Limited, MemoryBudget};
    use airlock_json::Caps;

    fn document(data: &Value, held: &Charge) -> Document {
        Document::read(data.to_string(), &Caps::memory(1 << 20), held).expect("an object")
    }

    #[tokio::test]
    async fn a_long_event_is_not_read_on_a_worker_and_the_reader_keeps_its_state() {
        let memory = Limited::new(1 << 20);
        let held = Arc::new(MemoryBudget::new(memory.clone()).charge());
        let mut reader = messages::ReplyReader::default();
        let start = json!({"type": "message_start", "message": {"id": "m", "model": "c"}});
        read_event(&mut reader, document(&start, &held), &held).await.expect("it begins");
        for (index, (bytes, is_here)) in [(10, true), (INLINE_BYTES, false)].into_iter().enumerate()
        {
            let block = json!({"type": "tool_use", "id": "t", "name": "f", "input": {"a": "x".repeat(bytes)}});
            let event =
                json!({"type": "content_block_start", "index": index, "content_block": block});
            let event = document(&event, &held);
            let occupied = threads::occupy(&held.tenant()).await;
            let mut reading = Box::pin(read_event(&mut reader, event, &held));
            let at_once = reading.as_mut().now_or_never();
            assert_eq!(at_once.is_some(), is_here, "{bytes}");
            drop(occupied);
            let read = if let Some(read) = at_once { read } else { reading.as_mut().await };
            drop(reading);
            let deltas = read.expect("a call").into_deltas();
            assert!(
                matches!(&deltas[..], [Delta::Call { index: found, .. }] if *found == index as u64)
            );
            assert!(memory.taken() >= bytes, "the input is kept until the block stops");
            let stop = document(&json!({"type": "content_block_stop", "index": index}), &held);
            let stopped = read_event(&mut reader, stop, &held).await.expect("it stops");
            assert!(
                matches!(stopped.deltas(), [Delta::Arguments { text, .. }] if text.len() > bytes)
            );
        }
        drop(held);
        assert_eq!(memory.taken(), 0);
    }
}
