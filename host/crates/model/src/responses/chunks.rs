//! The chunks of one exchange with the service.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
};

use serde_json::Value;

use crate::{
    Charge, Document, Merged, ModelError, Object, Part,
    backend::ChunkSource,
    document::keep_all,
    http::{DONE, Events, HttpClient},
    translation::ResponseError,
};
use airlock_conversation::{Delta, ReplyError, chat::ChunkWriter, responses::ReplyReader};

/// Memory of an open item, beside the texts that it keeps.
const ITEM_BYTES: usize = 128;

/// A chunk, with its native form.
type Chunk = (Object, Option<Part>);

/// Chunks of one response.
pub(super) struct ResponsesChunks<'a> {
    /// The events of a stream; `None` if the response was not streamed.
    events: Option<Events<'a>>,
    translation: ResponseTranslation,
    /// Chunks of the last event that were not returned yet.
    left: VecDeque<Document>,
}

impl<'a> ResponsesChunks<'a> {
    /// Translates the events of a stream.
    pub(super) fn streamed(events: Events<'a>, includes_usage: bool) -> Self {
        let translation = ResponseTranslation::new(includes_usage);
        Self { events: Some(events), translation, left: VecDeque::new() }
    }

    /// Translates a response that was not streamed.
    pub(super) fn whole(
        client: &HttpClient,
        answer: Document,
        includes_usage: bool,
        held: &Charge,
    ) -> Result<Self, ModelError> {
        let mut translation = ResponseTranslation::new(includes_usage);
        let chunks = answer.split(|response| translation.whole(response));
        let mut chunks = chunks.map_err(|failure| into_model_error(failure, client))?;
        if !keep_all(&mut chunks, held) {
            return Err(client.no_memory());
        }
        Ok(Self { events: None, translation, left: chunks.into() })
    }
}

impl ChunkSource for ResponsesChunks<'_> {
    async fn next(&mut self) -> Result<Option<Document>, ModelError> {
        loop {
            if let Some(chunk) = self.left.pop_front() {
                return Ok(Some(chunk));
            }
            if self.translation.reader.has_ended() {
                return Ok(None);
            }
            let Some(events) = self.events.as_mut() else { return Ok(None) };
            let client = events.client;
            let event = events.next().await?.filter(|event| event.data.trim_ascii() != DONE);
            let Some(event) = event else {
                return Err(client.bad_answer("a stream that ended before the response did"));
            };
            let event = events.parse(event).await?;
            events.keep(kept_bytes(event.object()))?;
            let chunks = event.split(|event| self.translation.event(event));
            let mut chunks = chunks.map_err(|failure| into_model_error(failure, client))?;
            events.keep_chunks(&mut chunks)?;
            self.left.extend(chunks);
            if self.translation.reader.has_ended() {
                events.end();
            }
        }
    }
}

/// Returns the chat completion of a Response that was not streamed: that of the chunks that would
/// have streamed it. It has the output items for the next round.
pub(super) fn completion(client: &HttpClient, answer: Document) -> Result<Document, ModelError> {
    let mut items = BTreeMap::new();
    let completion = answer.map(|response| {
        let mut merged = Merged::default();
        for (chunk, part) in ResponseTranslation::new(true).whole(response)? {
            merged.add(&chunk);
            if let Some(Part::Item { index, item }) = part {
                items.insert(index, Value::Object(item).to_string());
            }
        }
        Ok(merged.finish())
    });
    let completion = completion.map_err(|failure| into_model_error(failure, client))?;
    Ok(completion.with_items(items.into_values().collect()))
}

fn into_model_error(failure: ReplyError, client: &HttpClient) -> ModelError {
    ResponseError::from(failure).into_model_error(client)
}

/// Translation of one Response: its deltas become chunks, and the parts of it that chat cannot express.
#[derive(Debug)]
struct ResponseTranslation {
    reader: ReplyReader,
    writer: ChunkWriter,
    /// Item of the open part of the reasoning.
    item_id: String,
    /// Number of that part, if it is a summary.
    summary: Option<u64>,
}

impl ResponseTranslation {
    /// `includes_usage` adds a last chunk without choices.
    fn new(includes_usage: bool) -> Self {
        Self {
            reader: ReplyReader::default(),
            writer: ChunkWriter::new(0, includes_usage),
            item_id: String::new(),
            summary: None,
        }
    }

    /// Returns the chunks for the data of one event. Fails if it reports an error, or cannot follow
    /// the events before it.
    fn event(&mut self, data: Object) -> Result<Vec<Chunk>, ReplyError> {
        let deltas = self.reader.event(data)?;
        Ok(self.write(deltas))
    }

    /// Returns the chunks for a Response that was not streamed.
    fn whole(&mut self, response: Object) -> Result<Vec<Chunk>, ReplyError> {
        let deltas = self.reader.whole(response)?;
        Ok(self.write(deltas))
    }

    fn write(&mut self, deltas: Vec<Delta>) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = Vec::with_capacity(deltas.len());
        let mut written = Vec::new();
        let mut has_details = false;
        for mut delta in deltas {
            let mut part = self.part(&mut delta);
            // The end of sealed reasoning is the chunk with its details.
            if mem::replace(&mut has_details, matches!(delta, Delta::ReasoningEnd { .. }))
                && part.is_some()
                && let Some((_, last)) = chunks.last_mut()
            {
                *last = part;
                continue;
            }
            let is_begin = matches!(delta, Delta::Begin(_));
            self.writer.delta(delta, &mut written);
            if let Some(chunk) = written.first_mut().filter(|_| is_begin) {
                // OpenAI's own streams of text begin like this.
                chunk["choices"][0]["delta"]["content"] = "".into();
            }
            chunks.extend(written.drain(..).map(|chunk| (chunk, part.take())));
        }
        chunks
    }

    /// Returns the native form of a delta; `None` if chat expresses it.
    fn part(&mut self, delta: &mut Delta) -> Option<Part> {
        match delta {
            Delta::ReasoningPart { item_id, is_summary, index, .. } => {
                self.item_id.clone_from(item_id);
                self.summary = is_summary.then_some(*index);
                Some(Part::Joint)
            }
            Delta::Reasoning { text, .. } => Some(Part::Reasoning {
                item_id: self.item_id.clone(),
                summary: self.summary,
                text: text.clone(),
            }),
            Delta::ItemEnd { index, item, .. } => {
                Some(Part::Item { index: *index, item: mem::take(item) })
            }
            _ => None,
        }
    }
}

/// Returns the bytes of an event that the translation keeps: identifier and name of an item.
fn kept_bytes(event: &Object) -> usize {
    if event.get("type").is_none_or(|kind| kind != "response.output_item.added") {
        return 0;
    }
    let Some(item) = event.get("item") else { return 0 };
    let texts = ["id", "name"].into_iter().filter_map(|name| item.get(name)?.as_str());
    ITEM_BYTES + texts.map(str::len).sum::<usize>()
}

#[cfg(test)]
mod tests;
