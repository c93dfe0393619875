//! OpenAI's chat completions.
//!
//! Beside OpenAI's members, messages and deltas have members that other gateways and providers have too:
//!
//! | member | place | content |
//! |---|---|---|
//! | `reasoning_content`, `reasoning` | message, delta | readable reasoning |
//! | `thinking_blocks` | message, delta | Anthropic's signed blocks of thinking |
//! | `reasoning_details` | message, delta | `OpenRouter`'s list of reasoning, in which OpenAI's is encrypted |
//! | `citations` | delta | Anthropic's sources of the text; OpenAI's are `annotations` |
//! | `cache_control` | part, message, call, tool | Anthropic's mark of the end of a prefix to cache |
//! | `is_error` | tool message | Anthropic's mark of a failed call |
//! | `extra_content` | call | state of Gemini's chat endpoint |
//! | `stop_reason` | choice | vLLM's member for the text of `stop` that ended the reply |
//!
//! Elements of lists in deltas have an `index`, like those of `tool_calls`, because OpenAI's clients merge
//! lists by it.
//!
//! | file | purpose |
//! |---|---|
//! | `request_reader`, `request_writer` | requests |
//! | `reply_reader`, `reply_writer` | replies, in chunks and whole |
//! | `parts`, `reasoning`, `usage` | what both directions share: content parts, reasoning, tokens |
//! | `members` | names of members, and members that no field has |
//! | `form` | where a request came from, and for which provider it is written |

mod form;
mod members;
mod parts;
mod reasoning;
mod reply_reader;
mod reply_writer;
mod request_reader;
mod request_writer;
mod usage;

use serde_json::Value;

use self::members::TOOL_CALLS;
use crate::{
    Item, Object, Part, Wire,
    read::{Path, Untranslatable},
};

pub use self::reasoning::sealed as sealed_reasoning;
pub use self::{
    form::ChatDialect,
    reply_reader::{ReplyReader, pieces},
    reply_writer::{ChunkWriter, join_member, write_message, write_reply},
    request_reader::read_request,
    request_writer::write_request,
    usage::{read as read_usage, write as write_usage},
};
pub(crate) use self::{
    members::{read_boolean, read_number, rest},
    parts::{from_file_data, from_url, has_scheme, is_web, read_audio},
    reasoning::{
        DETAILS, SEPARATOR, join_details, read_state, take_mixed_details,
        write_block as write_thinking_block,
    },
    request_reader::{read_choice_with, read_stop, read_top_k, read_user},
    request_writer::effort_of,
};

/// Reads a message of a reply as the items of its turn. Fails if a member has no valid value.
pub fn read_message(message: Value) -> Result<Vec<Item>, Untranslatable> {
    let mut items = Vec::new();
    request_reader::read_message(message, &Path::Root.member("message"), &mut items)?;
    Ok(items)
}

/// Writes the content of a message: a text, or a list of parts. Fails if a part has no form in chat.
pub fn write_content(parts: Vec<Part>) -> Result<Value, Untranslatable> {
    request_writer::write_content(parts)
}

/// Writes the items of finished rounds as messages. Their unknown members are those of chat completions.
/// Fails if an item is one of another API alone.
pub fn write_messages(items: Vec<Item>) -> Result<Vec<Value>, Untranslatable> {
    request_writer::write_messages(items, Wire::Chat, ChatDialect::OpenAi)
}

/// Returns the memory of the arguments of a message's calls as objects, in bytes, without that of their
/// texts.
pub fn arguments_bytes(message: &Object) -> usize {
    let calls = message.get(TOOL_CALLS).and_then(Value::as_array);
    let texts = calls
        .into_iter()
        .flatten()
        .filter_map(|call| call.get("function")?.get("arguments")?.as_str());
    texts.map(super::arguments_bytes).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests;
