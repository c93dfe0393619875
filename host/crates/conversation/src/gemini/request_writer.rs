//! Conversation → request of `generateContent`.

use crate::{Conversation, Object, read::Untranslatable};

/// Writes the body of a request. The model and whether the reply is streamed are parts of its address.
pub fn write_request(_conversation: Conversation) -> Result<Object, Untranslatable> {
    unimplemented!()
}
