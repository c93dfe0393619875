//! A request as the gateway hands it on: the members that the gateway acts on itself are taken, and its
//! own items become those of the API.
//!
//! | module | purpose |
//! |---|---|
//! | `input` | the items of the conversation |

mod input;

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    builtin::{BuiltinTools, ClientTools, DEFINABLE, Groups},
    echo::Echo,
};
use airlock_conversation::{
    ItemPlace, Object,
    read::{Members, Path, Untranslatable},
    responses,
};

/// Forms of an object `tool_choice`.
const TYPED_CHOICES: &[&str] = &["function", "custom", "mcp", "allowed_tools"];

/// A Responses request, prepared for the loop.
#[derive(Debug)]
pub struct Prepared {
    /// The request. `input` is the whole conversation, as a list of items.
    pub body: Object,
    /// Places of the elements of `input` in the client's list.
    pub places: Vec<ItemPlace>,
    /// True if the client asks for stream events.
    pub stream: bool,
    /// True if the response is to be stored.
    pub store: bool,
    /// Maximum number of calls of the gateway's tools. Other APIs have no such limit, so the agent loop
    /// applies it.
    pub max_tool_calls: Option<u64>,
    /// The items of `input`, for the store. Empty if the response is not to be stored.
    pub input: Vec<Value>,
    /// The members that the Response repeats.
    pub echo: Echo,
    /// Names of the functions of groups.
    pub groups: Groups,
    /// Types of built-in tools, and of items about them, that are left out.
    pub dropped: BTreeSet<String>,
}

/// Prepares a request. `earlier` has the stored items of the previous Responses, input and output, the
/// oldest first; as the API requires, their instructions are not part of it. With `is_native`, its
/// provider has the Responses API and judges the request. Fails with the position of the first member
/// that is invalid or that no provider may receive.
pub fn prepare(
    request: Object,
    earlier: Vec<Value>,
    is_native: bool,
    builtin: &BuiltinTools,
) -> Result<Prepared, Untranslatable> {
    let mut client_tools = ClientTools::new(builtin, is_native);
    let mut echo = Echo::from_request(&request);
    if !is_native {
        // No item is ever removed.
        echo.set("truncation", "disabled".into());
    }
    let mut members = Members::new(&Path::Root, request);
    responses::refuse_always(&mut members)?;
    let store = members.flag("store", true)?;
    let stream = members.flag("stream", false)?;
    let max_tool_calls = members.count("max_tool_calls")?;
    members.text("previous_response_id")?;
    let input = responses::read_input(&mut members)?;
    let stored = if store { input.clone() } else { Vec::new() };
    let tools = members.list("tools")?;
    let path = members.path("tools");
    let check = if is_native { checked } else { checked_for_others };
    let tools = tools.map(|tools| client_tools.read(tools, &path, check)).transpose()?;
    let choice = members.take("tool_choice");
    let choice = choice.map(|choice| with_functions(choice, &members.path("tool_choice")));
    let choice = choice.transpose()?;
    let (items, places) = input::prepare(earlier, input, &mut client_tools)?;
    let mut body = members.into_rest();
    body.insert("input".to_owned(), items.into());
    body.extend(tools.map(|tools| ("tools".to_owned(), tools.into())));
    body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    let ClientTools { groups, dropped, .. } = client_tools;
    Ok(Prepared {
        body,
        places,
        stream,
        store,
        max_tool_calls,
        input: stored,
        echo,
        groups,
        dropped,
    })
}

/// Returns the definition of a tool as it came. Built-in tools run at the provider, where no policy of
/// the gateway applies.
fn checked(tool: Value, path: &Path<'_>) -> Result<Value, Untranslatable> {
    let Value::Object(members) = &tool else {
        return Err(Untranslatable::invalid_type(path, "an object", &tool));
    };
    let path = path.member("type");
    match members.get("type") {
        Some(Value::String(kind)) if DEFINABLE.contains(&kind.as_str()) => Ok(tool),
        Some(Value::String(kind)) => Err(responses::unavailable_tool(&path, kind)),
        Some(Value::Null) | None => Err(Untranslatable::missing(&path)),
        Some(other) => Err(Untranslatable::invalid_type(&path, "a string", other)),
    }
}

/// As [`checked`], for a provider that does not have the Responses API. Later, the places of the client's
/// tools are not known.
fn checked_for_others(tool: Value, path: &Path<'_>) -> Result<Value, Untranslatable> {
    responses::check_definition(&tool, path)?;
    Ok(tool)
}

/// Returns a `tool_choice` in which a tool of the gateway is a function, as it is for the model.
fn with_functions(choice: Value, path: &Path<'_>) -> Result<Value, Untranslatable> {
    let Value::Object(mut members) = choice else { return Ok(choice) };
    let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "function" | "custom" => {}
        "mcp" => {
            members.insert("type".to_owned(), "function".into());
            members.shift_remove("server_label");
        }
        "allowed_tools" => {
            if let Some(Value::Array(tools)) = members.get_mut("tools") {
                let path = path.member("tools");
                for (index, tool) in tools.iter_mut().enumerate() {
                    *tool = with_functions(tool.take(), &path.element(index))?;
                }
            }
        }
        other => {
            return Err(Untranslatable::invalid_value(&path.member("type"), other, TYPED_CHOICES));
        }
    }
    Ok(members.into())
}
