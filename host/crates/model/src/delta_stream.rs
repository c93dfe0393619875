//! Replies of APIs other than chat completions, streamed and whole: they become deltas.

use serde_json::Value;

use super::{
    Charge, ModelError, Object,
    backend::ChunkSource,
    http::{DONE, ErrorOf, HttpClient, ServiceEvents, ServiceResponse},
    reply::ReplyChunk,
    translation::ResponseError,
    weight,
};
use airlock_conversation::{Delta, ReplyError, gemini, messages, responses};

/// Memory of an open item of a Response, beside the texts that it keeps.
const ITEM_BYTES: usize = 128;
/// A stream that was cut.
const CUT: ReplyError = ReplyError::Invalid { what: "a stream that ended before the response did" };

/// Reader of the events of an API.
pub(super) trait EventReader: Send {
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
        self.events.keep(R::kept_bytes(event.object()))?;
        let bytes = event.bytes();
        let chunk = ReplyChunk::read(event, |data| self.reader.event(data));
        let chunk = chunk.map_err(|error| into_model_error(error, client))?;
        self.has_ended = self.reader.has_ended();
        self.events.keep_growth(bytes, chunk)
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

/// Receives a whole reply, whose deltas `read` returns. Fails as [`HttpClient::receive`] and `read` do.
pub(super) async fn receive(
    client: &HttpClient,
    response: ServiceResponse,
    error_of: ErrorOf,
    held: &Charge,
    read: impl FnOnce(Object) -> Result<Vec<Delta>, ReplyError>,
) -> Result<ReplyChunk, ModelError> {
    let answer = client.receive(response, error_of, held).await?;
    let bytes = answer.bytes();
    let reply = ReplyChunk::read(answer, read);
    let mut reply = reply.map_err(|error| into_model_error(error, client))?;
    if !reply.keep_growth(bytes, held) {
        return Err(client.no_memory());
    }
    Ok(reply)
}

/// Returns the failure of a request whose reply was not read.
pub(super) fn into_model_error(error: ReplyError, client: &HttpClient) -> ModelError {
    ResponseError::from(error).into_model_error(client)
}

impl EventReader for messages::ReplyReader {
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
