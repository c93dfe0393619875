//! One typed conversation with a model, and its forms in the APIs of models.
//!
//! A request is read from the API in which it came into a [`Conversation`], and written in the API of
//! the provider that answers it. The provider's answer is read as a sequence of [`Delta`]s, whether it
//! was streamed or not, and written in the API of the caller. So each API has up to four modules, and
//! knows nothing of the others:
//!
//! | API | request: read | request: write | reply: read | reply: write |
//! |---|---|---|---|---|
//! | [`chat`]: OpenAI's chat completions | yes | yes | yes | yes |
//! | [`messages`]: Anthropic's Messages | yes | yes | yes | yes |
//! | [`responses`]: OpenAI's Responses | yes | yes | yes | |
//! | [`gemini`]: Gemini's `generateContent` | | yes | yes | |
//!
//! Members that are not known are carried along as they came. One that its API documents and that
//! changes the reply is never left out silently: a writer that has no form for it refuses the request
//! and names it.
//!
//! | file | purpose |
//! |---|---|
//! | `conversation` | a request: items, tools and settings |
//! | `item` | the items of a conversation: messages, reasoning, calls, results |
//! | `tools` | definitions of tools, and the choice among them |
//! | `settings` | settings that more than one API has |
//! | `delta` | pieces of a reply |
//! | `reply` | a whole reply, collected from its deltas |
//! | `usage` | tokens of a reply |
//! | `target` | members of requests to providers of other APIs |
//! | `arguments` | arguments of a call as an object |
//! | `thought_signature` | signatures of Gemini's thoughts in the members of chat |
//! | `read` | members of an untrusted request, and errors that name them |
//!
//! The crate does no I/O, decides nothing about tools and holds no memory that its input does not have:
//! requests are read from a tree that the caller has charged, and texts are moved out of it.

mod arguments;
pub mod chat;
mod conversation;
mod delta;
pub mod gemini;
mod item;
pub mod messages;
pub mod read;
mod reply;
pub mod responses;
mod settings;
mod target;
#[cfg(test)]
mod tests;
mod thought_signature;
mod tools;
mod usage;

use serde_json::{Map, Value};

use self::item::data_url;

pub use self::{
    arguments::{arguments_bytes, arguments_object},
    conversation::{Conversation, ItemPlace, Wire},
    delta::{Begin, Delta, MAX_CHOICES, MAX_NAME_BYTES, MAX_REQUESTED_CHOICES, ReplyError},
    item::{
        CallInput, Content, Item, Media, Message, NativeItem, Part, Reasoning, Role, Seal,
        ToolCall, ToolResult,
    },
    reply::{Choice, Reply},
    settings::{ReplyFormat, Settings},
    tools::{FunctionTool, ToolChoice, ToolDefinition},
    usage::{FinishReason, Usage, UsageChunk},
};

/// A JSON object, with its members in the order of its text.
pub type Object = Map<String, Value>;

/// Returns an object of `members`. They are moved; `json!` would copy them, images and all.
fn object_of<const N: usize>(members: [(&str, Value); N]) -> Object {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
