//! Chunks of a chat completion → deltas.

use crate::{Delta, Object, ReplyError};

/// Reads a reply in chunks.
#[derive(Debug, Default)]
pub struct ReplyReader {}

impl ReplyReader {
    /// Reads a chunk.
    pub fn chunk(&mut self, _chunk: &Object) -> Result<Vec<Delta>, ReplyError> {
        unimplemented!()
    }

    /// Reads a reply that was not streamed.
    pub fn whole(&mut self, _completion: Object) -> Result<Vec<Delta>, ReplyError> {
        unimplemented!()
    }
}
