//! Tools, and the choice among them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{super::object_of, content::CACHE_CONTROL};
use crate::{
    FunctionTool, NativeItem, Object, ToolChoice, ToolDefinition,
    read::{Path, Result, Untranslatable},
};

const TOOL_CHOICE: &str = "tool_choice";
/// Type of a choice among some tools in chat.
const ALLOWED: &str = "allowed_tools";

/// Writes `tools` and `tool_choice` into `body`. `parallel` is false if at most one tool may be called
/// in a turn.
pub(super) fn write(
    tools: Vec<ToolDefinition>,
    choice: Option<ToolChoice>,
    parallel: Option<bool>,
    body: &mut Object,
) -> Result<()> {
    let mut tools = definitions(tools)?;
    let mut choice = choice.map(|choice| write_choice(choice, &mut tools)).transpose()?;
    if parallel == Some(false) {
        let choice = choice.get_or_insert_with(|| of_type("auto"));
        if !is(choice, "none") {
            choice.insert("disable_parallel_tool_use".to_owned(), true.into());
        }
    }
    // The API refuses a choice without tools, even one that asks for no call.
    if tools.is_empty() {
        choice = choice.filter(|choice| !is(choice, "auto") && !is(choice, "none"));
    } else {
        body.insert("tools".to_owned(), tools.into());
    }
    body.extend(choice.map(|choice| (TOOL_CHOICE.to_owned(), choice.into())));
    Ok(())
}

fn definitions(tools: Vec<ToolDefinition>) -> Result<Vec<Value>> {
    let path = Path::Member(&Path::Root, "tools");
    let definitions = tools.into_iter().enumerate().map(|(index, tool)| match tool {
        ToolDefinition::Function(tool) => definition(tool, &path.element(index)).map(Value::Object),
        // Chat's custom tools have no counterpart, and Anthropic's server tools would run without a
        // policy decision of the gateway.
        ToolDefinition::Native(tool) => {
            let path = path.element(index);
            Err(Untranslatable::not_among(&path.member("type"), &tool.kind, &["function"]))
        }
    });
    definitions.collect()
}

/// Returns a definition. Members beside chat's `function`, such as `defer_loading`, are Anthropic's own
/// and stay.
fn definition(tool: FunctionTool, path: &Path<'_>) -> Result<Object> {
    let FunctionTool { name, description, parameters, strict, cache_control, mut extra } = tool;
    extra.shift_remove("function");
    let mut definition = object_of([("name", name.into())]);
    definition.extend(description.map(|text| ("description".to_owned(), text.into())));
    definition.insert("input_schema".to_owned(), schema(parameters, path)?);
    let strict = strict.filter(|strict| *strict);
    definition.extend(strict.map(|strict| ("strict".to_owned(), strict.into())));
    definition.extend(cache_control.map(|mark| (CACHE_CONTROL.to_owned(), mark)));
    for (name, value) in extra {
        definition.entry(name).or_insert(value);
    }
    Ok(definition)
}

/// Returns the schema of a tool's input. OpenAI's API lets `parameters` be absent for a tool without
/// any; the Messages API requires a schema of type `object`.
fn schema(parameters: Option<Value>, path: &Path<'_>) -> Result<Value> {
    match parameters {
        None => Ok(json!({"type": "object", "properties": {}})),
        Some(Value::Object(mut schema)) => {
            schema.entry("type").or_insert_with(|| "object".into());
            Ok(schema.into())
        }
        Some(other) => {
            let path = path.member("function");
            Err(Untranslatable::invalid_type(&path.member("parameters"), "an object", &other))
        }
    }
}

/// Returns the choice. The Messages API has none among some tools, so the others are not offered.
fn write_choice(choice: ToolChoice, tools: &mut Vec<Value>) -> Result<Object> {
    let kind = match choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
        ToolChoice::Required => "any",
        ToolChoice::Function(name) => {
            return Ok(object_of([("type", "tool".into()), ("name", name.into())]));
        }
        ToolChoice::Allowed { is_required, names } => {
            let names: BTreeSet<_> = names.iter().map(String::as_str).collect();
            tools.retain(|tool| tool["name"].as_str().is_some_and(|name| names.contains(name)));
            if is_required { "any" } else { "auto" }
        }
        // Anthropic's own form.
        ToolChoice::Native(own) if matches!(&*own.kind, "auto" | "any" | "tool" | "none") => {
            return Ok(own.object);
        }
        ToolChoice::Native(other) => return Err(unknown_choice(&other)),
    };
    Ok(of_type(kind))
}

fn unknown_choice(choice: &NativeItem) -> Untranslatable {
    let path = Path::Member(&Path::Root, TOOL_CHOICE);
    let Some(allowed) = choice.object.get(ALLOWED).filter(|_| choice.kind == ALLOWED) else {
        let supported = ["auto", "none", "required", "function", ALLOWED];
        return Untranslatable::invalid_value(&path, &choice.kind, &supported);
    };
    let path = path.member(ALLOWED);
    match allowed.get("mode").and_then(Value::as_str) {
        Some("auto" | "required") => {
            Untranslatable::invalid(&path.member("tools"), "it must be a list of function tools.")
        }
        mode => {
            let mode = mode.unwrap_or_default();
            Untranslatable::not_among(&path.member("mode"), mode, &["auto", "required"])
        }
    }
}

fn of_type(kind: &str) -> Object {
    object_of([("type", kind.into())])
}

fn is(choice: &Object, kind: &str) -> bool {
    choice.get("type").is_some_and(|found| found == kind)
}

#[cfg(test)]
mod tests;
