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

mod parts;
mod reasoning;
mod reply_reader;
mod reply_writer;
mod request_reader;
mod request_writer;
mod usage;

use serde_json::Value;

use crate::{
    Item, Object, Part, Wire, object_of,
    read::{Members, Path, Untranslatable},
};

pub use self::reasoning::sealed as sealed_reasoning;
pub(crate) use self::{
    parts::{from_file_data, from_url, read_audio},
    reasoning::{
        DETAILS, SEPARATOR, join_details, read_state, take_mixed_details,
        write_block as write_thinking_block,
    },
    request_reader::{
        read_boolean, read_choice_with, read_number, read_stop, read_top_k, read_user,
    },
    request_writer::effort_of,
};
pub use self::{
    reply_reader::{ReplyReader, pieces},
    reply_writer::{ChunkWriter, write_message, write_reply},
    request_reader::read_request,
    request_writer::{ChatDialect, write_request},
    usage::{read as read_usage, write as write_usage},
};

/// Member that marks the end of a cached prefix.
const CACHE_CONTROL: &str = "cache_control";
/// Member of a choice with the log probabilities of its text.
const LOGPROBS: &str = "logprobs";
/// Member of a message with the model's calls.
const TOOL_CALLS: &str = "tool_calls";

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

/// Takes a text; `None` if the member is absent or has another type, with which it stays.
fn take_string(object: &mut Object, name: &str) -> Option<String> {
    match object.get_mut(name)?.take() {
        Value::String(text) => {
            object.shift_remove(name);
            Some(text)
        }
        other => {
            object.insert(name.to_owned(), other);
            None
        }
    }
}

/// Takes a list; an empty one if the member is absent or has another type, with which it stays.
fn take_list(object: &mut Object, name: &str) -> Vec<Value> {
    let Some(Value::Array(list)) = object.get_mut(name) else { return Vec::new() };
    let list = std::mem::take(list);
    object.shift_remove(name);
    list
}

/// Returns the members that were not taken, without those that are null.
pub(crate) fn rest(members: Members<'_>) -> Object {
    let mut rest = members.into_rest();
    rest.retain(|_, value| !value.is_null());
    rest
}

/// Keeps the unknown members of an inner object, such as `function`, under its name.
fn keep_inner(extra: &mut Object, name: &str, inner: Members<'_>) {
    let rest = rest(inner);
    if !rest.is_empty() {
        extra.insert(name.to_owned(), rest.into());
    }
}

/// Puts the members that [`keep_inner`] kept back into the inner object.
fn restore_inner(inner: &mut Object, extra: &mut Object, name: &str) {
    if let Some(Value::Object(_)) = extra.get(name)
        && let Some(Value::Object(rest)) = extra.shift_remove(name)
    {
        inner.extend(rest);
    }
}

#[cfg(test)]
mod tests;
