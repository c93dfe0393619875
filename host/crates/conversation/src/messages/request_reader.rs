//! Request of the Messages API → conversation.
//!
//! | Messages API | conversation |
//! |---|---|
//! | `system` | a message of the role `System` |
//! | blocks of a user's message | its results, and then one message with the other blocks |
//! | blocks of the model's message | messages, reasoning, calls and native items in their order |
//! | `tools` | functions; a tool of another type is native |
//! | `thinking` | the budget, and a hint with the whole member |
//! | `output_config` | effort and format; the rest is an extra member |
//! | `metadata.user_id` | `user` |
//!
//! Refused: `mcp_servers` and `container`, because the provider would run tools that no policy of the
//! gateway permits.

mod content;
mod settings;
mod tools;

use serde_json::json;

use crate::{
    Conversation, Object, Wire,
    read::{Members, Path, Untranslatable},
};

/// Members that do not change the reply, or only as a hint of Anthropic's models.
const HINTS: [&str; 6] =
    ["betas", "cache_control", "compaction", "context_management", "diagnostics", "thinking"];

/// Members that decide about the price of a request, and not about the reply. They are left out, because
/// the operator pays.
pub const OF_PAYER: [&str; 3] = ["billing_policy", "fallback_credit_token", "speed"];

/// Reads the body of `POST /v1/messages`. Fails if a member that the API requires is absent, if one has
/// an invalid value, or if the provider would run tools.
pub fn read_request(body: Object) -> Result<Conversation, Untranslatable> {
    let root = Path::Root;
    let mut members = Members::new(&root, body);
    let advice = "The provider would run tools that no policy of the gateway permits.";
    members.refuse_unless("mcp_servers", &json!([]), advice)?;
    members.refuse("container", advice)?;
    let mut conversation = Conversation::new(Wire::Messages, members.required_text("model")?);
    settings::read(&mut members, &mut conversation)?;
    content::read(&mut members, &mut conversation)?;
    tools::read(&mut members, &mut conversation)?;
    for name in OF_PAYER {
        members.take(name);
    }
    for name in HINTS {
        let hint = members.take(name).map(|value| (name.to_owned(), value));
        conversation.hints.extend(hint);
    }
    let rest = members.into_rest().into_iter().filter(|(_, value)| !value.is_null());
    conversation.extra.extend(rest);
    Ok(conversation)
}

#[cfg(test)]
mod tests;
