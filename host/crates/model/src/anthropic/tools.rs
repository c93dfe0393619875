//! Tools of a chat request → tools of the Messages API.

use serde_json::{Value, json};

use super::content::CACHE_CONTROL;
use crate::{
    Object,
    translation::{Unsupported, object_of, take, take_text},
};

/// The members of a request that concern tools.
#[derive(Debug)]
pub(super) struct Tools {
    /// Definitions of the tools.
    pub(super) tools: Vec<Value>,
    /// `tool_choice`; `None` if the default is meant.
    pub(super) choice: Option<Object>,
}

/// A translated `tool_choice`.
struct ToolChoice {
    choice: Object,
    /// Names of the tools to which the model is limited.
    allowed: Option<Vec<String>>,
}

impl Tools {
    /// Translates the members of a chat request.
    pub(super) fn new(
        tools: Option<Value>,
        choice: Option<&Value>,
        parallel: Option<&Value>,
    ) -> Result<Self, Unsupported> {
        let mut tools = definitions(tools)?;
        let mut choice = choice.map(ToolChoice::new).transpose()?;
        if let Some(allowed) = choice.as_mut().and_then(|choice| choice.allowed.take()) {
            tools.retain(|tool| allowed.iter().any(|name| tool["name"] == name.as_str()));
        }
        let mut choice = choice.map(|choice| choice.choice);
        match parallel {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => {
                let choice = choice.get_or_insert_with(|| of_type("auto"));
                if !is(choice, "none") {
                    choice.insert("disable_parallel_tool_use".to_owned(), true.into());
                }
            }
            Some(_) => {
                return Err(Unsupported::new("parallel_tool_calls", "must be true or false"));
            }
        }
        // The API refuses a choice without tools, even one that asks for no call.
        if tools.is_empty() {
            choice = choice.filter(|choice| !is(choice, "auto") && !is(choice, "none"));
        }
        Ok(Self { tools, choice })
    }
}

impl ToolChoice {
    fn new(choice: &Value) -> Result<Self, Unsupported> {
        let kind = choice.get("type").or(Some(choice)).and_then(Value::as_str);
        let choice = match (kind.unwrap_or_default(), choice) {
            ("required", Value::String(_)) => of_type("any"),
            (kind @ ("auto" | "none"), Value::String(_)) => of_type(kind),
            ("function", choice) => {
                let name = choice.get("function").and_then(|function| function.get("name"));
                let Some(name @ Value::String(_)) = name else {
                    return Err(Unsupported::new("tool_choice.function.name", "must be a string"));
                };
                object_of([("type", "tool".into()), ("name", name.clone())])
            }
            ("allowed_tools", choice) => return Self::allowed(choice),
            // Anthropic's own form.
            ("auto" | "any" | "tool" | "none", Value::Object(choice)) => choice.clone(),
            _ => {
                let problem = "must be \"auto\", \"none\", \"required\", or an object of type \"function\" or \"allowed_tools\"";
                return Err(Unsupported::new("tool_choice", problem));
            }
        };
        Ok(Self { choice, allowed: None })
    }

    /// Translates a choice of type `allowed_tools`. The Messages API has none, so the other tools
    /// are not offered.
    fn allowed(choice: &Value) -> Result<Self, Unsupported> {
        let allowed = &choice["allowed_tools"];
        let kind = match allowed["mode"].as_str() {
            Some("auto") => "auto",
            Some("required") => "any",
            _ => {
                let param = "tool_choice.allowed_tools.mode";
                return Err(Unsupported::new(param, "must be \"auto\" or \"required\""));
            }
        };
        let names = allowed["tools"].as_array().and_then(|tools| {
            tools.iter().map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect()
        });
        let names: Vec<_> = names.ok_or_else(|| {
            Unsupported::new("tool_choice.allowed_tools.tools", "must be a list of function tools")
        })?;
        Ok(Self { choice: of_type(kind), allowed: Some(names) })
    }
}

fn definitions(tools: Option<Value>) -> Result<Vec<Value>, Unsupported> {
    let tools = match tools {
        None => return Ok(Vec::new()),
        Some(Value::Array(tools)) => tools,
        Some(_) => return Err(Unsupported::new("tools", "must be a list")),
    };
    let translated = tools.into_iter().enumerate().map(|(index, tool)| {
        definition(tool).map_err(|error| error.within(format_args!("tools[{index}]")))
    });
    translated.collect()
}

/// Translates a definition. Members beside `function`, such as `cache_control`, are Anthropic's own
/// and stay. Tools of other types are refused: chat's custom tools have no counterpart, and
/// Anthropic's server tools would run without a policy decision of the gateway.
fn definition(tool: Value) -> Result<Value, Unsupported> {
    let Value::Object(mut tool) = tool else {
        return Err(Unsupported::new("", "must be an object"));
    };
    if tool.shift_remove("type").is_none_or(|kind| kind != "function") {
        return Err(Unsupported::new("type", "must be \"function\" for Anthropic's models"));
    }
    let Some(Value::Object(mut function)) = tool.shift_remove("function") else {
        return Err(Unsupported::new("function", "must be an object"));
    };
    let name = take_text(&mut function, "name").map_err(|error| error.within("function"))?;
    let mut definition = object_of([("name", name.into())]);
    if let Some(description) = take(&mut function, "description") {
        definition.insert("description".to_owned(), description);
    }
    let schema = schema(take(&mut function, "parameters"));
    let schema = schema.map_err(|error| error.within("function"))?;
    definition.insert("input_schema".to_owned(), schema);
    if let Some(strict @ Value::Bool(true)) = take(&mut function, "strict") {
        definition.insert("strict".to_owned(), strict);
    }
    if let Some(cache_control) = take(&mut function, CACHE_CONTROL) {
        definition.insert(CACHE_CONTROL.to_owned(), cache_control);
    }
    for (name, value) in tool {
        definition.entry(name).or_insert(value);
    }
    Ok(Value::Object(definition))
}

/// Returns the schema of a tool's input. OpenAI's API lets `parameters` be absent for a tool
/// without any; the Messages API requires a schema of type `object`.
fn schema(parameters: Option<Value>) -> Result<Value, Unsupported> {
    match parameters {
        None => Ok(json!({"type": "object", "properties": {}})),
        Some(Value::Object(mut schema)) => {
            schema.entry("type").or_insert_with(|| "object".into());
            Ok(Value::Object(schema))
        }
        Some(_) => Err(Unsupported::new("parameters", "must be a JSON Schema object")),
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
