//! A request → a chat completion request, field by field.

mod settings;
pub(super) mod tools;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    builtin::{BuiltinTools, ClientTools, Groups},
    echo::Echo,
    items, messages,
};
use airlock_conversation::read::{Members, Path, Untranslatable};
use airlock_model::{Native, Object};

/// Members of chat completions that have another name in the Responses API.
const MOVED: &[(&str, &str)] = &[
    ("messages", "input"),
    ("functions", "tools"),
    ("function_call", "tool_choice"),
    ("response_format", "text.format"),
    ("verbosity", "text.verbosity"),
    ("reasoning_effort", "reasoning.effort"),
    ("max_tokens", "max_output_tokens"),
    ("max_completion_tokens", "max_output_tokens"),
    ("logprobs", "include"),
];
/// Members without a counterpart, and advice for the client.
const REFUSED: &[(&str, &str)] = &[
    ("context_management", "Items are never removed. Send a shorter 'input'."),
    ("moderation", "Its results have no counterpart in chat completions."),
    ("access_programs", "It has no counterpart in chat completions."),
    ("image", "It has no counterpart in chat completions."),
    ("background_options", "Responses cannot be made in the background."),
    ("audio", "Responses have no audio."),
];

/// Members that bound a request or choose its conversation. A misspelt one would reach the provider
/// as an unknown member, and the request would run without the bound.
const BOUNDING: [&str; 4] =
    ["max_tool_calls", "max_output_tokens", "parallel_tool_calls", "previous_response_id"];

/// A Responses request, translated.
#[derive(Debug)]
pub(crate) struct Chat {
    /// The chat completion request, without `stream` and `stream_options`.
    pub(crate) body: Object,
    /// True if the client asks for stream events.
    pub(crate) stream: bool,
    /// True if the response is to be stored.
    pub(crate) store: bool,
    /// Maximum number of calls of the gateway's tools. Chat completions have no such limit, so the
    /// agent loop applies it.
    pub(crate) max_tool_calls: Option<u64>,
    /// The items of `input`, for the store. Empty if the response is not to be stored.
    pub(crate) input: Vec<Value>,
    /// The members that the Response repeats.
    pub(crate) echo: Echo,
    /// The request as it came, if its provider has the Responses API.
    pub(crate) native: Option<Native>,
    /// Names of the functions of groups.
    pub(crate) groups: Groups,
    /// Types of built-in tools, and of items about them, that are left out.
    pub(crate) dropped: BTreeSet<String>,
}

/// Translates a request. `earlier` has the stored items of the previous Responses, input and
/// output, the oldest first; as the API requires, their instructions are not part of it. Fails with
/// the position of the first member that is invalid or has no counterpart.
pub(crate) fn to_chat(
    request: Object,
    earlier: Vec<Value>,
    builtin: &BuiltinTools,
) -> Result<Chat, Untranslatable> {
    let mut client_tools = ClientTools::new(builtin, false);
    let mut echo = Echo::from_request(&request);
    // No item is ever removed.
    echo.set("truncation", "disabled".into());
    let mut request = Members::new(&Path::Root, request);
    refuse(&mut request)?;
    let store = request.flag("store", true)?;
    let stream = request.flag("stream", false)?;
    let input = read_input(&mut request)?;
    let stored = if store { input.clone() } else { Vec::new() };
    let instructions = request.text("instructions")?;
    let mut body = Object::new();
    body.extend(request.take("model").map(|model| ("model".to_owned(), model)));
    let messages = messages::translate(instructions, earlier, input, &mut client_tools)?;
    body.insert("messages".to_owned(), messages.into());
    tools::translate(&mut request, &mut client_tools, &mut body)?;
    let max_tool_calls = settings::translate(&mut request, &mut body)?;
    body.extend(request.into_rest());
    let ClientTools { groups, dropped, .. } = client_tools;
    Ok(Chat {
        body,
        stream,
        store,
        max_tool_calls,
        input: stored,
        echo,
        native: None,
        groups,
        dropped,
    })
}

/// Refuses members of another API, those that the gateway itself would have to act on, and misspelt
/// ones.
pub(super) fn refuse_always(request: &mut Members<'_>) -> Result<(), Untranslatable> {
    for name in BOUNDING {
        if let Some(found) = request.like(name) {
            return Err(Untranslatable::misspelt(&request.path(found), name));
        }
    }
    for (name, replacement) in MOVED {
        let advice = format!("In the Responses API, this parameter has moved to '{replacement}'.");
        request.refuse(name, &advice)?;
    }
    let advice = "Conversations are not available. Use 'previous_response_id'.";
    request.refuse("conversation", advice)?;
    // It may name tools that run at the provider, without a decision of the gateway.
    let advice = "Stored prompts are not available. Use 'instructions' and 'input'.";
    request.refuse("prompt", advice)?;
    let advice = "Responses are made while the client waits. Only false is supported.";
    request.refuse_unless("background", &false.into(), advice)?;
    settings::stream_options(request)
}

fn refuse(request: &mut Members<'_>) -> Result<(), Untranslatable> {
    refuse_always(request)?;
    for (name, advice) in REFUSED {
        request.refuse(name, advice)?;
    }
    truncation(request)?;
    // Codex describes its user's machine and session in it, for OpenAI alone.
    request.take("client_metadata");
    request.refuse_unless("n", &1.into(), "A response has one choice.")?;
    request.refuse_unless("modalities", &json!(["text"]), "Responses have text only.")
}

/// Checks `truncation`. `auto` permits that items are removed from the input, and does not require it.
fn truncation(request: &mut Members<'_>) -> Result<(), Untranslatable> {
    match request.text("truncation")?.as_deref() {
        None | Some("auto" | "disabled") => Ok(()),
        Some(other) => {
            let supported = &["auto", "disabled"];
            Err(Untranslatable::invalid_value(&request.path("truncation"), other, supported))
        }
    }
}

/// Reads `input` as items. A text is a message of the user.
pub(super) fn read_input(request: &mut Members<'_>) -> Result<Vec<Value>, Untranslatable> {
    match request.required("input")? {
        Value::String(text) => {
            let content = json!([{"type": "input_text", "text": text}]);
            Ok(vec![json!({"type": "message", "role": "user", "content": content})])
        }
        Value::Array(mut items) => {
            items.iter_mut().for_each(items::normalise);
            Ok(items)
        }
        other => Err(Untranslatable::invalid_type(
            &request.path("input"),
            "a string or an array of items",
            &other,
        )),
    }
}
