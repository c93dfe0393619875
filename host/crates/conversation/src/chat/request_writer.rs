//! Conversation → chat completion request.

mod messages;

use serde_json::{Value, json};

use super::{
    form::{ChatDialect, ChatForm},
    members::restore_inner,
    parts,
    request_reader::{OUTPUT_TOKENS, USER},
};
use crate::{
    Conversation, FunctionTool, Item, Object, Part, ReplyFormat, Settings, ToolChoice,
    ToolDefinition, Wire, object_of,
    read::{Path, Result, Untranslatable},
};

/// Maximum bytes of the identifier of a user that OpenAI's API accepts.
const MAX_USER: usize = 64;
/// Name of a schema without one. OpenAI's API requires a name.
const UNNAMED: &str = "reply";
/// Budgets of reasoning below which the effort is `low` and `medium`, in tokens.
const LOW_BUDGET: u64 = 4_096;
const MEDIUM_BUDGET: u64 = 16_384;

/// Writes the body of a chat completion request. Fails if an item, a tool or a member of another API
/// has no form in chat.
///
/// `stream_options` is written only if the caller sent it. A limit on the tokens of reasoning becomes
/// `thinking`, or in OpenAI's dialect a `reasoning_effort` that fits it.
pub fn write_request(
    conversation: Conversation,
    dialect: ChatDialect,
) -> Result<Object, Untranslatable> {
    let sites = conversation.sites();
    let Conversation { wire, model, items, tools, tool_choice, settings, extra, mut hints, .. } =
        conversation;
    let form = ChatForm::new(wire, dialect);
    if !form.has_hints() {
        hints.clear();
    }
    let mut body = Object::new();
    if !model.is_empty() {
        body.insert("model".to_owned(), model.into());
    }
    body.insert("messages".to_owned(), messages::write(items, sites, form)?.into());
    if !tools.is_empty() {
        body.insert("tools".to_owned(), write_tools(tools, form)?.into());
    }
    if let Some(choice) = tool_choice {
        let choice = write_choice(choice, form)?;
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    }
    write_settings(settings, form, &mut hints, &mut body);
    form.check_extra(&extra)?;
    body.extend(extra);
    body.extend(hints);
    Ok(body)
}

/// Writes items as messages. Their unknown members are those of `wire`.
pub(super) fn write_messages(
    items: Vec<Item>,
    wire: Wire,
    dialect: ChatDialect,
) -> Result<Vec<Value>> {
    let form = ChatForm::new(wire, dialect);
    let sites = vec![form.site; items.len()];
    messages::write(items, sites, form)
}

/// Writes content of a message. Its unknown members are those of chat completions.
pub(super) fn write_content(parts: Vec<Part>) -> Result<Value> {
    let form = ChatForm::new(Wire::Chat, ChatDialect::OpenAi);
    parts::write(parts::placed(parts, form.site), None, form)
}

fn write_settings(settings: Settings, form: ChatForm, hints: &mut Object, body: &mut Object) {
    let effort = settings.effort.or_else(|| {
        let budget = settings.reasoning_tokens.filter(|_| !form.has_anthropic_blocks())?;
        Some(effort_of(budget).to_owned())
    });
    let thinking = settings.reasoning_tokens.filter(|_| form.has_anthropic_blocks());
    let thinking = thinking.map(|tokens| json!({"type": "enabled", "budget_tokens": tokens}));
    // True is the default. OpenAI's API refuses the member in a request without tools.
    let parallel = settings.parallel_tool_calls.filter(|parallel| form.is_own() || !parallel);
    let max_tokens = match hints.shift_remove(OUTPUT_TOKENS) {
        Some(_) => OUTPUT_TOKENS,
        None => "max_completion_tokens",
    };
    let stop = Some(settings.stop).filter(|stop| !stop.is_empty());
    let members = [
        ("stream", settings.stream.then(|| true.into())),
        (max_tokens, settings.max_output_tokens.map(Value::from)),
        ("temperature", settings.temperature.map(Value::from)),
        ("top_p", settings.top_p.map(Value::from)),
        ("top_k", settings.top_k.map(Value::from)),
        ("stop", stop.map(Value::from)),
        ("parallel_tool_calls", parallel.map(Value::from)),
        ("reasoning_effort", effort.map(Value::from)),
        ("thinking", thinking),
        ("response_format", settings.format.map(write_format)),
        ("service_tier", settings.service_tier.map(Value::from)),
    ];
    for (name, value) in members {
        body.extend(value.map(|value| (name.to_owned(), value)));
    }
    write_user(settings.user, form, hints, body);
}

/// Writes the identifier of the user. OpenAI's API refuses a long one, such as that of Claude Code. It is
/// left out, because a part of it could be that of another user.
fn write_user(user: Option<String>, form: ChatForm, hints: &Object, body: &mut Object) {
    let Some(user) = user else { return };
    if !form.is_openai() {
        if form.has_anthropic_blocks() || user.len() <= MAX_USER {
            body.insert(USER.to_owned(), user.into());
        }
    } else if hints.get(USER).is_none_or(|older| *older != user) {
        body.insert("safety_identifier".to_owned(), user.into());
    }
}

/// Returns the effort that fits a limit on the tokens of reasoning.
pub(crate) fn effort_of(budget_tokens: u64) -> &'static str {
    match budget_tokens {
        ..LOW_BUDGET => "low",
        LOW_BUDGET..MEDIUM_BUDGET => "medium",
        _ => "high",
    }
}

fn write_format(format: ReplyFormat) -> Value {
    let (name, description, schema, strict) = match format {
        ReplyFormat::Text => return json!({"type": "text"}),
        ReplyFormat::Json => return json!({"type": "json_object"}),
        ReplyFormat::Schema { name, description, schema, strict } => {
            (name, description, schema, strict)
        }
    };
    let name = if name.is_empty() { UNNAMED.to_owned() } else { name };
    let mut inner = object_of([("name", name.into())]);
    inner.extend(description.map(|text| ("description".to_owned(), text.into())));
    inner.extend(schema.map(|schema| ("schema".to_owned(), schema)));
    inner.extend(strict.map(|strict| ("strict".to_owned(), strict.into())));
    object_of([("type", "json_schema".into()), ("json_schema", inner.into())]).into()
}

fn write_tools(tools: Vec<ToolDefinition>, form: ChatForm) -> Result<Vec<Value>> {
    let path = Path::Member(&Path::Root, "tools");
    let tools = tools.into_iter().enumerate().map(|(index, tool)| match tool {
        ToolDefinition::Function(tool) => Ok(write_tool(tool, form).into()),
        ToolDefinition::Native(native) if native.wire == Wire::Chat => Ok(native.object.into()),
        ToolDefinition::Native(native) => {
            let path = path.element(index);
            Err(Untranslatable::not_among(&path.member("type"), &native.kind, &["function"]))
        }
    });
    tools.collect()
}

fn write_tool(tool: FunctionTool, form: ChatForm) -> Object {
    let FunctionTool { name, description, parameters, strict, cache_control, extra } = tool;
    let mut extra = form.extra(extra);
    let mut function = object_of([("name", name.into())]);
    function.extend(description.map(|text| ("description".to_owned(), text.into())));
    function.extend(parameters.map(|schema| ("parameters".to_owned(), schema)));
    function.extend(strict.map(|strict| ("strict".to_owned(), strict.into())));
    restore_inner(&mut function, &mut extra, "function");
    let mut out = object_of([("type", "function".into()), ("function", function.into())]);
    out.extend(extra);
    form.mark(&mut out, cache_control);
    out
}

/// Returns the `tool_choice`; `None` if it is the default, which OpenAI's API refuses in a request
/// without tools.
fn write_choice(choice: ToolChoice, form: ChatForm) -> Result<Option<Value>> {
    let choice = match choice {
        ToolChoice::Auto if !form.is_own() => return Ok(None),
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Function(name) => write_named(name),
        ToolChoice::Allowed { is_required, names } => {
            let mode = if is_required { "required" } else { "auto" };
            let tools: Vec<Value> = names.into_iter().map(write_named).collect();
            let allowed = object_of([("mode", mode.into()), ("tools", tools.into())]);
            let kind = "allowed_tools";
            object_of([("type", kind.into()), (kind, allowed.into())]).into()
        }
        ToolChoice::Native(native) if native.wire == Wire::Chat => native.object.into(),
        ToolChoice::Native(native) => {
            let path = Path::Member(&Path::Root, "tool_choice");
            let supported = &["function", "allowed_tools"];
            return Err(Untranslatable::invalid_value(
                &path.member("type"),
                &native.kind,
                supported,
            ));
        }
    };
    Ok(Some(choice))
}

fn write_named(name: String) -> Value {
    let function = object_of([("name", name.into())]);
    object_of([("type", "function".into()), ("function", function.into())]).into()
}

#[cfg(test)]
mod tests;
