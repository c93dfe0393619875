//! Tools, and the choice among them.

use serde_json::Value;

use super::super::object_of;
use crate::{
    FunctionTool, Object, ToolChoice, ToolDefinition,
    read::{Path, Result, Untranslatable},
};

/// Types of tools that a caller defines. The other types of the Responses API run at the provider,
/// without a policy decision of the gateway.
const TYPES: &[&str] = &["function", "custom"];
/// Type of a choice among some tools.
const ALLOWED: &str = "allowed_tools";

/// Writes definitions of tools.
pub(super) fn write_definitions(tools: Vec<ToolDefinition>) -> Result<Vec<Value>> {
    let path = Path::Member(&Path::Root, "tools");
    let tools = tools.into_iter().enumerate().map(|(index, tool)| match tool {
        ToolDefinition::Function(tool) => Ok(function(tool).into()),
        ToolDefinition::Native(native) => {
            let mut flat = flat(native.object, &path.element(index))?;
            if let Some(Value::Object(format)) = flat.get_mut("format")
                && let Some(Value::Object(grammar)) = format.shift_remove("grammar")
            {
                format.extend(grammar);
            }
            Ok(flat.into())
        }
    });
    tools.collect()
}

/// Writes a function. `strict` is false if it is absent: the Responses API makes tools strict by default,
/// and chat completions do not.
fn function(tool: FunctionTool) -> Object {
    let FunctionTool { name, description, parameters, strict, cache_control, mut extra } = tool;
    let mut flat = object_of([("type", "function".into()), ("name", name.into())]);
    flat.extend(description.map(|text| ("description".to_owned(), text.into())));
    flat.extend(parameters.map(|schema| ("parameters".to_owned(), schema)));
    flat.insert("strict".to_owned(), strict.unwrap_or_default().into());
    let inner = match extra.shift_remove("function") {
        Some(Value::Object(inner)) => inner,
        _ => Object::new(),
    };
    let cache_control = cache_control.map(|mark| ("cache_control".to_owned(), mark));
    for (name, value) in inner.into_iter().chain(extra).chain(cache_control) {
        flat.entry(name).or_insert(value);
    }
    flat
}

/// Writes the choice.
pub(super) fn write_choice(choice: ToolChoice) -> Result<Value> {
    Ok(match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Function(name) => named(name),
        ToolChoice::Allowed { is_required, names } => {
            let mode = if is_required { "required" } else { "auto" };
            let tools: Vec<Value> = names.into_iter().map(named).collect();
            let members =
                [("type", ALLOWED.into()), ("mode", mode.into()), ("tools", tools.into())];
            object_of(members).into()
        }
        ToolChoice::Native(native) if native.kind == ALLOWED => allowed(native.object)?.into(),
        ToolChoice::Native(native) => {
            flat(native.object, &Path::Root.member("tool_choice"))?.into()
        }
    })
}

fn named(name: String) -> Value {
    object_of([("type", "function".into()), ("name", name.into())]).into()
}

/// Returns a choice among tools of which some are not functions.
fn allowed(mut choice: Object) -> Result<Object> {
    let path = Path::Member(&Path::Root, "tool_choice");
    let path = path.member(ALLOWED);
    let Some(Value::Object(mut allowed)) = choice.shift_remove(ALLOWED) else {
        return Err(Untranslatable::missing(&path));
    };
    let path = path.member("tools");
    let Some(Value::Array(tools)) = allowed.shift_remove("tools") else {
        return Err(Untranslatable::missing(&path));
    };
    let tools = tools.into_iter().enumerate().map(|(index, tool)| match tool {
        Value::Object(tool) => flat(tool, &path.element(index)).map(Value::Object),
        other => Err(Untranslatable::invalid_type(&path.element(index), "an object", &other)),
    });
    let tools: Vec<Value> = tools.collect::<Result<_, _>>()?;
    choice.extend(allowed);
    choice.insert("tools".to_owned(), tools.into());
    Ok(choice)
}

/// Moves the members of the object that is named after the type of a tool beside the type.
fn flat(mut tool: Object, path: &Path<'_>) -> Result<Object> {
    let kind = match tool.shift_remove("type") {
        Some(Value::String(kind)) => kind,
        _ => String::new(),
    };
    if !TYPES.contains(&kind.as_str()) {
        return Err(Untranslatable::invalid_value(&path.member("type"), &kind, TYPES));
    }
    let Some(Value::Object(inner)) = tool.shift_remove(&kind) else {
        return Err(Untranslatable::missing(&path.member(&kind)));
    };
    let mut flat = object_of([("type", kind.into())]);
    flat.extend(inner.into_iter().filter(|(name, _)| name != "type"));
    for (name, value) in tool {
        flat.entry(name).or_insert(value);
    }
    Ok(flat)
}
