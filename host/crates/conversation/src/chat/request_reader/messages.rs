//! `messages` → items.

use serde_json::Value;

use super::super::{
    members::{CACHE_CONTROL, TOOL_CALLS, keep_inner, read_boolean, rest},
    parts, reasoning,
};
use crate::{
    CallInput, Content, Item, ItemPlace, Message, NativeItem, Object, Part, Reasoning, Role,
    ToolCall, ToolResult, Wire, object_of,
    read::{Members, Path, Result, Untranslatable},
};

/// Reads messages, as items with their places.
pub(super) fn read(messages: Vec<Value>, path: &Path<'_>) -> Result<(Vec<Item>, Vec<ItemPlace>)> {
    let mut items = Vec::with_capacity(messages.len());
    let mut places = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let from = items.len();
        read_message(message, &path.element(index), &mut items)?;
        let mut calls = 0..;
        places.extend(items[from..].iter().map(|item| match item {
            Item::ToolCall(_) => ItemPlace::within(index, calls.next().unwrap_or_default()),
            _ => ItemPlace::listed(index),
        }));
    }
    Ok((items, places))
}

pub(crate) fn read_message(message: Value, path: &Path<'_>, items: &mut Vec<Item>) -> Result<()> {
    let mut message = Members::read(path, message)?;
    let role = message.required_text("role")?;
    let role = match role.as_str() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => return read_assistant(message, items),
        "tool" => {
            items.push(Item::ToolResult(read_result(message)?));
            return Ok(());
        }
        // Such as `function`, which `tool` replaced.
        _ => {
            let mut object = object_of([("role", role.as_str().into())]);
            object.extend(rest(message));
            items.push(Item::Native(NativeItem { wire: Wire::Chat, kind: role, object }));
            return Ok(());
        }
    };
    let cache_control = message.take(CACHE_CONTROL);
    let mut parts = parts::read(message.take("content"), &message.path("content"))?;
    let mut extra = rest(message);
    mark_last(cache_control, &mut [], &mut parts, &mut extra);
    items.push(Item::Message(Message { role, parts, extra }));
    Ok(())
}

/// Reads a message of the model.
fn read_assistant(mut message: Members<'_>, items: &mut Vec<Item>) -> Result<()> {
    let cache_control = message.take(CACHE_CONTROL);
    let mut parts = parts::read(message.take("content"), &message.path("content"))?;
    if let Some(refusal) = message.text("refusal")?.filter(|text| !text.is_empty()) {
        parts.push(Part::new(Content::Refusal(refusal)));
    }
    let mut calls = message.elements(TOOL_CALLS, read_call)?;
    let blocks = read_blocks(&mut message)?;
    let mut extra = rest(message);
    let reasoning = read_reasoning(blocks, &mut extra);
    mark_last(cache_control, &mut calls, &mut parts, &mut extra);
    items.extend(reasoning.into_iter().map(Item::Reasoning));
    // A message with calls need not have content.
    if calls.is_empty() || !parts.is_empty() || !extra.is_empty() {
        items.push(Item::Message(Message { role: Role::Assistant, parts, extra }));
    }
    items.extend(calls.into_iter().map(Item::ToolCall));
    Ok(())
}

fn read_blocks(message: &mut Members<'_>) -> Result<Vec<Reasoning>> {
    message.elements(reasoning::BLOCKS, |block, path| {
        reasoning::read_block(block).map_err(|other| {
            let kind = other.get("type").and_then(Value::as_str).unwrap_or_default();
            let supported = &["thinking", "redacted_thinking"];
            Untranslatable::invalid_value(&path.member("type"), kind, supported)
        })
    })
}

/// Returns the reasoning of a message: its blocks, and what their text is not part of.
fn read_reasoning(mut blocks: Vec<Reasoning>, extra: &mut Object) -> Vec<Reasoning> {
    let text = reasoning::take_text(extra);
    match extra.shift_remove(reasoning::DETAILS) {
        Some(Value::Array(details)) if details.is_empty() => {}
        Some(Value::Array(details)) => match reasoning::read_details(details) {
            Ok(items) => blocks.extend(items),
            Err(details) => {
                let extra = object_of([(reasoning::DETAILS, details.into())]);
                blocks.push(Reasoning { extra, ..Reasoning::default() });
            }
        },
        Some(other) => drop(extra.insert(reasoning::DETAILS.to_owned(), other)),
        None => {}
    }
    // Blocks and summaries repeat the text.
    let text = text.filter(|text| {
        let mut summary = String::new();
        for block in &blocks {
            reasoning::join(&mut summary, &reasoning::summary(block));
        }
        blocks.iter().all(|block| block.text.is_empty()) && *text != summary
    });
    let text = text.map(|text| Reasoning { text, ..Reasoning::default() });
    text.into_iter().chain(blocks).collect()
}

fn read_call(call: Value, path: &Path<'_>) -> Result<ToolCall> {
    let mut call = Members::read(path, call)?;
    let id = call.required_text("id")?;
    // Clients that collect a stream keep the position of each call.
    call.take("index");
    call.take("type");
    let cache_control = call.take(CACHE_CONTROL);
    let mut extra = Object::new();
    let (name, input) = if call.get("custom").is_some() && call.get("function").is_none() {
        let (name, text) = read_body(&mut call, "custom", "input", &mut extra)?;
        (name, CallInput::Text(text))
    } else {
        let (name, text) = read_body(&mut call, "function", "arguments", &mut extra)?;
        (name, CallInput::Arguments(text))
    };
    extra.extend(rest(call));
    Ok(ToolCall { id, name, input, cache_control, extra })
}

/// Reads the name and the input of a call.
fn read_body(
    call: &mut Members<'_>,
    kind: &'static str,
    input: &str,
    extra: &mut Object,
) -> Result<(String, String)> {
    let path = call.path(kind);
    let mut body = Members::read(&path, call.required(kind)?)?;
    let name = body.required_text("name")?;
    let text = body.required_text(input)?;
    keep_inner(extra, kind, body);
    Ok((name, text))
}

fn read_result(mut message: Members<'_>) -> Result<ToolResult> {
    let call_id = message.required_text("tool_call_id")?;
    let parts = parts::read(message.take("content"), &message.path("content"))?;
    let is_error = read_boolean(&mut message, "is_error")?;
    let cache_control = message.take(CACHE_CONTROL);
    Ok(ToolResult { call_id, parts, is_error, cache_control, extra: rest(message) })
}

/// Marks the last call or part, unless it has a mark of its own. The mark stays at a message without any.
fn mark_last(
    cache_control: Option<Value>,
    calls: &mut [ToolCall],
    parts: &mut [Part],
    extra: &mut Object,
) {
    let Some(cache_control) = cache_control else { return };
    let last = match (calls.last_mut(), parts.last_mut()) {
        (Some(call), _) => &mut call.cache_control,
        (None, Some(part)) => &mut part.cache_control,
        (None, None) => {
            extra.insert(CACHE_CONTROL.to_owned(), cache_control);
            return;
        }
    };
    last.get_or_insert(cache_control);
}
