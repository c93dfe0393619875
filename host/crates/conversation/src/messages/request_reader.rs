//! Request of the Messages API → conversation.

use crate::{Conversation, Object, read::Untranslatable};

/// Reads the body of `POST /v1/messages`.
pub fn read_request(_body: Object) -> Result<Conversation, Untranslatable> {
    unimplemented!()
}
