//! Events of a streamed message → chunks of a chat completion.
//!
//! Beside OpenAI's members, a delta can have members that other gateways have too:
//! `reasoning_content`, the readable thinking; `thinking_blocks`, the signed blocks of thinking,
//! each when it is complete, which the next request must contain if tools were called; and
//! `citations`, Anthropic's sources of the text. The elements of the lists have an `index`, like
//! those of `tool_calls`, because OpenAI's clients merge lists by it.

use serde_json::{Value, json};

use super::event::{MessageReader, MessageStep};
use crate::{
    Object, object,
    translation::{ResponseError, object_of},
};

/// Translation of one stream.
#[derive(Debug)]
pub(super) struct MessageTranslation {
    reader: MessageReader,
    created: u64,
    include_usage: bool,
    id: String,
    model: String,
}

impl MessageTranslation {
    /// Creates the translation of a stream that began at `created`, in seconds since 1970.
    /// `include_usage` is the one of the request's `stream_options`: it adds a last chunk without
    /// choices.
    pub(super) fn new(created: u64, include_usage: bool) -> Self {
        let id = String::new();
        let model = String::new();
        Self { reader: MessageReader::default(), created, include_usage, id, model }
    }

    /// Returns whether the message is complete. A stream that ends earlier was cut.
    pub(super) fn has_ended(&self) -> bool {
        self.reader.has_ended()
    }

    /// Returns the chunks for the data of one event. Fails if it reports an error, or cannot follow
    /// the events before it.
    pub(super) fn event(&mut self, data: &Object) -> Result<Vec<Object>, ResponseError> {
        let mut chunks = Vec::new();
        for step in self.reader.event(data)? {
            match step {
                MessageStep::Begin { id, model } => {
                    self.id = id;
                    self.model = model;
                    let delta = [("role", "assistant".into()), ("content", Value::Null)];
                    chunks.push(self.chunk(object_of(delta), None));
                }
                MessageStep::End { finish_reason, refusal, usage } => {
                    let refusal = refusal.map(|why| object_of([("refusal", why.into())]));
                    chunks.push(self.chunk(refusal.unwrap_or_default(), Some(finish_reason)));
                    if self.include_usage {
                        chunks.push(self.frame(Vec::new(), usage.to_object().into()));
                    }
                }
                step => chunks.extend(delta(step).map(|delta| self.chunk(delta, None))),
            }
        }
        Ok(chunks)
    }

    fn chunk(&self, delta: Object, finish_reason: Option<&str>) -> Object {
        let choice = object_of([
            ("index", 0.into()),
            ("delta", delta.into()),
            ("logprobs", Value::Null),
            ("finish_reason", finish_reason.into()),
        ]);
        self.frame(vec![choice.into()], Value::Null)
    }

    fn frame(&self, choices: Vec<Value>, usage: Value) -> Object {
        let mut chunk = object_of([
            ("id", self.id.as_str().into()),
            ("object", "chat.completion.chunk".into()),
            ("created", self.created.into()),
            ("model", self.model.as_str().into()),
            ("choices", choices.into()),
        ]);
        // OpenAI's reference: with `include_usage`, all other chunks have a usage of null.
        if self.include_usage {
            chunk.insert("usage".to_owned(), usage);
        }
        chunk
    }
}

/// Returns the delta of a step inside a message.
fn delta(step: MessageStep) -> Option<Object> {
    let delta = match step {
        MessageStep::Begin { .. } | MessageStep::End { .. } => return None,
        MessageStep::Text(text) => object_of([("content", text.into())]),
        MessageStep::Reasoning(text) => object_of([("reasoning_content", text.into())]),
        MessageStep::Thinking { index, block } => element("thinking_blocks", index, block),
        MessageStep::Citation { index, citation } => element("citations", index, citation),
        MessageStep::Call { index, id, name } => {
            let function = json!({"name": name, "arguments": ""});
            let call = json!({"id": id, "type": "function", "function": function});
            element("tool_calls", index, object(call))
        }
        MessageStep::Arguments { index, json } => {
            let function = object_of([("arguments", json.into())]);
            element("tool_calls", index, object_of([("function", function.into())]))
        }
    };
    Some(delta)
}

/// Returns a delta that has one element of a list.
fn element(list: &str, index: usize, element: Object) -> Object {
    let mut indexed = object_of([("index", index.into())]);
    indexed.extend(element.into_iter().filter(|(name, _)| name != "index"));
    object_of([(list, vec![Value::Object(indexed)].into())])
}

#[cfg(test)]
mod tests;
