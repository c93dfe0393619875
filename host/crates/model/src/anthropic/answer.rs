//! Whole messages → chat completions.

use airlock_conversation::{Reply, chat, messages};

use crate::{Object, translation::ResponseError};

/// Returns the chat completion of a message that was not streamed. `created` is in seconds since 1970.
/// Fails if the response is an error or not a message.
pub(super) fn to_completion(message: Object, created: u64) -> Result<Object, ResponseError> {
    let mut reply = Reply::default();
    reply.extend(messages::ReplyReader::default().whole(message)?);
    Ok(chat::write_reply(reply, created))
}

#[cfg(test)]
mod tests;
