//! Tools, and the choice among them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::TARGET;
use crate::{
    FunctionTool, Object, ToolChoice, ToolDefinition,
    gemini::object_of,
    read::{Path, Result, Untranslatable},
    target::member,
};

/// Writes `tools` into `body` and the choice into the `toolConfig` of `extra`.
pub(super) fn write_tools(
    tools: Vec<ToolDefinition>,
    choice: Option<ToolChoice>,
    body: &mut Object,
    extra: &mut Object,
) -> Result<()> {
    let mut declarations = declarations(tools)?;
    let choice = choice.map(|choice| function_calling(choice, &mut declarations)).transpose()?;
    // The API refuses a choice without tools, even one that asks for no call.
    let is_needed = !declarations.is_empty();
    let choice =
        choice.filter(|choice| is_needed || choice.get("mode").is_some_and(|m| m == "ANY"));
    if is_needed {
        let tool = object_of([("functionDeclarations", declarations.into())]);
        body.insert("tools".to_owned(), vec![Value::Object(tool)].into());
    }
    if let Some(choice) = choice {
        let config = member(extra, "toolConfig")?;
        TARGET.set(config, "functionCallingConfig", choice.into(), "tool_choice")?;
    }
    Ok(())
}

fn declarations(tools: Vec<ToolDefinition>) -> Result<Vec<Value>> {
    let path = Path::Member(&Path::Root, "tools");
    let declarations = tools.into_iter().enumerate().map(|(index, tool)| match tool {
        ToolDefinition::Function(tool) => Ok(declaration(tool).into()),
        // Custom tools have no counterpart, and tools of Gemini's own would run without a policy
        // decision of the gateway.
        ToolDefinition::Native(tool) => {
            let path = path.element(index);
            let path = path.member("type");
            Err(Untranslatable::not_among(&path, &tool.kind, &["function"]))
        }
    });
    declarations.collect()
}

/// Returns a declaration. `strict` has no counterpart: Gemini validates the arguments of all functions
/// or of none.
fn declaration(tool: FunctionTool) -> Object {
    let FunctionTool { name, description, parameters, extra, .. } = tool;
    let mut declaration = object_of([("name", name.into())]);
    if let Some(description) = description {
        declaration.insert("description".to_owned(), description.into());
    }
    if let Some(parameters) = parameters {
        // Not `parameters`, which is a subset of OpenAPI's schemas: it refuses `$ref`, `$defs`,
        // `additionalProperties`, `const`, `oneOf` and lists of types, which MCP servers use.
        declaration.insert("parametersJsonSchema".to_owned(), parameters);
    }
    for (name, value) in extra {
        declaration.entry(name).or_insert(value);
    }
    declaration
}

/// Returns `functionCallingConfig`. Gemini restricts forced calls alone (`allowedFunctionNames`), so
/// of a choice among some tools, the others are not offered.
fn function_calling(choice: ToolChoice, declarations: &mut Vec<Value>) -> Result<Object> {
    let mode = match choice {
        ToolChoice::Auto => "AUTO",
        ToolChoice::None => "NONE",
        ToolChoice::Required => "ANY",
        ToolChoice::Function(name) => {
            let names = vec![Value::String(name)];
            let members = [("mode", "ANY".into()), ("allowedFunctionNames", names.into())];
            return Ok(object_of(members));
        }
        ToolChoice::Allowed { is_required, names } => {
            let names: BTreeSet<_> = names.iter().map(String::as_str).collect();
            declarations.retain(|tool| tool["name"].as_str().is_some_and(|n| names.contains(n)));
            if is_required { "ANY" } else { "AUTO" }
        }
        ToolChoice::Native(choice) => {
            let supported = ["auto", "none", "required", "function", "allowed_tools"];
            let path = Path::Member(&Path::Root, "tool_choice");
            return Err(Untranslatable::invalid_value(&path, &choice.kind, &supported));
        }
    };
    Ok(object_of([("mode", mode.into())]))
}
