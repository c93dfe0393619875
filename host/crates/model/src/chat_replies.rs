//! Replies in the form of chat completions, for tests.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{ModelError, ReplyChunk, Response, Terms, backend::ChunkSource};
use airlock_conversation::{
    Delta, Object, Reply,
    chat::{self, ChunkWriter},
};
use airlock_core::memory::Charge;

/// Returns the terms of a request in a minute, which reads the response.
pub(crate) fn terms(is_streamed: bool, held: &Charge) -> Terms<'_> {
    let deadline = Instant::now() + Duration::from_mins(1);
    Terms {
        is_streamed,
        passes_on: false,
        max_calls: 100,
        deadline,
        held,
        observer: None,
        work: None,
    }
}

/// Returns the completion of a response that is whole, or the chunks of a stream with its usage.
pub(crate) async fn read(response: Response<'_>) -> Result<Vec<Value>, ModelError> {
    let mut chunks = match response {
        Response::Whole(reply) => return Ok(vec![completion(reply).into()]),
        Response::Chunks(chunks) => chunks,
    };
    let mut read = ReadChunks::new(true);
    while let Some(chunk) = chunks.next().await? {
        read.add(chunk);
    }
    Ok(read.chunks)
}

/// Returns the chunks of a stream without its usage.
pub(crate) async fn read_chunks(mut source: impl ChunkSource) -> Result<Vec<Value>, ModelError> {
    let mut read = ReadChunks::new(false);
    while let Some(chunk) = source.next().await? {
        read.add(chunk);
    }
    Ok(read.chunks)
}

/// Returns the whole response.
pub(crate) fn whole(response: Response<'_>) -> Object {
    match response {
        Response::Whole(reply) => completion(reply),
        Response::Chunks(_) => panic!("no stream was asked for"),
    }
}

fn completion(reply: ReplyChunk) -> Object {
    let (deltas, exact, _) = reply.into_parts();
    if let Some(exact) = exact {
        return exact.into_object();
    }
    let mut reply = Reply::default();
    reply.extend(deltas);
    chat::write_reply(reply, 0)
}

/// Returns the chunks that deltas become.
pub(crate) fn written(deltas: Vec<Delta>, writer: &mut ChunkWriter) -> Vec<Value> {
    let mut out = Vec::new();
    for delta in deltas {
        writer.delta(delta, &mut out);
    }
    out.into_iter().map(Value::from).collect()
}

/// The chunks of a stream.
struct ReadChunks {
    chunks: Vec<Value>,
    writer: ChunkWriter,
    /// True if the chunks are those of a chat completion, as they came.
    is_exact: bool,
}

impl ReadChunks {
    fn new(includes_usage: bool) -> Self {
        let writer = ChunkWriter::new(0, includes_usage);
        Self { chunks: Vec::new(), writer, is_exact: false }
    }

    fn add(&mut self, chunk: ReplyChunk) {
        let (deltas, exact, _) = chunk.into_parts();
        if let Some(exact) = exact {
            self.is_exact = true;
            self.chunks.push(exact.into_object().into());
        } else if !self.is_exact {
            self.chunks.append(&mut written(deltas, &mut self.writer));
        }
    }
}
