//! Whole messages → chat completions.

use std::mem;

use serde_json::{Value, json};

use super::event::{MessageReader, MessageStep};
use crate::{
    Object, object,
    translation::{ResponseError, object_of},
};

/// Maximum number of content blocks of a message. Each can become a call. A text has one more block
/// for each passage that is cited.
const MAX_BLOCKS: usize = 8_192;

/// The message of a chat completion, as it grows.
#[derive(Debug, Default)]
struct PartialCompletion {
    id: String,
    model: String,
    content: Option<String>,
    refusal: Option<String>,
    reasoning: String,
    thinking_blocks: Vec<Value>,
    citations: Vec<Value>,
    calls: Vec<PartialCall>,
    finish_reason: &'static str,
    usage: Object,
}

#[derive(Debug)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
}

/// Returns the chat completion of a message that was not streamed. It is read as the events that
/// would have streamed it, so that both forms agree. `created` is in seconds since 1970. Fails if
/// the response is an error or not a message.
pub(super) fn to_completion(mut message: Object, created: u64) -> Result<Object, ResponseError> {
    if message.get("type").is_some_and(|kind| kind == "error") {
        return Err(ResponseError::reported(&message));
    }
    let Some(Value::Array(blocks)) = message.shift_remove("content") else {
        return Err(ResponseError::Invalid { what: "a message without content" });
    };
    if blocks.len() > MAX_BLOCKS {
        return Err(ResponseError::Invalid {
            what: "a message with more content blocks than the gateway accepts",
        });
    }
    let end = object(json!({"type": "message_delta", "delta": {
        "stop_reason": message.get("stop_reason"), "stop_details": message.get("stop_details")
    }}));
    let mut reader = MessageReader::default();
    let mut answer = PartialCompletion::default();
    let start = object_of([("type", "message_start".into()), ("message", message.into())]);
    answer.event(&start, &mut reader)?;
    for block in blocks {
        let kind = "content_block_start".into();
        let start = object_of([("type", kind), ("index", 0.into()), ("content_block", block)]);
        answer.event(&start, &mut reader)?;
        let stop = object_of([("type", "content_block_stop".into()), ("index", 0.into())]);
        answer.event(&stop, &mut reader)?;
    }
    answer.event(&end, &mut reader)?;
    answer.event(&object_of([("type", "message_stop".into())]), &mut reader)?;
    Ok(answer.into_completion(created))
}

impl PartialCompletion {
    fn event(&mut self, event: &Object, reader: &mut MessageReader) -> Result<(), ResponseError> {
        for step in reader.event(event)? {
            self.step(step);
        }
        Ok(())
    }

    fn step(&mut self, step: MessageStep) {
        match step {
            MessageStep::Begin { id, model } => {
                self.id = id;
                self.model = model;
            }
            MessageStep::Text(text) => self.content.get_or_insert_default().push_str(&text),
            MessageStep::Reasoning(text) => self.reasoning.push_str(&text),
            MessageStep::Thinking { block, .. } => self.thinking_blocks.push(block.into()),
            MessageStep::Citation { citation, .. } => self.citations.push(citation.into()),
            MessageStep::Call { id, name, .. } => {
                self.calls.push(PartialCall { id, name, arguments: String::new() });
            }
            MessageStep::Arguments { index, json } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&json);
                }
            }
            MessageStep::End { finish_reason, refusal, usage } => {
                self.finish_reason = finish_reason;
                self.refusal = refusal;
                self.usage = usage.to_object();
            }
        }
    }

    fn into_completion(mut self, created: u64) -> Object {
        let message = self.take_message();
        let choice = object_of([
            ("index", 0.into()),
            ("message", message.into()),
            ("logprobs", Value::Null),
            ("finish_reason", self.finish_reason.into()),
        ]);
        object_of([
            ("id", self.id.into()),
            ("object", "chat.completion".into()),
            ("created", created.into()),
            ("model", self.model.into()),
            ("choices", vec![Value::Object(choice)].into()),
            ("usage", self.usage.into()),
        ])
    }

    /// Returns the message and leaves an empty one.
    fn take_message(&mut self) -> Object {
        let mut message = object_of([
            ("role", "assistant".into()),
            ("content", self.content.take().into()),
            ("refusal", self.refusal.take().into()),
        ]);
        let reasoning = mem::take(&mut self.reasoning);
        if !reasoning.is_empty() {
            message.insert("reasoning_content".to_owned(), reasoning.into());
        }
        let calls = mem::take(&mut self.calls).into_iter().map(PartialCall::into_value).collect();
        for (name, list) in [
            ("thinking_blocks", mem::take(&mut self.thinking_blocks)),
            ("citations", mem::take(&mut self.citations)),
            ("tool_calls", calls),
        ] {
            if !list.is_empty() {
                message.insert(name.to_owned(), list.into());
            }
        }
        message
    }
}

impl PartialCall {
    fn into_value(self) -> Value {
        let function =
            object_of([("name", self.name.into()), ("arguments", self.arguments.into())]);
        let call = object_of([
            ("id", self.id.into()),
            ("type", "function".into()),
            ("function", function.into()),
        ]);
        call.into()
    }
}

#[cfg(test)]
mod tests;
