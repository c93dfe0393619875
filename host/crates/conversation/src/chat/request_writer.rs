//! Conversation → chat completion request.

use crate::{Conversation, Object, read::Untranslatable};

/// Writes the body of a chat completion request. Fails if an item, a tool or a member of another API
/// has no form in chat.
pub fn write_request(_conversation: Conversation) -> Result<Object, Untranslatable> {
    unimplemented!()
}
