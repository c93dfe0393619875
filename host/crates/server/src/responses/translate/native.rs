//! Requests for a provider that has the Responses API: the members as they came.
//!
//! The provider judges the request. The gateway changes only the parts that are its own: the items of
//! calls that it ran, and reasoning that it received from a provider of another API.

use http::StatusCode;
use serde_json::{Value, json};

use super::{
    builtin::{self, BuiltinTools, ClientTools},
    echo::Echo,
    items::{self, Step},
    output, reasoning,
    request::{self, Chat, to_chat, tools},
};
use airlock_agent::recall::note;
use airlock_conversation::read::{Members, Path, Untranslatable};
use airlock_json::RawObject;
use airlock_model::{Native, Object, Refusal, object};

/// Types of items that are sent as they came. Others may bring tools that run at the provider; those
/// of the last four are records of what ran there.
const SENT: [&str; 11] = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "compaction",
    "code_interpreter_call",
    "file_search_call",
    "image_generation_call",
    "web_search_call",
];

/// Reads a request for a provider that has the Responses API. `earlier` has the stored items of the
/// previous responses, the oldest first. With `may_fall_back` the request is translated as well, for
/// providers that have no such API; if it cannot be, they are not asked.
pub(crate) fn to_native(
    request: Object,
    earlier: Vec<Value>,
    may_fall_back: bool,
    builtin: &BuiltinTools,
) -> Result<Chat, Untranslatable> {
    let translated = if may_fall_back {
        to_chat(request.clone(), earlier.clone(), builtin)
    } else {
        Err(not_translated())
    };
    let mut read = read(request, earlier, builtin)?;
    let mut native = read.native.take();
    let mut only = None;
    match translated {
        // A tool that is passed is not dropped without a word.
        Ok(chat) if !chat.dropped.is_subset(&read.dropped) => {
            only = Some(Box::new(refusal(not_translated())));
        }
        Ok(chat) => read.body = chat.body,
        Err(error) => only = Some(Box::new(refusal(error))),
    }
    if let Some(native) = &mut native {
        native.only = only;
    }
    Ok(Chat { native, ..read })
}

fn read(
    request: Object,
    earlier: Vec<Value>,
    builtin: &BuiltinTools,
) -> Result<Chat, Untranslatable> {
    let mut client_tools = ClientTools::new(builtin, true);
    let echo = Echo::from_request(&request);
    let mut members = Members::new(&Path::Root, request);
    request::refuse_always(&mut members)?;
    let store = members.flag("store", true)?;
    let stream = members.flag("stream", false)?;
    let max_tool_calls = members.count("max_tool_calls")?;
    members.text("previous_response_id")?;
    let input = request::read_input(&mut members)?;
    let stored = if store { input.clone() } else { Vec::new() };
    let tools = members.list("tools")?;
    let path = members.path("tools");
    let tools = tools.map(|tools| client_tools.read(tools, &path, tools::checked)).transpose()?;
    let choice = members.take("tool_choice");
    let choice = choice.map(|choice| tools::native_choice(choice, &members.path("tool_choice")));
    let mut body = Object::new();
    for name in ["model", "fallbacks"] {
        body.extend(members.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    let mut native = members.into_rest();
    native.insert("input".to_owned(), items_of(earlier, input, &mut client_tools)?.into());
    native.extend(tools.map(|tools| ("tools".to_owned(), tools.into())));
    native.extend(choice.transpose()?.map(|choice| ("tool_choice".to_owned(), choice)));
    let native = Native { body: RawObject::from(&native), only: None };
    let native = Some(native);
    let ClientTools { groups, dropped, .. } = client_tools;
    Ok(Chat { body, stream, store, max_tool_calls, input: stored, echo, native, groups, dropped })
}

/// Returns the items of the conversation as the provider receives them.
fn items_of(
    earlier: Vec<Value>,
    input: Vec<Value>,
    client_tools: &mut ClientTools<'_>,
) -> Result<Vec<Value>, Untranslatable> {
    let mut items = Vec::with_capacity(earlier.len() + input.len());
    let path = Path::Member(&Path::Root, "input");
    for value in earlier {
        let added = item(value, &path, client_tools);
        add(&mut items, added.map_err(Untranslatable::in_previous_response)?);
    }
    for (index, value) in input.into_iter().enumerate() {
        add(&mut items, item(value, &path.element(index), client_tools)?);
    }
    Ok(items)
}

/// Adds items. Removes the note about an approval from a message of the model before a call.
fn add(items: &mut Vec<Value>, added: Vec<Value>) {
    let kind = added.first().and_then(|item| item["type"].as_str());
    if matches!(kind, Some("function_call" | "custom_tool_call"))
        && let Some(last) = items.last_mut()
        && last["type"] == "message"
        && last["role"] == "assistant"
        && let Some(content) = last.get_mut("content")
    {
        match note::without_approval(content.take()) {
            Some(rest) => *content = rest,
            None => drop(items.pop()),
        }
    }
    items.extend(added);
}

fn item(
    mut value: Value,
    path: &Path<'_>,
    client_tools: &mut ClientTools<'_>,
) -> Result<Vec<Value>, Untranslatable> {
    let Value::Object(members) = &mut value else {
        return Err(Untranslatable::invalid_type(path, "an object", &value));
    };
    flatten(members);
    let members = &*members;
    let kind = members.get("type").and_then(Value::as_str);
    match kind {
        // A reference has an error of its own: items are stored by the gateway alone.
        Some("item_reference") | None => items::translate(value, path).map(|_| Vec::new()),
        Some("mcp_call") => match items::translate(value, path)? {
            Step::Call { id, call, output, .. } => Ok(executed(&id, &call, output.as_ref())),
            _ => Ok(Vec::new()),
        },
        Some("reasoning") if is_of_gateway(members) => Ok(Vec::new()),
        Some(kind) if !SENT.contains(&kind) && builtin::is_item(kind) => {
            client_tools.drop_item(kind, path)?;
            Ok(Vec::new())
        }
        Some(kind) if !SENT.contains(&kind) => {
            Err(Untranslatable::invalid_value(&path.member("type"), kind, &SENT))
        }
        // A tool beside those of the request would run at the provider, without a decision of the
        // gateway.
        Some(_) if members.contains_key("tools") => {
            let advice = "Tools are a parameter of the request.";
            Err(Untranslatable::invalid(&path.member("tools"), advice))
        }
        Some(_) => Ok(vec![value]),
    }
}

/// Gives a call of a function of a group the name that the provider knows.
fn flatten(call: &mut Object) {
    let group = call.get("namespace").and_then(Value::as_str);
    let name = call.get("name").and_then(Value::as_str);
    if let (Some(group), Some(name)) = (group, name) {
        let name = builtin::flat_name(group, name);
        call.insert("name".to_owned(), name.into());
        call.shift_remove("namespace");
    }
}

/// Returns the items of a call that the gateway ran, which the provider knows as a function.
fn executed(id: &str, call: &Object, output: Option<&Value>) -> Vec<Value> {
    let function = &call["function"];
    vec![
        json!({
            "type": "function_call",
            "call_id": id,
            "name": function["name"],
            "arguments": function["arguments"],
        }),
        json!({"type": "function_call_output", "call_id": id, "output": output}),
    ]
}

/// Returns whether the gateway made a reasoning item from the answer of a provider of another API.
/// Another provider cannot read it.
fn is_of_gateway(item: &Object) -> bool {
    match item.get("encrypted_content").and_then(Value::as_str) {
        Some(state) => reasoning::is_own_state(state),
        None => item.get("id").and_then(Value::as_str).is_some_and(output::is_own_id),
    }
}

fn refusal(error: Untranslatable) -> Refusal {
    let Untranslatable { code, param, message } = error;
    let error = object(json!({
        "message": message, "type": "invalid_request_error", "param": param, "code": code
    }));
    Refusal { status: StatusCode::BAD_REQUEST, error, retry_after: None }
}

/// Returns the reason of a request that no provider but its own is asked for.
fn not_translated() -> Untranslatable {
    let message = "The request is for a provider that has the Responses API.".to_owned();
    Untranslatable { code: "unsupported_parameter", param: "model".to_owned(), message }
}
