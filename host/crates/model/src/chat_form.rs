//! The form of a reply in chat completions, with the parts of it that these do not have.

use std::{
    collections::BTreeMap,
    mem,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use super::{
    Charge, Document, Object, Part,
    document::keep_all,
    reply::{Deltas, ReplyChunk},
};
use airlock_conversation::{
    Delta, Reply,
    chat::{self, ChunkWriter},
};

/// A chunk, with its native form.
type Chunk = (Object, Option<Part>);

/// Writes a reply as chunks of a chat completion.
#[derive(Debug)]
pub struct ChatForm {
    writer: ChunkWriter,
    /// The open part of the reasoning, of an API that has parts.
    reasoning: Option<ReasoningPart>,
}

#[derive(Debug)]
struct ReasoningPart {
    item_id: String,
    /// Number of the part, if it is a summary.
    summary: Option<u64>,
}

impl ChatForm {
    /// Creates the writer of a reply that begins now. `includes_usage` adds a last chunk without choices.
    pub fn new(includes_usage: bool) -> Self {
        Self::begun_at(now(), includes_usage)
    }

    /// Creates the writer of a reply that begins at this time, in seconds since 1970.
    pub(super) fn begun_at(created: u64, includes_usage: bool) -> Self {
        let writer = ChunkWriter::new(created, includes_usage);
        Self { writer, reasoning: None }
    }

    /// Returns the chunks that a piece becomes. `None` if there is no memory for them.
    pub fn chunks(&mut self, chunk: ReplyChunk, held: &Charge) -> Option<Vec<Document>> {
        let deltas = match chunk {
            ReplyChunk::Chat(chunk) => return Some(vec![chunk]),
            ReplyChunk::Deltas(deltas) => deltas,
        };
        let chunks = self.write(deltas.into_deltas()).into_iter();
        let mut chunks: Vec<_> = chunks.map(Document::from).collect();
        keep_all(&mut chunks, held).then_some(chunks)
    }

    /// Returns the chat completion that a whole reply becomes. `None` if there is no memory for it.
    pub fn whole(chunk: ReplyChunk, held: &Charge) -> Option<Document> {
        match chunk {
            ReplyChunk::Chat(answer) => Some(answer),
            ReplyChunk::Deltas(deltas) => {
                let mut answer = completion(deltas, now());
                answer.keep_large(held).then_some(answer)
            }
        }
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
            self.writer.delta(delta, &mut written);
            chunks.extend(written.drain(..).map(|chunk| (chunk, part.take())));
        }
        chunks
    }

    /// Returns the native form of a delta; `None` if chat expresses it.
    fn part(&mut self, delta: &mut Delta) -> Option<Part> {
        match delta {
            Delta::ReasoningPart { item_id, is_summary, index, .. } => {
                let summary = is_summary.then_some(*index);
                self.reasoning = Some(ReasoningPart { item_id: item_id.clone(), summary });
                Some(Part::Joint)
            }
            Delta::Reasoning { text, .. } => {
                let ReasoningPart { item_id, summary } = self.reasoning.as_ref()?;
                let item_id = item_id.clone();
                Some(Part::Reasoning { item_id, summary: *summary, text: text.clone() })
            }
            Delta::ItemEnd { index, item, .. } => {
                Some(Part::Item { index: *index, item: mem::take(item) })
            }
            _ => None,
        }
    }
}

/// Returns the chat completion of a whole reply, with its output items.
fn completion(deltas: Deltas, created: u64) -> Document {
    let mut items = BTreeMap::new();
    let mut reply = Reply::default();
    for delta in deltas.into_deltas() {
        match delta {
            Delta::ItemEnd { index, item, .. } => {
                items.insert(index, Value::Object(item).to_string());
            }
            delta => reply.add(delta),
        }
    }
    Document::from(chat::write_reply(reply, created)).with_items(items.into_values().collect())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
