//! The output item that is open.

use serde_json::{Value, json};

use super::event::{MAX_NAME_BYTES, ResponseStep, invalid};
use crate::{Object, object, translation::ResponseError};

/// Events with pieces of items. Each type of item has its own.
const DELTAS: [&str; 7] = [
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
/// Maximum number of parts of an item that is not streamed, and of the annotations of a message.
/// Each becomes a chunk. An answer with a hundred sources is rare.
const MAX_PARTS: usize = 1_024;

/// Type of a tool that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    Function,
    Custom,
}

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
        index: usize,
        tool: CallKind,
        name: String,
        has_input: bool,
    },
    /// An item that has no form in chat.
    Other {
        /// True if the next request must contain it.
        is_kept: bool,
    },
}

impl CallKind {
    /// Name of the member of a chat completion's call that has the name and the input.
    pub(super) const fn body(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Custom => "custom",
        }
    }

    /// Name of the member with the input, in both APIs.
    pub(super) const fn input(self) -> &'static str {
        match self {
            Self::Function => "arguments",
            Self::Custom => "input",
        }
    }
}

impl OpenItem {
    /// Returns whether events of this type are read.
    pub(super) fn knows(kind: &str) -> bool {
        DELTAS.contains(&kind)
    }

    /// Returns the state of an item that is added, and the step that it is. `calls` is the number of
    /// calls before it.
    pub(super) fn open(
        item: &Object,
        calls: usize,
    ) -> Result<(Self, Option<ResponseStep>), ResponseError> {
        let kind = item.get("type").and_then(Value::as_str);
        let tool = match kind.ok_or_else(|| invalid("an output item without a type"))? {
            "message" => return Ok((Self::Message { has_text: false, annotations: 0 }, None)),
            "reasoning" => {
                let id = short(item, "id")?;
                return Ok((Self::Reasoning { id, has_text: false }, None));
            }
            "function_call" => CallKind::Function,
            "custom_tool_call" => CallKind::Custom,
            own if OWN_TYPES.contains(&own) => {
                return Err(invalid("an output item of a type that only the gateway writes"));
            }
            other => return Ok((Self::Other { is_kept: KEPT_TYPES.contains(&other) }, None)),
        };
        let name = short(item, "name")?;
        let id = text(item, "call_id");
        let call = ResponseStep::Call { index: calls, tool, id, name: name.clone() };
        Ok((Self::Call { index: calls, tool, name, has_input: false }, Some(call)))
    }

    /// Returns whether the next request must contain the item.
    pub(super) fn is_kept(&self) -> bool {
        !matches!(self, Self::Other { is_kept: false })
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. })
    }

    /// Reads an event with a piece of the item.
    pub(super) fn delta(
        &mut self,
        kind: &str,
        data: &Object,
    ) -> Result<Option<ResponseStep>, ResponseError> {
        let piece = text(data, "delta");
        let step = match (kind, self) {
            ("response.output_text.annotation.added", Self::Message { annotations, .. }) => {
                *annotations += 1;
                let annotation = data.get("annotation").and_then(Value::as_object);
                return Ok(
                    annotation.map(|annotation| ResponseStep::Annotation(nested(annotation)))
                );
            }
            ("response.output_text.delta", Self::Message { has_text, .. }) => {
                *has_text = true;
                ResponseStep::Text { text: piece, logprobs: logprobs(data) }
            }
            ("response.refusal.delta", Self::Message { has_text, .. }) => {
                *has_text = true;
                ResponseStep::Refusal(piece)
            }
            ("response.reasoning_text.delta", Self::Reasoning { id, has_text }) => {
                *has_text = true;
                ResponseStep::Reasoning { item_id: id.clone(), summary: None, text: piece }
            }
            ("response.reasoning_summary_text.delta", Self::Reasoning { id, has_text }) => {
                *has_text = true;
                let index = data.get("summary_index").and_then(Value::as_u64).unwrap_or_default();
                ResponseStep::Reasoning { item_id: id.clone(), summary: Some(index), text: piece }
            }
            (
                "response.function_call_arguments.delta",
                Self::Call { index, tool: tool @ CallKind::Function, has_input, .. },
            )
            | (
                "response.custom_tool_call_input.delta",
                Self::Call { index, tool: tool @ CallKind::Custom, has_input, .. },
            ) => {
                *has_input |= !piece.is_empty();
                ResponseStep::Input { index: *index, tool: *tool, text: piece }
            }
            _ => return Err(invalid("a delta that does not fit the type of its output item")),
        };
        Ok(Some(step).filter(says_something))
    }

    /// Returns the steps of a complete item that were not streamed, each with the number of its
    /// part. Fails if the item is another one than was added.
    pub(super) fn close(self, item: &Object) -> Result<Vec<(u64, ResponseStep)>, ResponseError> {
        let (now, _) = Self::open(item, 0)?;
        let steps = match (self, now) {
            (Self::Message { has_text, annotations }, Self::Message { .. }) => {
                message(item, has_text, annotations)?
            }
            (Self::Reasoning { id, has_text }, Self::Reasoning { id: now, .. }) => {
                if id != now {
                    return Err(invalid("an output item whose id changes"));
                }
                if has_text { Vec::new() } else { reasoning(item, &id)? }
            }
            (
                Self::Call { index, tool, name, has_input },
                Self::Call { tool: now, name: other, .. },
            ) => {
                if tool != now || name != other {
                    return Err(invalid("a call whose name or type changes"));
                }
                let input = text(item, tool.input());
                if has_input {
                    Vec::new()
                } else {
                    vec![(0, ResponseStep::Input { index, tool, text: input })]
                }
            }
            (Self::Other { .. }, Self::Other { .. }) => Vec::new(),
            _ => return Err(invalid("an output item whose type changes")),
        };
        Ok(steps.into_iter().filter(|(_, step)| says_something(step)).collect())
    }
}

/// Returns the steps of a message: its text, unless it was streamed, and the annotations that were
/// not.
fn message(
    item: &Object,
    has_text: bool,
    annotations: usize,
) -> Result<Vec<(u64, ResponseStep)>, ResponseError> {
    let parts = list(item, "content")?.iter();
    let mut steps = Vec::new();
    let mut sources = Vec::new();
    for part in parts.filter_map(Value::as_object) {
        match part.get("type").and_then(Value::as_str) {
            Some("output_text") if !has_text => {
                steps.push((
                    0,
                    ResponseStep::Text { text: text(part, "text"), logprobs: logprobs(part) },
                ));
            }
            Some("refusal") if !has_text => {
                steps.push((0, ResponseStep::Refusal(text(part, "refusal"))));
            }
            _ => {}
        }
        sources.extend(list(part, "annotations")?.iter().filter_map(Value::as_object));
        if sources.len() > MAX_PARTS {
            return Err(invalid("a message with more annotations than the gateway accepts"));
        }
    }
    let left = sources.into_iter().skip(annotations);
    steps.extend(left.map(|source| (0, ResponseStep::Annotation(nested(source)))));
    Ok(steps)
}

fn reasoning(item: &Object, id: &str) -> Result<Vec<(u64, ResponseStep)>, ResponseError> {
    let mut steps = Vec::new();
    for (index, text) in texts(item, "summary")? {
        let summary = Some(index);
        steps.push((index, ResponseStep::Reasoning { item_id: id.to_owned(), summary, text }));
    }
    for (index, text) in texts(item, "content")? {
        steps
            .push((index, ResponseStep::Reasoning { item_id: id.to_owned(), summary: None, text }));
    }
    Ok(steps)
}

/// Iterates over the texts of a list of parts.
fn texts(item: &Object, parts: &str) -> Result<impl Iterator<Item = (u64, String)>, ResponseError> {
    let parts = list(item, parts)?.iter().filter_map(Value::as_object);
    Ok((0_u64..).zip(parts.map(|part| text(part, "text"))))
}

/// Returns a list of parts; an empty one if it is absent. Fails if there are too many.
fn list<'a>(object: &'a Object, name: &str) -> Result<&'a [Value], ResponseError> {
    let list = object.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if list.len() > MAX_PARTS {
        return Err(invalid("an output item with more parts than the gateway accepts"));
    }
    Ok(list)
}

fn says_something(step: &ResponseStep) -> bool {
    match step {
        ResponseStep::Text { text, logprobs } => !text.is_empty() || !logprobs.is_empty(),
        ResponseStep::Refusal(text)
        | ResponseStep::Reasoning { text, .. }
        | ResponseStep::Input { text, .. } => !text.is_empty(),
        _ => true,
    }
}

/// Returns an annotation in the form of chat completions: its members are in an object that is named
/// after its type.
fn nested(annotation: &Object) -> Object {
    let kind = text(annotation, "type");
    let members: Object = annotation
        .iter()
        .filter(|(name, _)| *name != "type")
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    let mut nested = object(json!({"type": kind}));
    nested.insert(kind, members.into());
    nested
}

/// Returns log probabilities in the form of chat completions, where every token has its bytes.
fn logprobs(part: &Object) -> Vec<Value> {
    let tokens = part.get("logprobs").and_then(Value::as_array).into_iter().flatten();
    tokens.filter_map(Value::as_object).map(with_bytes).collect()
}

fn with_bytes(token: &Object) -> Value {
    let mut token = token.clone();
    token.entry("bytes").or_insert(Value::Null);
    token.entry("top_logprobs").or_insert_with(|| json!([]));
    let top = token.get_mut("top_logprobs").and_then(Value::as_array_mut);
    for top in top.into_iter().flatten().filter_map(Value::as_object_mut) {
        top.entry("bytes").or_insert(Value::Null);
    }
    Value::Object(token)
}

/// Returns a text that is kept; it is empty if it is absent.
fn short(item: &Object, name: &str) -> Result<String, ResponseError> {
    let text = text(item, name);
    if text.len() > MAX_NAME_BYTES {
        return Err(invalid("an output item with an id or name of excessive length"));
    }
    Ok(text)
}

fn text(object: &Object, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}
