//! `tools` and `tool_choice`.

use serde_json::{Value, json};

use super::object_of;
use crate::{
    FunctionTool, NativeItem, Object, ToolChoice, ToolDefinition, Wire, chat,
    read::{Members, Path, Result, Untranslatable},
};

/// Types of tools that a client can define.
const DEFINABLE: &[&str] = &["function", "custom"];
/// Types of a `tool_choice`.
const TYPED_CHOICES: &[&str] = &["function", "custom", "mcp", "allowed_tools"];
/// Type of a choice among some tools.
const ALLOWED: &str = "allowed_tools";

/// Takes `tools`.
pub(super) fn read_definitions(request: &mut Members<'_>) -> Result<Vec<ToolDefinition>> {
    request.elements("tools", definition)
}

/// Fails if a provider of another API could not receive the definition of a tool.
pub fn check_definition(tool: &Value, path: &Path<'_>) -> Result<(), Untranslatable> {
    definition(tool.clone(), path).map(drop)
}

/// Reads the definition of a tool.
///
/// `strict` is not added if it is absent. The Responses API is then strict where the schema permits
/// it, but chat completions with `strict` refuse a schema that does not.
fn definition(tool: Value, path: &Path<'_>) -> Result<ToolDefinition> {
    let mut tool = Members::read(path, tool)?;
    let kind = tool.required_text("type")?;
    if !DEFINABLE.contains(&kind.as_str()) {
        return Err(unavailable_tool(&tool.path("type"), &kind));
    }
    refuse_orchestration(&mut tool)?;
    // Without the tool that would load it later, it is offered at once.
    tool.take("defer_loading");
    let name = tool.required_text("name")?;
    let description = tool.text("description")?;
    if kind == "custom" {
        return custom(name, description, tool);
    }
    let parameters = tool.take("parameters");
    let strict = chat::read_boolean(&mut tool, "strict")?;
    let cache_control = tool.take("cache_control");
    let extra = chat::rest(tool);
    Ok(ToolDefinition::Function(FunctionTool {
        name,
        description,
        parameters,
        strict,
        cache_control,
        extra,
    }))
}

/// Returns a custom tool in the form of chat completions.
fn custom(
    name: String,
    description: Option<String>,
    mut tool: Members<'_>,
) -> Result<ToolDefinition> {
    let mut inner = object_of([("name", name.into())]);
    inner.extend(description.map(|text| ("description".to_owned(), text.into())));
    if let Some(format) = tool.take("format") {
        let format = input_format(Members::read(&tool.path("format"), format)?)?;
        inner.insert("format".to_owned(), format);
    }
    let mut object = object_of([("type", "custom".into()), ("custom", inner.into())]);
    object.extend(chat::rest(tool));
    Ok(ToolDefinition::Native(NativeItem::new(Wire::Chat, object)))
}

/// Returns the error of a tool of a type that a client cannot define.
pub fn unavailable_tool(path: &Path<'_>, kind: &str) -> Untranslatable {
    let mut error = Untranslatable::invalid_value(path, kind, DEFINABLE);
    error.message.push_str(if kind == "mcp" {
        " MCP servers are part of the gateway's configuration, and their tools are offered without \
         being listed here."
    } else {
        " OpenAI's built-in tools are not available."
    });
    error
}

/// Refuses the settings for tools that run asynchronously or are called by other tools.
fn refuse_orchestration(tool: &mut Members<'_>) -> Result<()> {
    let advice = "It has no counterpart in chat completions. Only the default is supported.";
    tool.refuse_unless("allowed_callers", &json!(["direct"]), advice)?;
    tool.refuse_unless("async", &false.into(), advice)?;
    tool.refuse("output_schema", "It has no counterpart in chat completions.")
}

/// Reads the input format of a custom tool, in the form of chat completions.
fn input_format(mut format: Members<'_>) -> Result<Value> {
    let kind = format.required_text("type")?;
    match kind.as_str() {
        "text" => Ok(json!({"type": kind})),
        "grammar" => {
            let syntax = format.required_text("syntax")?;
            let definition = format.required_text("definition")?;
            Ok(json!({"type": kind, "grammar": {"syntax": syntax, "definition": definition}}))
        }
        other => {
            Err(Untranslatable::invalid_value(&format.path("type"), other, &["text", "grammar"]))
        }
    }
}

/// Takes `tool_choice`.
pub(super) fn read_choice(request: &mut Members<'_>) -> Result<Option<ToolChoice>> {
    chat::read_choice_with(request, |choice, path| typed(Members::new(path, choice)))
}

fn typed(mut choice: Members<'_>) -> Result<ToolChoice> {
    if choice.get("type").is_none_or(|kind| kind != ALLOWED) {
        return Ok(match named(choice)? {
            NamedTool { is_custom: false, name } => ToolChoice::Function(name),
            tool => ToolChoice::Native(NativeItem::new(Wire::Chat, tool.into_chat())),
        });
    }
    let mode = choice.required_text("mode")?;
    let tools = choice.elements("tools", |tool, path| named(Members::read(path, tool)?))?;
    let is_required = mode == "required";
    if (is_required || mode == "auto") && tools.iter().all(|tool| !tool.is_custom) {
        let names = tools.into_iter().map(|tool| tool.name).collect();
        return Ok(ToolChoice::Allowed { is_required, names });
    }
    let tools: Vec<Value> = tools.into_iter().map(|tool| tool.into_chat().into()).collect();
    let allowed = object_of([("mode", mode.into()), ("tools", tools.into())]);
    let object = object_of([("type", ALLOWED.into()), (ALLOWED, allowed.into())]);
    Ok(ToolChoice::Native(NativeItem::new(Wire::Chat, object)))
}

/// A tool that a choice names.
struct NamedTool {
    is_custom: bool,
    name: String,
}

impl NamedTool {
    /// Returns the tool in the form of chat completions.
    fn into_chat(self) -> Object {
        let kind = if self.is_custom { "custom" } else { "function" };
        let name = object_of([("name", self.name.into())]);
        object_of([("type", kind.into()), (kind, name.into())])
    }
}

/// Reads the choice of one tool. A tool of the gateway, which Responses show as `mcp`, is a function for
/// the model.
fn named(mut choice: Members<'_>) -> Result<NamedTool> {
    let kind = choice.required_text("type")?;
    let is_custom = match kind.as_str() {
        "function" | "mcp" => false,
        "custom" => true,
        other => {
            return Err(Untranslatable::invalid_value(&choice.path("type"), other, TYPED_CHOICES));
        }
    };
    Ok(NamedTool { is_custom, name: choice.required_text("name")? })
}
