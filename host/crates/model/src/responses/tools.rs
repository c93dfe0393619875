//! Tools of a chat completion request.

use serde_json::Value;

use crate::{
    Object,
    translation::{Unsupported, object_of, take_text},
};

/// Types of tools that a caller defines. The other types of the Responses API run at the provider,
/// without a policy decision of the gateway.
const TYPES: [&str; 2] = ["function", "custom"];

/// Returns the definitions of tools; `None` if there are none.
pub(super) fn definitions(tools: Option<Value>) -> Result<Option<Vec<Value>>, Unsupported> {
    let tools = match tools {
        None => return Ok(None),
        Some(Value::Array(tools)) => tools,
        Some(_) => return Err(Unsupported::new("tools", "must be a list")),
    };
    let definitions = tools.into_iter().enumerate().map(|(index, tool)| {
        definition(tool).map_err(|error| error.within(format_args!("tools[{index}]")))
    });
    definitions.collect::<Result<_, _>>().map(Some)
}

/// Translates a definition. `strict` is false if it is absent: the Responses API makes tools strict
/// by default, and chat completions do not.
fn definition(tool: Value) -> Result<Value, Unsupported> {
    let mut flat = flat(tool)?;
    if flat["type"] == "function" {
        flat.entry("strict").or_insert(false.into());
    }
    if let Some(Value::Object(format)) = flat.get_mut("format")
        && let Some(Value::Object(grammar)) = format.shift_remove("grammar")
    {
        format.extend(grammar);
    }
    Ok(flat.into())
}

/// Returns `tool_choice`.
pub(super) fn choice(choice: Value) -> Result<Value, Unsupported> {
    let Value::Object(mut object) = choice else { return Ok(choice) };
    if object.get("type").is_none_or(|kind| kind != "allowed_tools") {
        let named = flat(object.into()).map_err(|error| error.within("tool_choice"))?;
        return Ok(named.into());
    }
    let Some(Value::Object(mut allowed)) = object.shift_remove("allowed_tools") else {
        return Err(Unsupported::new("tool_choice.allowed_tools", "must be an object"));
    };
    let Some(Value::Array(tools)) = allowed.shift_remove("tools") else {
        return Err(Unsupported::new("tool_choice.allowed_tools.tools", "must be a list"));
    };
    let tools = tools.into_iter().enumerate().map(|(index, tool)| {
        let path = format!("tool_choice.allowed_tools.tools[{index}]");
        flat(tool).map(Value::Object).map_err(|error| error.within(path))
    });
    let tools: Vec<Value> = tools.collect::<Result<_, _>>()?;
    object.extend(allowed);
    object.insert("tools".to_owned(), tools.into());
    Ok(object.into())
}

/// Moves the members of the object that is named after the type of a tool beside the type.
fn flat(tool: Value) -> Result<Object, Unsupported> {
    let Value::Object(mut tool) = tool else {
        return Err(Unsupported::new("", "must be an object"));
    };
    let kind = take_text(&mut tool, "type")?;
    if !TYPES.contains(&kind.as_str()) {
        return Err(Unsupported::new("type", "must be \"function\" or \"custom\""));
    }
    let Some(Value::Object(inner)) = tool.shift_remove(&kind) else {
        return Err(Unsupported::new(kind, "must be an object"));
    };
    let mut flat = object_of([("type", kind.into())]);
    flat.extend(inner.into_iter().filter(|(name, _)| name != "type"));
    for (name, value) in tool {
        flat.entry(name).or_insert(value);
    }
    Ok(flat)
}
