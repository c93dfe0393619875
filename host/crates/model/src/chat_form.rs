//! A reply as chunks of a chat completion: as they came, or written from deltas.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{
    Document, ReplyChunk,
    document::{choices, finish_reason},
};
use airlock_conversation::{
    Begin, Delta, Object, Reply,
    chat::{self, ChunkWriter},
};
use airlock_core::model_calls::EXTENSION;

/// Writes a reply as chunks of a chat completion.
#[derive(Debug)]
pub struct ChatForm {
    writer: ChunkWriter,
    /// True if the members that all chunks share are known.
    has_head: bool,
    /// The ends of the choices and the usage, until the calls are described.
    last: Vec<Object>,
}

impl ChatForm {
    /// Creates the writer of a reply that begins now. `includes_usage` is the one of the request's
    /// `stream_options`.
    pub fn new(includes_usage: bool) -> Self {
        let writer = ChunkWriter::new(now(), includes_usage);
        Self { writer, has_head: false, last: Vec::new() }
    }

    /// Returns the chat completion of a whole reply, with the description of its calls.
    pub fn whole(reply: Reply, airlock: Option<Object>) -> Object {
        let mut completion = chat::write_reply(reply, now());
        describe(&mut completion, airlock);
        completion
    }

    /// Returns the chunks that a piece becomes, each as one line of JSON. Those that end a reply which is
    /// written here are returned by [`finish`](Self::finish).
    pub fn lines(&mut self, chunk: ReplyChunk) -> Vec<String> {
        let (deltas, exact, _) = chunk.into_parts();
        let mut written = Vec::new();
        if let Some(exact) = exact {
            self.note(&exact, deltas);
            return vec![exact.into_line()];
        }
        self.has_head |= !deltas.is_empty();
        for delta in deltas {
            self.writer.delta(delta, &mut written);
        }
        let (mut last, now): (Vec<_>, Vec<_>) = written.into_iter().partition(is_last);
        self.last.append(&mut last);
        now.into_iter().map(to_line).collect()
    }

    /// Returns the last chunks. The one that ends the last choice describes the calls.
    pub fn finish(&mut self, airlock: Option<Object>) -> Vec<String> {
        let mut last = std::mem::take(&mut self.last);
        let end = last.iter_mut().rev().find(|chunk| choices(chunk).next().is_some());
        if let Some(end) = end {
            describe(end, airlock);
        }
        last.into_iter().map(to_line).collect()
    }

    /// Returns a chunk without content.
    pub fn empty(&self) -> Object {
        self.writer.empty()
    }

    /// Notes a chunk that is sent as it came. One that was not read begins the reply.
    fn note(&mut self, exact: &Document, mut deltas: Vec<Delta>) {
        let choices = exact.indices();
        // Azure sends a chunk without choices before the beginning.
        let has_begun = !deltas.is_empty() || !choices.is_empty();
        for choice in choices {
            self.writer.note_choice(choice);
        }
        if has_begun && !std::mem::replace(&mut self.has_head, true) && deltas.is_empty() {
            deltas.push(Delta::Begin(begin_of(&exact.head())));
        }
        let mut sent = Vec::new();
        // They change nothing that the writer keeps.
        deltas.retain(|delta| !matches!(delta, Delta::ChunkMember { .. }));
        for delta in deltas {
            self.writer.delta(delta, &mut sent);
            sent.clear();
        }
    }
}

/// Returns the beginning of a reply from the members that its chunks share.
fn begin_of(head: &Object) -> Begin {
    Begin {
        id: text_of(head, "id"),
        model: text_of(head, "model"),
        created: head.get("created").and_then(Value::as_u64).unwrap_or_default(),
        extra: Object::new(),
    }
}

fn text_of(head: &Object, name: &str) -> String {
    head.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns whether a chunk ends a choice, or has the usage alone.
fn is_last(chunk: &Object) -> bool {
    let has_end = choices(chunk).any(|choice| finish_reason(choice).is_some());
    has_end || chunk.get("usage").is_some_and(|usage| !usage.is_null())
}

fn describe(answer: &mut Object, airlock: Option<Object>) {
    answer.extend(airlock.map(|airlock| (EXTENSION.to_owned(), airlock.into())));
}

fn to_line(chunk: Object) -> String {
    Value::from(chunk).to_string()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
