//! A whole reply → a chat completion.

use std::mem;

use serde_json::Value;

use super::{
    super::{
        members::{LOGPROBS, TOOL_CALLS, take_list},
        reasoning, usage,
    },
    add_finish, annotation, body_of,
};
use crate::{
    Begin, CallInput, Choice, Content, Item, Object, Part, Reasoning, Reply, Seal, ToolCall, Wire,
    object_of,
};

/// Writes a whole reply as a chat completion. `created` is used unless the reply itself says when. Members of
/// other APIs are left out.
pub fn write_reply(reply: Reply, created: u64) -> Object {
    let Reply { begin: Begin { id, model, created: begun, extra }, choices, usage } = reply;
    let created = if begun == 0 { created } else { begun };
    let choices: Vec<Value> =
        choices.into_iter().map(|(number, choice)| write_choice(number, choice).into()).collect();
    let mut out = object_of([
        ("id", id.into()),
        ("object", "chat.completion".into()),
        ("created", created.into()),
        ("model", model.into()),
    ]);
    out.extend(extra);
    out.insert("choices".to_owned(), choices.into());
    out.extend(usage.map(|usage| ("usage".to_owned(), usage::write(usage).into())));
    out
}

/// The message of a choice, as it grows.
#[derive(Debug, Default)]
struct WholeMessage {
    content: Option<String>,
    refusal: Option<String>,
    reasoning: String,
    blocks: Vec<Value>,
    details: Vec<Value>,
    calls: Vec<Value>,
}

/// Writes a choice as a message for its own provider, without its end and its log probabilities. Reasoning
/// that came in content parts is one again.
pub fn write_message(choice: Choice) -> Object {
    let has_thinking = choice.members.iter().any(|(wire, name, value)| {
        *wire == Wire::Chat && name == reasoning::CONTENT && value == reasoning::THINKING
    });
    let mut message = write_content(choice).0;
    if has_thinking {
        reasoning::move_to_content(&mut message);
    }
    message
}

fn write_choice(number: u64, mut choice: Choice) -> Object {
    let finish = choice.finish.take();
    let extra = mem::take(&mut choice.extra);
    let (message, logprobs) = write_content(choice);
    let mut out = object_of([("index", number.into()), ("message", message.into())]);
    out.extend(logprobs);
    add_finish(&mut out, finish);
    out.extend(extra);
    out
}

/// Writes the message of a choice, and the log probabilities beside it.
fn write_content(choice: Choice) -> (Object, Object) {
    let Choice { items, citations, members, .. } = choice;
    let mut message = WholeMessage::default();
    for item in items {
        match item {
            Item::Message(written) => written.parts.into_iter().for_each(|part| message.text(part)),
            Item::Reasoning(block) => message.reasoning(block),
            Item::ToolCall(call) => message.calls.push(write_call(call).into()),
            // No reader has them in a reply.
            Item::ToolResult(_) | Item::Native(_) => {}
        }
    }
    let mut message = message.into_object();
    for (wire, source) in citations {
        let (name, source) = match wire {
            Wire::Messages => ("citations", source.into()),
            _ => ("annotations", annotation(wire, source)),
        };
        merge(&mut message, name.to_owned(), vec![source].into());
    }
    let mut logprobs = object_of([(LOGPROBS, Value::Null)]);
    for (wire, name, value) in members {
        match name.as_str() {
            _ if wire != Wire::Chat => {}
            LOGPROBS => merge(&mut logprobs, name, value),
            name if reasoning::is_mark(name, &value) => {
                reasoning::apply_mark(&mut message, name, &value);
            }
            TOOL_CALLS => merge_calls(&mut message, value),
            reasoning::CONTENT => merge_parts(&mut message, value),
            _ => merge(&mut message, name, value),
        }
    }
    (message, logprobs)
}

impl WholeMessage {
    fn text(&mut self, part: Part) {
        match part.content {
            Content::Text(text) => self.content.get_or_insert_default().push_str(&text),
            Content::Refusal(text) => self.refusal.get_or_insert_default().push_str(&text),
            // No reader has other parts in a reply.
            _ => {}
        }
    }

    fn reasoning(&mut self, mut block: Reasoning) {
        if block.seal.is_none() {
            let details = take_list(&mut block.extra, reasoning::DETAILS);
            reasoning::join_details(&mut self.details, details);
        }
        match &block.id {
            Some(_) => reasoning::join(&mut self.reasoning, &block.text),
            None => self.reasoning.push_str(&block.text),
        }
        if matches!(block.seal, Some(Seal::Encrypted(_))) {
            reasoning::write_details(block, &mut self.details, 0);
        } else {
            self.blocks.extend(reasoning::write_block(block).map(Value::from));
        }
    }

    fn into_object(self) -> Object {
        let mut message = object_of([
            ("role", "assistant".into()),
            ("content", self.content.into()),
            ("refusal", self.refusal.into()),
        ]);
        reasoning::add_text(&mut message, self.reasoning);
        for (name, list) in [
            (reasoning::BLOCKS, self.blocks),
            (reasoning::DETAILS, self.details),
            (TOOL_CALLS, self.calls),
        ] {
            if !list.is_empty() {
                message.insert(name.to_owned(), list.into());
            }
        }
        message
    }
}

fn write_call(call: ToolCall) -> Object {
    let ToolCall { id, name, input, extra, .. } = call;
    let (is_custom, text) = match input {
        CallInput::Arguments(text) => (false, text),
        CallInput::Text(text) => (true, text),
    };
    let (kind, input) = body_of(is_custom);
    let body = object_of([("name", name.into()), (input, text.into())]);
    let mut call = object_of([("id", id.into()), ("type", kind.into()), (kind, body.into())]);
    call.extend(extra);
    call
}

/// Texts that are not joined, because servers repeat them.
const SENT_ONCE: [&str; 2] = ["id", "type"];

/// Adds a piece of a member: texts and lists are appended, objects are merged, and other values replace the
/// earlier one. Null changes nothing.
fn merge(target: &mut Object, name: String, value: Value) {
    match (target.get_mut(&name), value) {
        (Some(_), Value::Null) => {}
        (Some(Value::String(_)), Value::String(_)) if SENT_ONCE.contains(&name.as_str()) => {}
        (Some(Value::String(sum)), Value::String(more)) => sum.push_str(&more),
        (Some(Value::Array(sum)), Value::Array(more)) => sum.extend(more),
        (Some(Value::Object(sum)), Value::Object(more)) => {
            more.into_iter().for_each(|(name, value)| merge(sum, name, value));
        }
        (_, value) => drop(target.insert(name, value)),
    }
}

/// Appends a piece of a member of a message to the pieces before it. Returns the piece if they do not become one.
pub fn join_member(name: &str, sum: &mut Value, piece: Value) -> Option<Value> {
    match (sum, piece) {
        // The pieces of calls belong to different ones, and a mark is no text.
        (_, piece) if matches!(name, LOGPROBS | TOOL_CALLS) || reasoning::is_mark(name, &piece) => {
            return Some(piece);
        }
        (Value::String(sum), Value::String(more)) => sum.push_str(&more),
        (Value::Array(sum), Value::Array(more)) if name == reasoning::DETAILS => {
            reasoning::join_details(sum, more);
        }
        (Value::Array(sum), Value::Array(more)) => sum.extend(more),
        (Value::Object(sum), Value::Object(more)) => {
            more.into_iter().for_each(|(name, value)| merge(sum, name, value));
        }
        (_, piece) => return Some(piece),
    }
    None
}

/// Adds members of calls that came after their beginning.
fn merge_calls(message: &mut Object, pieces: Value) {
    let Some(Value::Array(calls)) = message.get_mut(TOOL_CALLS) else { return };
    let Value::Array(pieces) = pieces else { return };
    for piece in pieces {
        let Value::Object(mut piece) = piece else { continue };
        let index = piece.shift_remove("index").and_then(|index| index.as_u64());
        let call = index.and_then(|index| calls.get_mut(usize::try_from(index).ok()?));
        if let Some(Value::Object(call)) = call {
            piece.into_iter().for_each(|(name, value)| merge(call, name, value));
        }
    }
}

/// Adds parts to the content, of which the text so far becomes the first.
fn merge_parts(message: &mut Object, parts: Value) {
    if let Some(content) = message.get_mut(reasoning::CONTENT)
        && let Value::String(text) = content
    {
        let text = mem::take(text);
        let text = (!text.is_empty()).then(|| reasoning::text_part(text));
        *content = text.into_iter().collect();
    }
    merge(message, reasoning::CONTENT.to_owned(), parts);
}
