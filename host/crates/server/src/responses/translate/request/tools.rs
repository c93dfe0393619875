//! `tools` and `tool_choice`.

use serde_json::{Value, json};

use super::super::builtin::{ClientTools, DEFINABLE};
use airlock_conversation::read::{Members, Path, Untranslatable};
use airlock_model::{Object, object};

/// Forms of `tool_choice`.
const CHOICES: &[&str] = &["none", "auto", "required"];
const TYPED_CHOICES: &[&str] = &["function", "custom", "mcp", "allowed_tools"];

/// Translates `tools` and `tool_choice`.
///
/// An empty list and the default choice are left out: OpenAI's chat completions refuse both in a
/// request without tools, and its Responses API does not.
pub(super) fn translate(
    request: &mut Members<'_>,
    client_tools: &mut ClientTools<'_>,
    body: &mut Object,
) -> Result<(), Untranslatable> {
    if let Some(tools) = request.list("tools")? {
        let path = request.path("tools");
        let tools = client_tools.read(tools, &path, definition)?;
        if !tools.is_empty() {
            body.insert("tools".to_owned(), tools.into());
        }
    }
    if let Some(choice) = request.take("tool_choice") {
        let choice = tool_choice(choice, &request.path("tool_choice"))?;
        if choice != "auto" {
            body.insert("tool_choice".to_owned(), choice);
        }
    }
    Ok(())
}

fn translate_all(
    values: Vec<Value>,
    path: &Path<'_>,
    translate: fn(Value, &Path<'_>) -> Result<Value, Untranslatable>,
) -> Result<Vec<Value>, Untranslatable> {
    let values = values.into_iter().enumerate();
    values.map(|(index, value)| translate(value, &path.element(index))).collect()
}

/// Translates the definition of a tool.
///
/// `strict` is not added if it is absent. The Responses API is then strict where the schema permits
/// it, but chat completions with `strict` refuse a schema that does not.
fn definition(tool: Value, path: &Path<'_>) -> Result<Value, Untranslatable> {
    let mut tool = Members::read(path, tool)?;
    let kind = tool.required_text("type")?;
    if !DEFINABLE.contains(&kind.as_str()) {
        return Err(built_in(&tool.path("type"), &kind));
    }
    refuse_orchestration(&mut tool)?;
    let mut inner = object(json!({"name": tool.required_text("name")?}));
    let text = tool.text("description")?;
    inner.extend(text.map(|text| ("description".to_owned(), text.into())));
    if kind == "function" {
        for name in ["parameters", "strict"] {
            inner.extend(tool.take(name).map(|value| (name.to_owned(), value)));
        }
    } else if let Some(format) = tool.take("format") {
        let format = input_format(Members::read(&tool.path("format"), format)?)?;
        inner.insert("format".to_owned(), format);
    }
    let mut out = object(json!({"type": kind}));
    out.insert(kind, inner.into());
    // Members that the API does not define are kept, such as `cache_control`, which stands beside
    // `function` in chat completions.
    out.extend(tool.into_rest());
    Ok(out.into())
}

/// Returns the definition of a tool for a provider that has the Responses API, as it came. Built-in
/// tools run at the provider, where no policy of the gateway applies.
pub(crate) fn checked(tool: Value, path: &Path<'_>) -> Result<Value, Untranslatable> {
    let Value::Object(members) = &tool else {
        return Err(Untranslatable::invalid_type(path, "an object", &tool));
    };
    let path = path.member("type");
    match members.get("type") {
        Some(Value::String(kind)) if DEFINABLE.contains(&kind.as_str()) => Ok(tool),
        Some(Value::String(kind)) => Err(built_in(&path, kind)),
        Some(Value::Null) | None => Err(Untranslatable::missing(&path)),
        Some(other) => Err(Untranslatable::invalid_type(&path, "a string", other)),
    }
}

/// Returns a `tool_choice` as a provider that has the Responses API receives it: a tool of the
/// gateway is a function there.
pub(crate) fn native_choice(choice: Value, path: &Path<'_>) -> Result<Value, Untranslatable> {
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
                let taken = std::mem::take(tools);
                *tools = translate_all(taken, &path, native_choice)?;
            }
        }
        other => {
            return Err(Untranslatable::invalid_value(&path.member("type"), other, TYPED_CHOICES));
        }
    }
    Ok(members.into())
}

fn built_in(path: &Path<'_>, kind: &str) -> Untranslatable {
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
fn refuse_orchestration(tool: &mut Members<'_>) -> Result<(), Untranslatable> {
    let advice = "It has no counterpart in chat completions. Only the default is supported.";
    tool.refuse_unless("allowed_callers", &json!(["direct"]), advice)?;
    tool.refuse_unless("async", &false.into(), advice)?;
    tool.refuse("output_schema", "It has no counterpart in chat completions.")
}

/// Translates the input format of a custom tool.
fn input_format(mut format: Members<'_>) -> Result<Value, Untranslatable> {
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

fn tool_choice(choice: Value, path: &Path<'_>) -> Result<Value, Untranslatable> {
    let choice = match choice {
        Value::String(choice) if CHOICES.contains(&choice.as_str()) => return Ok(choice.into()),
        Value::String(other) => return Err(Untranslatable::invalid_value(path, &other, CHOICES)),
        Value::Object(_) => choice,
        other => return Err(Untranslatable::invalid_type(path, "a string or an object", &other)),
    };
    let mut choice = Members::read(path, choice)?;
    if choice.get("type").and_then(Value::as_str) != Some("allowed_tools") {
        return named(choice);
    }
    let mode = choice.required_text("mode")?;
    let tools = choice.list("tools")?.unwrap_or_default();
    let tools = translate_all(tools, &choice.path("tools"), |tool, path| {
        named(Members::read(path, tool)?)
    })?;
    Ok(json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}))
}

/// Translates the choice of one tool. A tool of the gateway, which Responses show as `mcp`, is a
/// function in chat completions.
fn named(mut choice: Members<'_>) -> Result<Value, Untranslatable> {
    let kind = choice.required_text("type")?;
    let kind = match kind.as_str() {
        "function" | "custom" => kind,
        "mcp" => "function".to_owned(),
        other => {
            return Err(Untranslatable::invalid_value(&choice.path("type"), other, TYPED_CHOICES));
        }
    };
    let mut out = object(json!({"type": kind}));
    out.insert(kind, json!({"name": choice.required_text("name")?}));
    Ok(out.into())
}
