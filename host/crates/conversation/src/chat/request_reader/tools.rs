//! `tools` and `tool_choice`.

use serde_json::Value;

use super::super::members::{CACHE_CONTROL, keep_inner, read_boolean, rest};
use crate::{
    FunctionTool, NativeItem, Object, ToolChoice, ToolDefinition, Wire,
    read::{Members, Path, Result, Untranslatable},
};

/// Texts that are a choice.
const CHOICES: &[&str] = &["none", "auto", "required"];
/// Mistral's older name of the last one.
const ANY: &str = "any";

/// Takes `tools`.
pub(super) fn read_definitions(request: &mut Members<'_>) -> Result<Vec<ToolDefinition>> {
    request.elements("tools", read_definition)
}

fn read_definition(tool: Value, path: &Path<'_>) -> Result<ToolDefinition> {
    let mut tool = Members::read(path, tool)?;
    let is_function = match tool.get("type") {
        Some(kind) => kind == "function",
        None => tool.get("function").is_some(),
    };
    if !is_function {
        return Ok(ToolDefinition::Native(NativeItem::new(Wire::Chat, rest(tool))));
    }
    tool.take("type");
    let path = tool.path("function");
    let mut function = Members::read(&path, tool.required("function")?)?;
    let outer = tool.take(CACHE_CONTROL);
    let inner = function.take(CACHE_CONTROL);
    let name = function.required_text("name")?;
    let description = function.text("description")?;
    let parameters = function.take("parameters");
    let strict = read_boolean(&mut function, "strict")?;
    let mut extra = rest(tool);
    keep_inner(&mut extra, "function", function);
    Ok(ToolDefinition::Function(FunctionTool {
        name,
        description,
        parameters,
        strict,
        cache_control: outer.or(inner),
        extra,
    }))
}

/// Takes `tool_choice`.
pub(super) fn read_choice(request: &mut Members<'_>) -> Result<Option<ToolChoice>> {
    if request.get("tool_choice").is_some_and(|choice| choice == ANY) {
        request.take("tool_choice");
        return Ok(Some(ToolChoice::Required));
    }
    read_choice_with(request, read_object)
}

/// Takes `tool_choice`: one of OpenAI's texts, or an object.
pub(crate) fn read_choice_with(
    request: &mut Members<'_>,
    read_object: impl FnOnce(Object, &Path<'_>) -> Result<ToolChoice>,
) -> Result<Option<ToolChoice>> {
    let path = request.path("tool_choice");
    let choice = match request.take("tool_choice") {
        None => return Ok(None),
        Some(Value::String(choice)) => match choice.as_str() {
            "none" => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            other => return Err(Untranslatable::invalid_value(&path, other, CHOICES)),
        },
        Some(Value::Object(choice)) => read_object(choice, &path)?,
        Some(other) => {
            return Err(Untranslatable::invalid_type(&path, "a string or an object", &other));
        }
    };
    Ok(Some(choice))
}

fn read_object(choice: Object, path: &Path<'_>) -> Result<ToolChoice> {
    match choice.get("type").and_then(Value::as_str) {
        Some("function") => {
            let name = name_of(&choice).map(ToolChoice::Function);
            name.ok_or_else(|| Untranslatable::missing(&path.member("function").member("name")))
        }
        Some("allowed_tools") => Ok(read_allowed(&choice).unwrap_or_else(|| native(choice))),
        _ => Ok(native(choice)),
    }
}

/// Reads a choice among functions; `None` if it is not one, such as one with a custom tool. Chat
/// completions have its members in an object of its own, and the Responses API does not.
fn read_allowed(choice: &Object) -> Option<ToolChoice> {
    let inner = choice.get("allowed_tools").and_then(Value::as_object).unwrap_or(choice);
    let is_required = match inner.get("mode")?.as_str()? {
        "auto" => false,
        "required" => true,
        _ => return None,
    };
    let tools = inner.get("tools")?.as_array()?.iter().map(Value::as_object);
    let names = tools.map(|tool| {
        let tool = tool.filter(|tool| tool.get("type").is_some_and(|kind| kind == "function"));
        name_of(tool?)
    });
    Some(ToolChoice::Allowed { is_required, names: names.collect::<Option<_>>()? })
}

/// Returns the name of a function: in an object of its own, as in chat completions, or beside the type,
/// as in the Responses API.
fn name_of(tool: &Object) -> Option<String> {
    let name = tool.get("function").map_or_else(|| tool.get("name"), |body| body.get("name"));
    name?.as_str().map(str::to_owned)
}

fn native(choice: Object) -> ToolChoice {
    ToolChoice::Native(NativeItem::new(Wire::Chat, choice))
}
