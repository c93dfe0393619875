//! Tools and the choice among them.

use serde_json::Value;

use super::content::kind;
use crate::{
    Conversation, FunctionTool, NativeItem, ToolChoice, ToolDefinition, Wire,
    read::{Members, Path, Result, Untranslatable},
};

/// Member of a tool that a tool of the provider would load. Tools of the provider are not offered, so it is
/// offered at once.
const DEFERRED: &str = "defer_loading";

/// Reads `tools` and `tool_choice`.
pub(super) fn read(members: &mut Members<'_>, conversation: &mut Conversation) -> Result<()> {
    conversation.tools = members.elements("tools", definition)?;
    if let Some(choice) = members.take("tool_choice") {
        let path = members.path("tool_choice");
        let mut choice = Members::read(&path, choice)?;
        conversation.tool_choice = Some(tool_choice(&mut choice)?);
        if choice.flag("disable_parallel_tool_use", false)? {
            conversation.settings.parallel_tool_calls = Some(false);
        }
        choice.finish()?;
    }
    Ok(())
}

fn definition(tool: Value, path: &Path<'_>) -> Result<ToolDefinition> {
    let is_own = matches!(kind(&tool), "" | "custom");
    let mut members = match tool {
        Value::Object(tool) if !is_own => {
            return Ok(ToolDefinition::Native(NativeItem::new(Wire::Messages, tool)));
        }
        tool => Members::read(path, tool)?,
    };
    members.take("type");
    let name = members.required_text("name")?;
    let description = members.text("description")?;
    let parameters = members.required("input_schema")?;
    if !parameters.is_object() {
        let path = members.path("input_schema");
        return Err(Untranslatable::invalid_type(&path, "an object", &parameters));
    }
    let strict = match members.get("strict") {
        None => None,
        Some(_) => Some(members.flag("strict", false)?),
    };
    let cache_control = members.take("cache_control");
    members.take(DEFERRED);
    let mut extra = members.into_rest();
    extra.retain(|_, value| !value.is_null());
    Ok(ToolDefinition::Function(FunctionTool {
        name,
        description,
        parameters: Some(parameters),
        strict,
        cache_control,
        extra,
    }))
}

fn tool_choice(choice: &mut Members<'_>) -> Result<ToolChoice> {
    Ok(match choice.required_text("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Function(choice.required_text("name")?),
        other => {
            let supported = ["auto", "any", "tool", "none"];
            return Err(Untranslatable::invalid_value(&choice.path("type"), other, &supported));
        }
    })
}
