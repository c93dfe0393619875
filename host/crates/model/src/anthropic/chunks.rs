//! Streamed responses of the service.

use std::collections::VecDeque;

use serde_json::Value;

use super::stream::MessageTranslation;
use crate::{Document, ModelError, Object, backend::ChunkSource, http::Events};

/// Chunks of one streamed response.
pub(super) struct AnthropicChunks<'a> {
    events: Events<'a>,
    translation: MessageTranslation,
    /// Chunks of the last event that were not returned yet.
    left: VecDeque<Document>,
}

impl<'a> AnthropicChunks<'a> {
    /// Translates the events of a response that began at `created`, in seconds since 1970.
    pub(super) fn new(events: Events<'a>, created: u64, includes_usage: bool) -> Self {
        let translation = MessageTranslation::new(created, includes_usage);
        Self { events, translation, left: VecDeque::new() }
    }
}

impl ChunkSource for AnthropicChunks<'_> {
    async fn next(&mut self) -> Result<Option<Document>, ModelError> {
        loop {
            if let Some(chunk) = self.left.pop_front() {
                return Ok(Some(chunk));
            }
            if self.translation.has_ended() {
                return Ok(None);
            }
            let client = self.events.client;
            let Some(event) = self.events.next().await? else {
                return Err(client.bad_answer("a stream that ended before the response did"));
            };
            let event = self.events.parse(event).await?;
            self.events.keep(kept_bytes(event.object()))?;
            let chunks = event.split(|event| self.translation.event(&event));
            let mut chunks = chunks.map_err(|failure| failure.into_model_error(client))?;
            self.events.keep_chunks(&mut chunks)?;
            self.left.extend(chunks);
            if self.translation.has_ended() {
                self.events.end();
            }
        }
    }
}

/// Returns the bytes of an event that the translation keeps: a block of thinking, until its
/// signature has come.
fn kept_bytes(event: &Object) -> usize {
    let parts = ["delta", "content_block"].iter().filter_map(|name| event.get(*name));
    let texts = parts.flat_map(|part| ["thinking", "signature", "data"].map(|name| &part[name]));
    texts.filter_map(Value::as_str).map(str::len).sum()
}
