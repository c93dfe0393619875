//! Responses of `generateContent` and `streamGenerateContent` → deltas.

use crate::{Delta, Object, ReplyError};

/// Reads a reply, which is one response or a stream of them.
#[derive(Debug, Default)]
pub struct ReplyReader {}

impl ReplyReader {
    /// Reads a response, or one event of a stream.
    pub fn response(&mut self, _response: Object) -> Result<Vec<Delta>, ReplyError> {
        unimplemented!()
    }

    /// Ends the reply. Fails if it is not complete.
    pub fn finish(&mut self) -> Result<Vec<Delta>, ReplyError> {
        unimplemented!()
    }
}
