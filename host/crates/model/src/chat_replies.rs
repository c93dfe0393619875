//! Replies in the form of chat completions, for tests.

use serde_json::Value;

use super::{ModelError, Object, ReplyChunk, Response, backend::ChunkSource};
use airlock_conversation::{
    Delta, Reply,
    chat::{self, ChunkWriter},
};

/// Returns the completion of a response that is whole, or the chunks of a stream with its usage.
pub(crate) async fn read(response: Response<'_>) -> Result<Vec<Value>, ModelError> {
    let mut chunks = match response {
        Response::Whole(reply) => return Ok(vec![completion(reply).into()]),
        Response::Chunks(chunks) => chunks,
    };
    let mut writer = ChunkWriter::new(0, true);
    let mut read = Vec::new();
    while let Some(chunk) = chunks.next().await? {
        read.extend(written(chunk, &mut writer));
    }
    Ok(read)
}

/// Returns the chunks of a stream without its usage.
pub(crate) async fn read_chunks(mut source: impl ChunkSource) -> Result<Vec<Value>, ModelError> {
    let mut writer = ChunkWriter::new(0, false);
    let mut read = Vec::new();
    while let Some(chunk) = source.next().await? {
        read.extend(written(chunk, &mut writer));
    }
    Ok(read)
}

/// Returns the completion of a whole response.
pub(crate) fn whole(response: Response<'_>) -> Object {
    match response {
        Response::Whole(reply) => completion(reply),
        Response::Chunks(_) => panic!("no stream was asked for"),
    }
}

fn completion(reply: ReplyChunk) -> Object {
    match reply {
        ReplyChunk::Chat(completion) => completion.into_object(),
        ReplyChunk::Deltas(deltas) => {
            let mut reply = Reply::default();
            reply.extend(deltas.into_deltas());
            chat::write_reply(reply, 0)
        }
    }
}

fn written(chunk: ReplyChunk, writer: &mut ChunkWriter) -> Vec<Value> {
    match chunk {
        ReplyChunk::Chat(chunk) => vec![chunk.into_object().into()],
        ReplyChunk::Deltas(deltas) => written_deltas(deltas.into_deltas(), writer),
    }
}

/// Returns the chunks that deltas become.
pub(crate) fn written_deltas(deltas: Vec<Delta>, writer: &mut ChunkWriter) -> Vec<Value> {
    let mut out = Vec::new();
    deltas.into_iter().for_each(|delta| writer.delta(delta, &mut out));
    out.into_iter().map(Value::from).collect()
}
