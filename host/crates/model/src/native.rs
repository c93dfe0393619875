//! The Responses API beside chat completions.
//!
//! The agent loop knows chat completions only. If a request came in the Responses API and its
//! provider has that API, both directions carry their native form beside the one of chat: the
//! members of the request, and the [parts](super::part) of the response that chat cannot express.
//! They are typed data of the gateway and no members of a JSON object, so that neither a client nor
//! a provider can send them, and a provider of chat completions never receives them.

use super::Refusal;
use airlock_json::RawObject;

/// A request as it came in the Responses API.
#[derive(Debug, Clone)]
pub struct Native {
    /// Its members. `input` is the whole conversation, as a list of items.
    pub body: RawObject,
    /// Reason that the request has no form as a chat completion request; `None` if it has one.
    pub only: Option<Box<Refusal>>,
}
