//! The chunks of one exchange with the service.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::stream::{Chunk, ResponseTranslation};
use crate::{
    Charge, Document, Merged, ModelError, Object, Part,
    backend::ChunkSource,
    http::{DONE, Events, HttpClient},
    translation::ResponseError,
};
use airlock_json as json;

/// Memory of a chunk, beside its texts.
const CHUNK_BYTES: usize = 3 << 10;
/// Memory of an open item, beside the texts that it keeps.
const ITEM_BYTES: usize = 128;

/// Chunks of one response.
pub(super) struct ResponsesChunks<'a> {
    /// The events of a stream; `None` if the response was not streamed.
    events: Option<Events<'a>>,
    translation: ResponseTranslation,
    /// Chunks of the last event that were not returned yet.
    left: VecDeque<Document>,
    /// The memory of a whole response.
    _held: Option<Charge>,
}

impl<'a> ResponsesChunks<'a> {
    /// Translates the events of a stream.
    pub(super) fn streamed(events: Events<'a>, includes_usage: bool) -> Self {
        let translation = ResponseTranslation::new(includes_usage);
        Self { events: Some(events), translation, left: VecDeque::new(), _held: None }
    }

    /// Translates a response that was not streamed.
    pub(super) fn whole(
        client: &HttpClient,
        answer: &Document,
        includes_usage: bool,
        held: &Charge,
    ) -> Result<Self, ModelError> {
        let mut translation = ResponseTranslation::new(includes_usage);
        let chunks = translation.whole(answer.object());
        let chunks = chunks.map_err(|failure| failure.into_model_error(client))?;
        let left: VecDeque<Document> = chunks.into_iter().map(document).collect();
        let held = held.beside();
        // Each text once as a delta and once as an item.
        let texts = json::text_len(answer.object()).saturating_mul(2);
        if !held.grow(texts.saturating_add(left.len().saturating_mul(CHUNK_BYTES))) {
            return Err(client.no_memory());
        }
        Ok(Self { events: None, translation, left, _held: Some(held) })
    }
}

impl ChunkSource for ResponsesChunks<'_> {
    async fn next(&mut self) -> Result<Option<Document>, ModelError> {
        loop {
            if let Some(chunk) = self.left.pop_front() {
                return Ok(Some(chunk));
            }
            if self.translation.has_ended() {
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
            let chunks = self.translation.event(event.object());
            let chunks = chunks.map_err(|failure| failure.into_model_error(client))?;
            self.left.extend(chunks.into_iter().map(document));
            if self.translation.has_ended() {
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
        for (chunk, part) in ResponseTranslation::new(true).whole(&response)? {
            merged.add(&chunk);
            if let Some(Part::Item { index, item }) = part {
                items.insert(index, Value::Object(item).to_string());
            }
        }
        Ok(merged.finish())
    });
    let completion =
        completion.map_err(|failure: ResponseError| failure.into_model_error(client))?;
    Ok(completion.with_items(items.into_values().collect()))
}

fn document((chunk, part): Chunk) -> Document {
    Document::from(chunk).with_part(part)
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
