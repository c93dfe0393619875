//! A whole message.

use serde_json::{Value, json};

use super::{super::object_of, ending, seal, usage};
use crate::{
    CallInput, Choice, Content, FinishReason, Item, Message, Object, Reasoning, Reply, Seal,
    ToolCall, Wire, arguments_object,
};

/// Writes a whole reply as a message. Of several choices it writes the first one.
pub fn write_reply(mut reply: Reply) -> Object {
    let choice = reply.choices.remove(&0).unwrap_or_default();
    let mut blocks = Vec::new();
    let (end, has_calls) = write_choice(choice, &mut blocks);
    let mut message = object_of([
        ("id", reply.begin.id.into()),
        ("type", "message".into()),
        ("role", "assistant".into()),
        ("model", reply.begin.model.into()),
        ("content", blocks.into()),
    ]);
    message.extend(ending(end.reason, has_calls, end.refusal));
    message.insert("usage".to_owned(), usage(&reply.usage.unwrap_or_default()));
    message
}

/// End of a choice.
struct ChoiceEnd {
    reason: Option<FinishReason>,
    /// True if the provider says that it refuses. Text of a refusal is then its explanation, and else
    /// text of the message.
    is_refused: bool,
    refusal: String,
}

fn write_choice(choice: Choice, blocks: &mut Vec<Value>) -> (ChoiceEnd, bool) {
    let is_refused = choice.finish == Some(FinishReason::ContentFilter);
    let mut end = ChoiceEnd { reason: choice.finish, is_refused, refusal: String::new() };
    let mut has_calls = false;
    let mut items = choice.items.into_iter().peekable();
    while let Some(item) = items.next() {
        match item {
            Item::Message(message) => write_message(message, &mut end, blocks),
            Item::Reasoning(reasoning) => {
                if !is_repeated(&reasoning, items.peek()) {
                    blocks.extend(thinking(&reasoning));
                }
            }
            Item::ToolCall(call) => {
                has_calls = true;
                let signature = seal::of_call(&call.id, &call.extra);
                blocks.extend(signature.map(|signature| thinking_block(String::new(), signature)));
                blocks.push(tool_use(call));
            }
            Item::Native(native) if native.wire == Wire::Messages => {
                blocks.push(native.object.into());
            }
            Item::Native(_) | Item::ToolResult(_) => {}
        }
    }
    cite(choice.citations, blocks);
    (end, has_calls)
}

fn write_message(message: Message, end: &mut ChoiceEnd, blocks: &mut Vec<Value>) {
    for part in message.parts {
        match part.content {
            Content::Text(text) => blocks.extend(text_block(text)),
            Content::Refusal(text) if end.is_refused => end.refusal.push_str(&text),
            Content::Refusal(text) if !text.is_empty() => {
                blocks.extend(text_block(text));
                end.reason = Some(FinishReason::ContentFilter);
            }
            Content::Native(native) if native.wire == Wire::Messages => {
                blocks.push(native.object.into());
            }
            _ => {}
        }
    }
}

/// Returns a block of text; `None` if it is empty, which the API refuses in the next request.
fn text_block(text: String) -> Option<Value> {
    (!text.is_empty()).then(|| object_of([("type", "text".into()), ("text", text.into())]).into())
}

/// Returns whether reasoning without a proof is repeated, with its proof, by the item after it. Chat
/// completions have the text of all blocks beside the blocks.
fn is_repeated(reasoning: &Reasoning, next: Option<&Item>) -> bool {
    let Some(Item::Reasoning(next)) = next else { return false };
    let text = seal::readable(next);
    reasoning.seal.is_none()
        && next.seal.is_some()
        && !text.is_empty()
        && reasoning.text.starts_with(&text)
}

fn thinking(reasoning: &Reasoning) -> Option<Value> {
    if let Some(Seal::Redacted(data)) = &reasoning.seal {
        return Some(json!({"type": "redacted_thinking", "data": data}));
    }
    let text = seal::readable(reasoning);
    let signature = seal::signature(reasoning);
    let is_empty = text.is_empty() && signature.is_empty();
    (!is_empty).then(|| thinking_block(text, signature))
}

fn thinking_block(text: String, signature: String) -> Value {
    let kind = "thinking".into();
    object_of([("type", kind), ("thinking", text.into()), ("signature", signature.into())]).into()
}

fn tool_use(call: ToolCall) -> Value {
    let input = match call.input {
        // Clients expect an object.
        CallInput::Arguments(arguments) if arguments.trim() == "null" => Object::new().into(),
        CallInput::Arguments(arguments) => arguments_object(arguments).into(),
        CallInput::Text(text) => object_of([("input", text.into())]).into(),
    };
    let kind = "tool_use".into();
    let id = call.id.into();
    object_of([("type", kind), ("id", id), ("name", call.name.into()), ("input", input)]).into()
}

/// Adds the sources to the last text.
fn cite(citations: Vec<(Wire, Object)>, blocks: &mut [Value]) {
    let sources = citations.into_iter().filter(|(wire, _)| *wire == Wire::Messages);
    let sources: Vec<Value> = sources.map(|(_, citation)| citation.into()).collect();
    let text = blocks.iter_mut().rev().find(|block| block["type"] == "text");
    if let (Some(text), false) = (text, sources.is_empty()) {
        text["citations"] = sources.into();
    }
}
