//! The output items that are open.

use serde_json::{Value, json};

use super::{MAX_NAME_BYTES, invalid, take_text, text};
use crate::{Delta, Object, Reasoning, ReplyError, Seal, Wire, delta::MAX_ANNOTATIONS, object_of};

/// Events with pieces of items. Each type of item has its own.
pub(super) const DELTAS: [&str; 7] = [
    "response.output_text.delta",
    "response.refusal.delta",
    "response.output_text.annotation.added",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
];
/// Types of items that only the gateway writes: its own tool calls. From a provider they would be
/// taken for these.
const OWN_TYPES: [&str; 3] = ["mcp_call", "mcp_list_tools", "mcp_approval_request"];
/// Types of items that have no form in chat, and that the next request must contain. Items of any
/// other type are left out: the next request could make another provider act on them.
/// The last four are records of built-in tools, without which a provider refuses the reasoning before
/// them.
const KEPT_TYPES: [&str; 5] = [
    "compaction",
    "code_interpreter_call",
    "file_search_call",
    "image_generation_call",
    "web_search_call",
];

/// State of an item.
#[derive(Debug)]
pub(super) enum OpenItem {
    Message {
        /// True if text or a refusal was streamed.
        has_text: bool,
        /// Annotations that were streamed.
        annotations: usize,
    },
    Reasoning {
        id: String,
        has_text: bool,
    },
    Call {
        index: u64,
        is_custom: bool,
        name: String,
        has_input: bool,
    },
    /// An item that has no form in chat.
    Other {
        /// True if the next request must contain it.
        is_kept: bool,
    },
}

impl OpenItem {
    /// Returns whether events of this type are read.
    pub(super) fn knows(kind: &str) -> bool {
        DELTAS.contains(&kind)
    }

    /// Returns the state of an item that is added, and the beginning of its call if it is one. `calls`
    /// is the number of calls before it.
    pub(super) fn open(item: &Object, calls: u64) -> Result<(Self, Option<Delta>), ReplyError> {
        let kind = item.get("type").and_then(Value::as_str);
        let is_custom = match kind.ok_or_else(|| invalid("an output item without a type"))? {
            "message" => return Ok((Self::Message { has_text: false, annotations: 0 }, None)),
            "reasoning" => {
                let id = short(item, "id")?;
                return Ok((Self::Reasoning { id, has_text: false }, None));
            }
            "function_call" => false,
            "custom_tool_call" => true,
            own if OWN_TYPES.contains(&own) => {
                return Err(invalid("an output item of a type that only the gateway writes"));
            }
            other => return Ok((Self::Other { is_kept: KEPT_TYPES.contains(&other) }, None)),
        };
        let name = short(item, "name")?;
        let call = Delta::Call {
            choice: 0,
            index: calls,
            id: text(item, "call_id"),
            name: name.clone(),
            is_custom,
            extra: Object::new(),
        };
        Ok((Self::Call { index: calls, is_custom, name, has_input: false }, Some(call)))
    }

    /// Returns whether the next request must contain the item.
    pub(super) fn is_kept(&self) -> bool {
        !matches!(self, Self::Other { is_kept: false })
    }

    /// Reads an event with a piece of the item. Each piece of reasoning has the beginning of its part
    /// before it.
    pub(super) fn delta(&mut self, kind: &str, mut data: Object) -> Result<Vec<Delta>, ReplyError> {
        let piece = take_text(&mut data, "delta");
        let deltas = match (kind, self) {
            ("response.output_text.annotation.added", Self::Message { annotations, .. }) => {
                *annotations += 1;
                match data.shift_remove("annotation") {
                    Some(Value::Object(source)) => vec![citation(source)],
                    _ => Vec::new(),
                }
            }
            ("response.output_text.delta", Self::Message { has_text, .. }) => {
                *has_text = true;
                written(piece, logprobs(&data))
            }
            ("response.refusal.delta", Self::Message { has_text, .. }) => {
                *has_text = true;
                refusal(piece)
            }
            (
                "response.reasoning_text.delta" | "response.reasoning_summary_text.delta",
                Self::Reasoning { id, has_text },
            ) => {
                *has_text = true;
                let is_summary = kind == "response.reasoning_summary_text.delta";
                let index = if is_summary { "summary_index" } else { "content_index" };
                let index = data.get(index).and_then(Value::as_u64).unwrap_or_default();
                thought(id, is_summary, index, piece)
            }
            (
                "response.function_call_arguments.delta",
                Self::Call { index, is_custom: false, has_input, .. },
            )
            | (
                "response.custom_tool_call_input.delta",
                Self::Call { index, is_custom: true, has_input, .. },
            ) => {
                *has_input |= !piece.is_empty();
                input(*index, piece)
            }
            _ => return Err(invalid("a delta that does not fit the type of its output item")),
        };
        Ok(deltas)
    }

    /// Returns the deltas of a complete item that were not streamed. Fails if the item is another one
    /// than was added.
    pub(super) fn close(self, item: &Object) -> Result<Vec<Delta>, ReplyError> {
        let (now, _) = Self::open(item, 0)?;
        match (self, now) {
            (Self::Message { has_text, annotations }, Self::Message { .. }) => {
                message(item, has_text, annotations)
            }
            (Self::Reasoning { id, has_text }, Self::Reasoning { id: now, .. }) => {
                if id != now {
                    return Err(invalid("an output item whose id changes"));
                }
                reasoning(item, &id, has_text)
            }
            (
                Self::Call { index, is_custom, name, has_input },
                Self::Call { is_custom: now, name: other, .. },
            ) => {
                if is_custom != now || name != other {
                    return Err(invalid("a call whose name or type changes"));
                }
                let member = if is_custom { "input" } else { "arguments" };
                Ok(if has_input { Vec::new() } else { input(index, text(item, member)) })
            }
            (Self::Other { .. }, Self::Other { .. }) => Ok(Vec::new()),
            _ => Err(invalid("an output item whose type changes")),
        }
    }
}

/// Returns a piece of text, after its log probabilities; nothing if both are empty.
fn written(text: String, logprobs: Vec<Value>) -> Vec<Delta> {
    let mut deltas = Vec::new();
    if !logprobs.is_empty() {
        let value = object_of([("content", logprobs.into())]).into();
        let name = "logprobs".to_owned();
        deltas.push(Delta::Member { choice: 0, wire: Wire::Chat, name, value });
    }
    if !text.is_empty() || !deltas.is_empty() {
        deltas.push(Delta::Text { choice: 0, text });
    }
    deltas
}

fn refusal(text: String) -> Vec<Delta> {
    if text.is_empty() { Vec::new() } else { vec![Delta::Refusal { choice: 0, text }] }
}

fn input(index: u64, text: String) -> Vec<Delta> {
    if text.is_empty() { Vec::new() } else { vec![Delta::Arguments { choice: 0, index, text }] }
}

fn citation(source: Object) -> Delta {
    Delta::Citation { choice: 0, wire: Wire::Responses, citation: source }
}

/// Returns a piece of reasoning, after the beginning of its part.
fn thought(id: &str, is_summary: bool, index: u64, text: String) -> Vec<Delta> {
    if text.is_empty() {
        return Vec::new();
    }
    let part = Delta::ReasoningPart { choice: 0, item_id: id.to_owned(), is_summary, index };
    vec![part, Delta::Reasoning { choice: 0, text }]
}

/// Returns the deltas of a message: its text, unless it was streamed, and the annotations that were
/// not.
fn message(item: &Object, has_text: bool, annotations: usize) -> Result<Vec<Delta>, ReplyError> {
    let parts = list(item, "content")?.iter();
    let mut deltas = Vec::new();
    let mut sources = Vec::new();
    for part in parts.filter_map(Value::as_object) {
        match part.get("type").and_then(Value::as_str) {
            Some("output_text") if !has_text => {
                deltas.append(&mut written(text(part, "text"), logprobs(part)));
            }
            Some("refusal") if !has_text => deltas.append(&mut refusal(text(part, "refusal"))),
            _ => {}
        }
        sources.extend(list(part, "annotations")?.iter().filter_map(Value::as_object));
        if sources.len() > MAX_ANNOTATIONS {
            return Err(invalid("a message with more annotations than the gateway accepts"));
        }
    }
    deltas.extend(sources.into_iter().skip(annotations).cloned().map(citation));
    Ok(deltas)
}

/// Returns the text of reasoning, unless it was streamed, and the end of the reasoning if it can be sent
/// back.
fn reasoning(item: &Object, id: &str, has_text: bool) -> Result<Vec<Delta>, ReplyError> {
    let summary = texts(item, "summary")?;
    let content = texts(item, "content")?;
    let mut deltas = Vec::new();
    for (is_summary, texts) in [(true, &summary), (false, &content)] {
        for (index, text) in texts.iter().filter(|_| !has_text) {
            deltas.append(&mut thought(id, is_summary, *index, (*text).to_owned()));
        }
    }
    if let Some(data) = item.get("encrypted_content").and_then(Value::as_str) {
        let all = summary.iter().chain(&content).map(|(_, text)| *text);
        let all: Vec<_> = all.filter(|text| !text.is_empty()).collect();
        let reasoning = Reasoning {
            id: item.get("id").and_then(Value::as_str).map(str::to_owned),
            text: all.join("\n\n"),
            summary: summary.into_iter().map(|(_, text)| text.to_owned()).collect(),
            seal: Some(Seal::Encrypted(data.to_owned())),
            extra: Object::new(),
        };
        deltas.push(Delta::ReasoningEnd { choice: 0, reasoning });
    }
    Ok(deltas)
}

/// Returns the texts of a list of parts, with their places.
fn texts<'a>(item: &'a Object, parts: &str) -> Result<Vec<(u64, &'a str)>, ReplyError> {
    let parts = (0..).zip(list(item, parts)?);
    Ok(parts.filter_map(|(index, part)| Some((index, part.get("text")?.as_str()?))).collect())
}

/// Returns a list of parts; an empty one if it is absent. Fails if there are too many.
fn list<'a>(object: &'a Object, name: &str) -> Result<&'a [Value], ReplyError> {
    let list = object.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if list.len() > MAX_ANNOTATIONS {
        return Err(invalid("an output item with more parts than the gateway accepts"));
    }
    Ok(list)
}

/// Returns log probabilities in the form of chat completions, where every token has its bytes. An
/// element without a token is left out, because its new members would take many times its memory.
fn logprobs(part: &Object) -> Vec<Value> {
    let tokens = part.get("logprobs").and_then(Value::as_array).into_iter().flatten();
    tokens.filter_map(Value::as_object).filter(|token| is_token(token)).map(with_bytes).collect()
}

fn with_bytes(token: &Object) -> Value {
    let mut token = token.clone();
    token.entry("bytes").or_insert(Value::Null);
    token.entry("top_logprobs").or_insert_with(|| json!([]));
    let top = token.get_mut("top_logprobs").and_then(Value::as_array_mut);
    for top in
        top.into_iter().flatten().filter_map(Value::as_object_mut).filter(|top| is_token(top))
    {
        top.entry("bytes").or_insert(Value::Null);
    }
    Value::Object(token)
}

fn is_token(object: &Object) -> bool {
    object.contains_key("token")
}

/// Returns a text that is kept; it is empty if it is absent.
fn short(item: &Object, name: &str) -> Result<String, ReplyError> {
    let text = text(item, name);
    if text.len() > MAX_NAME_BYTES {
        return Err(invalid("an output item with an id or name of excessive length"));
    }
    Ok(text)
}
