//! Messages and their blocks.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{object_of, seal};
use crate::{
    Content, Conversation, Item, ItemPlace, Media, Message, NativeItem, Object, Part, Reasoning,
    Role, Seal, ToolCall, ToolResult, Wire,
    arguments::INVALID_JSON,
    chat::rest,
    read::{Members, Path, Result, Untranslatable},
};

/// Reads `system` and `messages`.
pub(super) fn read(members: &mut Members<'_>, conversation: &mut Conversation) -> Result<()> {
    if let Some(system) = members.take("system") {
        let parts = parts(system, &members.path("system"))?;
        push_message(Role::System, parts, ItemPlace::Instructions, conversation);
    }
    let messages = members.list("messages")?;
    let path = members.path("messages");
    let messages = messages.ok_or_else(|| Untranslatable::missing(&path))?;
    for (index, message) in messages.into_iter().enumerate() {
        read_message(message, &path.element(index), index, conversation)?;
    }
    Ok(())
}

fn read_message(
    value: Value,
    path: &Path<'_>,
    index: usize,
    conversation: &mut Conversation,
) -> Result<()> {
    let mut members = Members::read(path, value)?;
    let role = members.required_text("role")?;
    let content = members.required("content")?;
    let path = members.path("content");
    match role.as_str() {
        "user" => user(content, &path, index, conversation),
        "assistant" => assistant(content, &path, index, conversation),
        "system" => {
            let parts = parts(content, &path)?;
            push_message(Role::System, parts, ItemPlace::listed(index), conversation);
            Ok(())
        }
        other => {
            let path = members.path("role");
            Err(Untranslatable::invalid_value(&path, other, &["user", "assistant", "system"]))
        }
    }
}

/// Reads a message of the user. Its results come first, as the API requires: other APIs refuse a message
/// between a call and its result.
fn user(
    content: Value,
    path: &Path<'_>,
    message: usize,
    conversation: &mut Conversation,
) -> Result<()> {
    let blocks = blocks(content, path)?;
    if blocks.is_empty() {
        push_empty(Role::User, message, conversation);
        return Ok(());
    }
    let mut parts = Vec::new();
    let mut first = 0;
    for (index, block) in blocks.into_iter().enumerate() {
        let path = path.element(index);
        if kind(&block) == "tool_result" {
            let result = Item::ToolResult(tool_result(block, &path)?);
            conversation.push(result, ItemPlace::within(message, index));
        } else {
            if parts.is_empty() {
                first = index;
            }
            parts.push(part(block, &path)?);
        }
    }
    push_message(Role::User, parts, ItemPlace::within(message, first), conversation);
    Ok(())
}

/// Reads a message of the model. A block of thinking that carries the signature of a call becomes a member
/// of the call.
fn assistant(
    content: Value,
    path: &Path<'_>,
    message: usize,
    conversation: &mut Conversation,
) -> Result<()> {
    let blocks = blocks(content, path)?;
    if blocks.is_empty() {
        push_empty(Role::Assistant, message, conversation);
        return Ok(());
    }
    let mut parts = Vec::new();
    let mut first = 0;
    let mut signatures = BTreeMap::new();
    for (index, block) in blocks.into_iter().enumerate() {
        let path = path.element(index);
        if let Some((id, members)) = call_signature(&block) {
            signatures.insert(id, members);
            continue;
        }
        let item = match kind(&block) {
            "text" | "" => {
                if parts.is_empty() {
                    first = index;
                }
                parts.push(part(block, &path)?);
                continue;
            }
            "thinking" => Item::Reasoning(thinking(block, &path)?),
            "redacted_thinking" => Item::Reasoning(redacted(block, &path)?),
            "tool_use" => {
                let mut call = tool_use(block, &path)?;
                call.extra.extend(signatures.remove(&call.id).unwrap_or_default());
                Item::ToolCall(call)
            }
            _ => Item::Native(native(block, &path)?),
        };
        let place = ItemPlace::within(message, first);
        push_message(Role::Assistant, std::mem::take(&mut parts), place, conversation);
        conversation.push(item, ItemPlace::within(message, index));
    }
    push_message(Role::Assistant, parts, ItemPlace::within(message, first), conversation);
    Ok(())
}

/// Adds a message that the caller sent without blocks.
fn push_empty(role: Role, index: usize, conversation: &mut Conversation) {
    let message = Message::new(role, Vec::new());
    conversation.push(Item::Message(message), ItemPlace::listed(index));
}

/// Adds a message, unless it has no parts.
fn push_message(role: Role, parts: Vec<Part>, place: ItemPlace, conversation: &mut Conversation) {
    if !parts.is_empty() {
        conversation.push(Item::Message(Message::new(role, parts)), place);
    }
}

/// Returns the blocks of content, which is a text or a list.
fn blocks(content: Value, path: &Path<'_>) -> Result<Vec<Value>> {
    match content {
        Value::String(text) => {
            Ok(vec![object_of([("type", "text".into()), ("text", text.into())]).into()])
        }
        Value::Array(blocks) => Ok(blocks),
        other => Err(Untranslatable::invalid_type(path, "a string or an array", &other)),
    }
}

fn parts(content: Value, path: &Path<'_>) -> Result<Vec<Part>> {
    let blocks = blocks(content, path)?.into_iter().enumerate();
    blocks.map(|(index, block)| part(block, &path.element(index))).collect()
}

fn part(block: Value, path: &Path<'_>) -> Result<Part> {
    match kind(&block) {
        "text" | "image" | "" => {}
        "document" if !is_native_document(&block) => {}
        _ => return Ok(Part::new(Content::Native(native(block, path)?))),
    }
    let mut members = Members::read(path, block)?;
    let cache_control = members.take("cache_control");
    let content = match members.required_text("type")?.as_str() {
        "text" => Content::Text(members.required_text("text")?),
        "image" => Content::Image { media: source(&mut members)?, detail: None },
        _ => {
            members.take("citations");
            Content::File { media: source(&mut members)?, name: members.text("title")? }
        }
    };
    let mut extra = members.into_rest();
    extra.retain(|_, value| {
        !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
    });
    Ok(Part { content, cache_control, extra })
}

/// Returns whether a document has a part that only Anthropic's models can use: blocks as its source,
/// citations, or a context.
fn is_native_document(block: &Value) -> bool {
    let has_citations = block["citations"]["enabled"] == true;
    has_citations || !block["context"].is_null() || kind(&block["source"]) == "content"
}

fn source(members: &mut Members<'_>) -> Result<Media> {
    let source = members.required("source")?;
    let path = members.path("source");
    let mut source = Members::read(&path, source)?;
    Ok(match source.required_text("type")?.as_str() {
        "base64" => Media::Base64 {
            media_type: source.required_text("media_type")?,
            data: source.required_text("data")?,
        },
        "url" => Media::Url(source.required_text("url")?),
        "file" => Media::FileId(source.required_text("file_id")?),
        "text" => Media::Text(source.required_text("data")?),
        other => {
            let supported = ["base64", "url", "file", "text", "content"];
            return Err(Untranslatable::invalid_value(&source.path("type"), other, &supported));
        }
    })
}

fn tool_result(block: Value, path: &Path<'_>) -> Result<ToolResult> {
    let mut members = Members::read(path, block)?;
    members.take("type");
    let call_id = members.required_text("tool_use_id")?;
    let content = match members.take("content") {
        None => Vec::new(),
        Some(content) => parts(content, &members.path("content"))?,
    };
    let is_error = match members.get("is_error") {
        None => None,
        Some(_) => Some(members.flag("is_error", false)?),
    };
    let cache_control = members.take("cache_control");
    Ok(ToolResult { call_id, parts: content, is_error, cache_control, extra: rest(members) })
}

/// Reads an empty block of thinking that carries the signature of a call: the identifier of the call, and
/// its members in chat.
fn call_signature(block: &Value) -> Option<(String, Object)> {
    let is_empty = kind(block) == "thinking" && block["thinking"] == "";
    seal::read_call(block.get("signature").filter(|_| is_empty)?.as_str()?)
}

fn thinking(block: Value, path: &Path<'_>) -> Result<Reasoning> {
    let mut members = Members::read(path, block)?;
    members.take("type");
    let text = members.required_text("thinking")?;
    let signature = members.text("signature")?.unwrap_or_default();
    Ok(Reasoning { extra: rest(members), ..seal::reasoning(text, signature) })
}

fn redacted(block: Value, path: &Path<'_>) -> Result<Reasoning> {
    let mut members = Members::read(path, block)?;
    members.take("type");
    let data = members.required_text("data")?;
    Ok(Reasoning { seal: Some(Seal::Redacted(data)), extra: rest(members), ..Reasoning::default() })
}

fn tool_use(block: Value, path: &Path<'_>) -> Result<ToolCall> {
    let mut members = Members::read(path, block)?;
    members.take("type");
    let id = members.required_text("id")?;
    let name = members.required_text("name")?;
    let arguments = arguments(&members.required("input")?);
    let cache_control = members.take("cache_control");
    if members.get("caller").is_some_and(|caller| kind(caller) == "direct") {
        members.take("caller");
    }
    Ok(ToolCall { cache_control, extra: rest(members), ..ToolCall::function(id, name, arguments) })
}

/// Returns the input of a call as the text that the model wrote.
fn arguments(input: &Value) -> String {
    if let Value::Object(members) = input
        && let (1, Some(Value::String(text))) = (members.len(), members.get(INVALID_JSON))
    {
        return text.clone();
    }
    input.to_string()
}

fn native(block: Value, path: &Path<'_>) -> Result<NativeItem> {
    match block {
        Value::Object(block) => Ok(NativeItem::new(Wire::Messages, block)),
        other => Err(Untranslatable::invalid_type(path, "an object", &other)),
    }
}

/// Returns the `type` of a block, a tool or a choice; empty if it has none.
pub(super) fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}
