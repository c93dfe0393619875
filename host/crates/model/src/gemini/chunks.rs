//! Streamed responses of the service.

use std::collections::VecDeque;

use crate::{
    Document, ModelError, Object,
    backend::ChunkSource,
    http::{DONE, Events},
    translation::ResponseError,
};
use airlock_conversation::{Delta, chat::ChunkWriter, gemini::ReplyReader};

/// Chunks of one streamed response.
pub(super) struct GeminiChunks<'a> {
    events: Events<'a>,
    reader: ReplyReader,
    writer: ChunkWriter,
    /// Chunks of the last event that were not returned yet.
    left: VecDeque<Document>,
    has_ended: bool,
}

impl<'a> GeminiChunks<'a> {
    /// Translates the events of a response that began at `created`, in seconds since 1970.
    pub(super) fn new(events: Events<'a>, created: u64, includes_usage: bool) -> Self {
        Self {
            events,
            reader: ReplyReader::default(),
            writer: ChunkWriter::new(created, includes_usage),
            left: VecDeque::new(),
            has_ended: false,
        }
    }
}

impl ChunkSource for GeminiChunks<'_> {
    async fn next(&mut self) -> Result<Option<Document>, ModelError> {
        loop {
            if let Some(chunk) = self.left.pop_front() {
                return Ok(Some(chunk));
            }
            if self.has_ended {
                return Ok(None);
            }
            let client = self.events.client;
            // Gemini ends the connection after the last event; some proxies send `[DONE]` before.
            let event = self.events.next().await?.filter(|event| event.data.trim_ascii() != DONE);
            let chunks = if let Some(event) = event {
                let event = self.events.parse(event).await?;
                let writer = &mut self.writer;
                let reader = &mut self.reader;
                event
                    .split(|response| reader.response(response).map(|deltas| write(writer, deltas)))
            } else {
                self.events.end();
                self.has_ended = true;
                let deltas = self.reader.finish();
                let chunks = deltas.map(|deltas| write(&mut self.writer, deltas));
                chunks.map(|chunks| chunks.into_iter().map(Document::from).collect())
            };
            let mut chunks: Vec<_> =
                chunks.map_err(|error| ResponseError::from(error).into_model_error(client))?;
            self.events.keep_chunks(&mut chunks)?;
            self.left.extend(chunks);
        }
    }
}

fn write(writer: &mut ChunkWriter, deltas: Vec<Delta>) -> Vec<Object> {
    let mut chunks = Vec::with_capacity(deltas.len());
    for delta in deltas {
        writer.delta(delta, &mut chunks);
    }
    chunks
}
