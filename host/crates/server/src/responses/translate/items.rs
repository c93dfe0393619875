//! One item → its part of a chat message.

use serde_json::{Value, json};

use super::{
    builtin,
    content::{self, Place},
    output::Round,
    reasoning::Reasoning,
};
use airlock_conversation::read::{Members, Path, Untranslatable};
use airlock_model::{Object, object};

/// Types of items that have a counterpart in chat completions.
const SUPPORTED: &[&str] = &[
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "mcp_call",
];
/// Roles of messages.
const ROLES: &[&str] = &["assistant", "system", "developer", "user"];

/// Result of a call that the gateway ran, if the client leaves it out and it is no longer kept. It is
/// optional in OpenAI's schema.
const UNSENT: &str = "[Note of the gateway: this call ran, and its result is no longer kept. Do not repeat a call that changes \
                      something before you know its effect.]";

/// Part of the conversation that one item stands for.
#[derive(Debug)]
pub(super) enum Step {
    /// A message of the user, the system or the developer.
    Message(Object),
    /// A message of the model: its content and its other members.
    Assistant(Value, Object),
    /// Reasoning of the model.
    Reasoning(Reasoning),
    /// A tool call. An executed one has its output.
    Call {
        /// Identifier of the call.
        id: String,
        /// The call, as a member of `tool_calls`.
        call: Object,
        /// Output of a call that the gateway ran.
        output: Option<Value>,
        /// Round of the call; `None` if the item has no identifier of the gateway.
        round: Option<Round>,
    },
    /// An item about a built-in tool, which has no counterpart: its type.
    Dropped(String),
    /// An item that adds nothing to the conversation.
    Nothing,
    /// The output of a client's tool call.
    Output {
        /// Identifier of the call.
        id: String,
        /// Content of the tool message.
        output: Value,
    },
}

/// Adds the `type` of a message without one. OpenAI's API permits it only there.
pub(super) fn normalise(item: &mut Value) {
    if let Value::Object(members) = item
        && members.get("type").is_none_or(Value::is_null)
        && members.contains_key("role")
    {
        members.insert("type".to_owned(), "message".into());
    }
}

/// Translates an item.
pub(super) fn translate(item: Value, path: &Path<'_>) -> Result<Step, Untranslatable> {
    let mut item = Members::read(path, item)?;
    let kind = match item.text("type")? {
        Some(kind) => kind,
        None if item.get("id").is_some() => "item_reference".to_owned(),
        None => return Err(Untranslatable::missing(&item.path("type"))),
    };
    match kind.as_str() {
        "message" => message(item),
        "reasoning" => {
            let mut reasoning = Reasoning::default();
            reasoning.add(item)?;
            Ok(Step::Reasoning(reasoning))
        }
        "function_call" => client_call(item, "function", "arguments"),
        "custom_tool_call" => client_call(item, "custom", "input"),
        "function_call_output" | "custom_tool_call_output" => output(item),
        "mcp_call" => executed_call(item),
        "item_reference" => {
            let advice = "References are resolved in the input of a request alone.";
            Err(Untranslatable::unsupported_value(&item.path("type"), &kind.into(), advice))
        }
        kind if builtin::is_item(kind) => Ok(Step::Dropped(kind.to_owned())),
        other => Err(Untranslatable::invalid_value(&item.path("type"), other, SUPPORTED)),
    }
}

fn message(mut item: Members<'_>) -> Result<Step, Untranslatable> {
    let role = item.required_text("role")?;
    let place = match role.as_str() {
        "user" => Place::User,
        "system" | "developer" => Place::Instructions,
        "assistant" => Place::Assistant,
        other => return Err(Untranslatable::invalid_value(&item.path("role"), other, ROLES)),
    };
    let content = item.required("content")?;
    let content = content::translate(content, place, &item.path("content"))?;
    if place == Place::Assistant {
        return Ok(Step::Assistant(content, rest(item)));
    }
    let mut message = object(json!({"role": role, "content": content}));
    message.extend(rest(item));
    Ok(Step::Message(message))
}

/// Translates a call of a client's tool. `input` is the member with the input of the tool.
fn client_call(mut item: Members<'_>, kind: &str, input: &str) -> Result<Step, Untranslatable> {
    let id = item.required_text("call_id")?;
    let round = item.get("id").and_then(Value::as_str).and_then(Round::of_item);
    check_call(&mut item)?;
    let group = item.text("namespace")?;
    let mut call = call(&id, kind, &mut item, input)?;
    if let Some(group) = group {
        let name = &mut call[kind]["name"];
        *name = builtin::flat_name(&group, name.as_str().unwrap_or_default()).into();
    }
    Ok(Step::Call { id, call: with_rest(call, item), output: None, round })
}

/// Translates a call that the gateway ran. Its identifier is that of the item.
fn executed_call(mut item: Members<'_>) -> Result<Step, Untranslatable> {
    let id = item.required_text("id")?;
    // The same call follows as one of a client's tool.
    if item.get("status").is_some_and(|status| status == "incomplete") && !has_result(&item) {
        return Ok(Step::Nothing);
    }
    let output = match (item.text("output")?, item.take("error")) {
        (Some(output), _) => output,
        (None, Some(error)) => error_text(&error),
        (None, None) => UNSENT.to_owned(),
    };
    for described in ["server_label", "approval_request_id"] {
        item.take(described);
    }
    let call = call(&id, "function", &mut item, "arguments")?;
    let round = Round::of_item(&id);
    Ok(Step::Call { id, call: with_rest(call, item), output: Some(output.into()), round })
}

fn has_result(item: &Members<'_>) -> bool {
    ["output", "error"].iter().any(|name| item.get(name).is_some_and(|value| !value.is_null()))
}

fn call(
    id: &str,
    kind: &str,
    item: &mut Members<'_>,
    input: &str,
) -> Result<Object, Untranslatable> {
    let name = item.required_text("name")?;
    let text = item.required_text(input)?;
    let mut call = object(json!({"id": id, "type": kind}));
    call.insert(kind.to_owned(), json!({"name": name, input: text}));
    Ok(call)
}

fn output(mut item: Members<'_>) -> Result<Step, Untranslatable> {
    let id = item.required_text("call_id")?;
    check_call(&mut item)?;
    let output = item.required("output")?;
    let output = content::translate(output, Place::ToolOutput, &item.path("output"))?;
    Ok(Step::Output { id, output })
}

/// Refuses calls of tools that cannot be declared.
fn check_call(item: &mut Members<'_>) -> Result<(), Untranslatable> {
    let advice = "Only calls by the model itself are supported.";
    item.refuse_unless("caller", &json!({"type": "direct"}), advice)?;
    item.refuse_unless("async", &false.into(), "Calls cannot be asynchronous.")
}

/// Returns the text of the `error` of a call, which is what the model was sent.
fn error_text(error: &Value) -> String {
    let content = error.get("content").unwrap_or(error);
    let parts = content.as_array().map(|parts| {
        let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
        texts.collect::<Vec<_>>().join("\n")
    });
    let text = parts
        .filter(|text| !text.is_empty())
        .or_else(|| content.as_str().or_else(|| error.get("message")?.as_str()).map(str::to_owned));
    text.unwrap_or_else(|| error.to_string())
}

fn with_rest(mut call: Object, item: Members<'_>) -> Object {
    // Members that the API does not define are kept, such as `extra_content`, in which Gemini's
    // endpoint sends the signature of a call's thought. It refuses the call without it.
    call.extend(rest(item));
    call
}

/// Returns the members that the Responses API does not define.
fn rest(mut item: Members<'_>) -> Object {
    item.take("id");
    item.take("status");
    item.into_rest()
}
