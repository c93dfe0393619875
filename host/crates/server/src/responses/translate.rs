//! Translates requests of OpenAI's Responses API to chat completions, and writes Responses.
//!
//! A Responses request becomes a chat completion request, and the deltas and the events of the loop become a
//! Response object and its stream events. The
//! translation does no I/O, makes no policy decisions and stores nothing. *Client* is OpenAI's word
//! for the caller.
//!
//! | module | purpose |
//! |---|---|
//! | [`request`] | a request → a chat completion request, field by field |
//! | [`native`] | a request as it came, for a provider that has the Responses API |
//! | [`items`] | one item → its part of a chat message |
//! | [`messages`] | items → chat messages |
//! | [`content`] | content parts → chat content parts |
//! | [`builtin`] | groups of functions, and built-in tools |
//! | [`echo`] | the members of a request that its Response repeats |
//! | [`output`] | the loop's events → stream events and the Response |
//! | [`reasoning`] | reasoning in requests, and its state in both directions |
//! | [`failure`] | the error of a failed Response |

//!
//! A member of the Responses API without a counterpart in chat completions is refused with its name
//! and never ignored, unless the provider has the Responses API itself. A member that the Responses
//! API does not define reaches the provider unchanged.
//!
//! # Items and messages
//!
//! Items become messages by one rule, whether the client sends them or they come from the store.
//! Consecutive calls are the parallel calls of one assistant message, unless their identifiers are of
//! two rounds of one Response. The results of these calls follow the message, as chat completions
//! require. Each result is found by its `call_id`. A tool that
//! the gateway ran is an `mcp_call` item, which holds call and result, and becomes both again: in
//! the next turn the model receives the same call and result.
//!
//! Reasoning is sent back only in messages with tool calls. `DeepSeek`'s API requires it there, as
//! do Anthropic's signed thinking blocks; elsewhere servers ignore it, or refuse it as older
//! `DeepSeek` models do.

mod builtin;
mod content;
mod echo;
mod failure;
mod items;
mod messages;
mod native;
mod output;
mod reasoning;
mod request;

pub use self::builtin::BuiltinTools;
pub(crate) use self::builtin::dropped_type;
pub(super) use self::{
    builtin::Groups,
    echo::Echo,
    native::to_native,
    output::{Call, Writer},
    request::{Chat, to_chat},
};
pub(super) use airlock_conversation::read::Untranslatable;

#[cfg(test)]
mod tests;
