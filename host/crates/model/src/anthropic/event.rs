//! Reads the events of a streamed message.
//!
//! A stream is `message_start`, then for each block of content `content_block_start`, any number of
//! `content_block_delta` and `content_block_stop`, then `message_delta` and `message_stop`. Events
//! and blocks of types that are not known are ignored, as Anthropic's policy on versions requires:
//! new ones can be added at any time. The blocks of tools that Anthropic runs are among them,
//! because chat has no form for them.

mod block;

use serde_json::Value;

use self::block::{Block, text};
use super::{usage, usage::TokenUsage};
use crate::{Object, translation::ResponseError};

/// Maximum bytes of a message's id and of its model's name, which every chunk repeats. Anthropic's
/// have some 30 bytes, those of a proxy before it more.
const MAX_NAME_BYTES: usize = 256;

/// One step of a message.
#[derive(Debug)]
pub(super) enum MessageStep {
    /// The message began.
    Begin { id: String, model: String },
    /// Text for the user.
    Text(String),
    /// Readable thinking.
    Reasoning(String),
    /// A block of thinking is complete and can be sent back.
    Thinking { index: usize, block: Object },
    /// A source of the text.
    Citation { index: usize, citation: Object },
    /// The model calls a tool.
    Call { index: usize, id: String, name: String },
    /// A piece of the arguments of a call.
    Arguments { index: usize, json: String },
    /// The message is complete.
    End { finish_reason: &'static str, refusal: Option<String>, usage: TokenUsage },
}

/// State of a message. Its size is bounded by the one of the open block.
#[derive(Debug, Default)]
pub(super) struct MessageReader {
    phase: MessagePhase,
    /// The open block and its index.
    open: Option<(u64, Block)>,
    calls: usize,
    thinking_blocks: usize,
    citations: usize,
    usage: TokenUsage,
    finish_reason: Option<&'static str>,
    refusal: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum MessagePhase {
    #[default]
    New,
    Begun,
    Ended,
}

impl MessageReader {
    /// Returns whether `message_stop` has been read. A stream that ends before it is incomplete.
    pub(super) fn has_ended(&self) -> bool {
        self.phase == MessagePhase::Ended
    }

    /// Reads the data of one event. Fails if it reports an error, or cannot follow the events
    /// before it.
    pub(super) fn event(&mut self, data: &Object) -> Result<Vec<MessageStep>, ResponseError> {
        match data.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => Ok(vec![self.begin(data)?]),
            "content_block_start" => self.open_block(data),
            "content_block_delta" => Ok(self.delta(data)?.into_iter().collect()),
            "content_block_stop" => Ok(self.close_block(data)?.into_iter().collect()),
            "message_delta" => self.message_delta(data).map(|()| Vec::new()),
            "message_stop" => Ok(vec![self.end()?]),
            "error" => Err(ResponseError::reported(data)),
            // "ping", and events of later versions.
            _ => Ok(Vec::new()),
        }
    }

    fn begin(&mut self, data: &Object) -> Result<MessageStep, ResponseError> {
        if self.phase != MessagePhase::New {
            return Err(invalid("a second message_start event"));
        }
        let Some(Value::Object(message)) = data.get("message") else {
            return Err(invalid("a message_start event without a message"));
        };
        let id = text(message, "id");
        let model = text(message, "model");
        if id.len().max(model.len()) > MAX_NAME_BYTES {
            return Err(invalid("a message with an id or model of excessive length"));
        }
        self.usage.update(message.get("usage"));
        self.phase = MessagePhase::Begun;
        Ok(MessageStep::Begin { id, model })
    }

    fn open_block(&mut self, data: &Object) -> Result<Vec<MessageStep>, ResponseError> {
        self.check_begun()?;
        if self.open.is_some() {
            return Err(invalid("a content block that starts before the last one has stopped"));
        }
        let (Some(index), Some(Value::Object(block))) = (index(data), data.get("content_block"))
        else {
            return Err(invalid("a content_block_start event without an index or a block"));
        };
        let (opened, steps) = self.opened(block)?;
        self.open = Some((index, opened));
        Ok(steps)
    }

    /// Returns the state of a block that starts, and the steps that it already holds. A block of a
    /// whole message holds all of its content.
    fn opened(&mut self, block: &Object) -> Result<(Block, Vec<MessageStep>), ResponseError> {
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => {
                let mut steps: Vec<_> = block::text_step(block).into_iter().collect();
                let citations = block.get("citations").and_then(Value::as_array);
                steps.extend(citations.into_iter().flatten().filter_map(|c| self.citation(c)));
                Ok((Block::Text, steps))
            }
            "thinking" => {
                let steps = block::reasoning_step(text(block, "thinking"));
                Ok((Block::thinking(block)?, steps.into_iter().collect()))
            }
            "redacted_thinking" => Ok((Block::thinking(block)?, Vec::new())),
            "tool_use" => {
                let index = self.calls;
                self.calls += 1;
                let call =
                    MessageStep::Call { index, id: text(block, "id"), name: text(block, "name") };
                let input = block.get("input").cloned().unwrap_or_else(|| Object::new().into());
                Ok((Block::Call { index, input: Some(input) }, vec![call]))
            }
            _ => Ok((Block::Ignored, Vec::new())),
        }
    }

    fn delta(&mut self, data: &Object) -> Result<Option<MessageStep>, ResponseError> {
        self.check_begun()?;
        let Some(Value::Object(delta)) = data.get("delta") else {
            return Err(invalid("a content_block_delta event without a delta"));
        };
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default();
        match (kind, self.open_at(data)?) {
            ("citations_delta", Block::Text) => {
                Ok(delta.get("citation").and_then(|citation| self.citation(citation)))
            }
            (kind, block) => block.extend(kind, delta),
        }
    }

    fn close_block(&mut self, data: &Object) -> Result<Option<MessageStep>, ResponseError> {
        self.check_begun()?;
        self.open_at(data)?;
        match self.open.take() {
            Some((_, Block::Thinking(block))) => {
                let index = self.thinking_blocks;
                self.thinking_blocks += 1;
                Ok(Some(MessageStep::Thinking { index, block }))
            }
            // A tool without parameters is called without pieces. Its arguments are then the input
            // with which the block started, `{}`.
            Some((_, Block::Call { index, input: Some(input) })) => {
                Ok(Some(MessageStep::Arguments { index, json: input.to_string() }))
            }
            _ => Ok(None),
        }
    }

    fn message_delta(&mut self, data: &Object) -> Result<(), ResponseError> {
        self.check_begun()?;
        self.usage.update(data.get("usage"));
        let Some(Value::Object(delta)) = data.get("delta") else { return Ok(()) };
        if let Some(Value::String(reason)) = delta.get("stop_reason") {
            self.finish_reason = Some(usage::finish_reason(reason));
        }
        if let Some(Value::String(why)) =
            delta.get("stop_details").and_then(|d| d.get("explanation"))
        {
            self.refusal = Some(why.clone());
        }
        Ok(())
    }

    fn end(&mut self) -> Result<MessageStep, ResponseError> {
        self.check_begun()?;
        if self.open.is_some() {
            return Err(invalid("a message that stops inside a content block"));
        }
        let finish_reason =
            self.finish_reason.ok_or_else(|| invalid("a message that stops without a reason"))?;
        self.phase = MessagePhase::Ended;
        Ok(MessageStep::End { finish_reason, refusal: self.refusal.take(), usage: self.usage })
    }

    fn citation(&mut self, citation: &Value) -> Option<MessageStep> {
        let citation = citation.as_object()?.clone();
        let index = self.citations;
        self.citations += 1;
        Some(MessageStep::Citation { index, citation })
    }

    fn check_begun(&self) -> Result<(), ResponseError> {
        match self.phase {
            MessagePhase::New => Err(invalid("an event before message_start")),
            MessagePhase::Begun => Ok(()),
            MessagePhase::Ended => Err(invalid("an event after message_stop")),
        }
    }

    fn open_at(&mut self, data: &Object) -> Result<&mut Block, ResponseError> {
        match &mut self.open {
            Some((open, block)) if index(data) == Some(*open) => Ok(block),
            _ => Err(invalid("an event of a content block that has not started")),
        }
    }
}

fn index(data: &Object) -> Option<u64> {
    data.get("index").and_then(Value::as_u64)
}

fn invalid(what: &'static str) -> ResponseError {
    ResponseError::Invalid { what }
}

#[cfg(test)]
mod tests;
