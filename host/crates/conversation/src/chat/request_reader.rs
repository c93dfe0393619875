//! Chat completion request → conversation.

use crate::{Conversation, Object, read::Untranslatable};

/// Reads the body of a chat completion request. Fails if a member that the conversation needs has no
/// valid value; the provider checks the rest.
pub fn read_request(_body: Object) -> Result<Conversation, Untranslatable> {
    unimplemented!()
}
