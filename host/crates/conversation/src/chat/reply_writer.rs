//! Deltas → chunks of a chat completion, and a whole one.

use crate::{Delta, Object, Reply};

/// Writes a reply as chunks.
#[derive(Debug)]
pub struct ChunkWriter {}

impl ChunkWriter {
    /// Creates the writer of a reply that began at `created`, in seconds since 1970, unless the reply
    /// itself says when. `includes_usage` is the one of the request's `stream_options`: it adds a last
    /// chunk without choices.
    pub fn new(_created: u64, _includes_usage: bool) -> Self {
        unimplemented!()
    }

    /// Writes a delta. Appends the chunks that it becomes to `out`.
    pub fn delta(&mut self, _delta: Delta, _out: &mut Vec<Object>) {
        unimplemented!()
    }
}

/// Writes a whole reply as a chat completion. `created` is used unless the reply itself says when.
pub fn write_reply(_reply: Reply, _created: u64) -> Object {
    unimplemented!()
}
