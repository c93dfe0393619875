//! Events of a streamed message, and a whole message → deltas.
//!
//! A stream is `message_start`, then for each block of content `content_block_start`, any number of
//! `content_block_delta` and `content_block_stop`, then `message_delta` and `message_stop`. Events
//! and blocks of types that are not known are ignored, as Anthropic's policy on versions requires:
//! new ones can be added at any time. The blocks of tools that Anthropic runs are among them,
//! because other APIs have no form for them.

mod block;
mod tokens;

use serde_json::{Value, json};

use self::{
    block::{Block, text},
    tokens::TokenUsage,
};
use super::{error::reported, object_of};
use crate::{
    Begin, Delta, FinishReason, Object, ReplyError, Wire,
    delta::{MAX_ANNOTATIONS, MAX_NAME_BYTES, MAX_PIECES, invalid},
};

/// Reads a message. Its size is bounded by the one of the open block.
#[derive(Debug, Default)]
pub struct ReplyReader {
    phase: MessagePhase,
    /// The open block and its index.
    open: Option<(u64, Block)>,
    calls: u64,
    usage: TokenUsage,
    finish_reason: Option<FinishReason>,
    refusal: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum MessagePhase {
    #[default]
    New,
    Begun,
    Ended,
}

impl ReplyReader {
    /// Returns whether `message_stop` has been read. A stream that ends before it is incomplete.
    pub fn has_ended(&self) -> bool {
        self.phase == MessagePhase::Ended
    }

    /// Reads the data of one event. Fails if it reports an error, or cannot follow the events
    /// before it.
    pub fn event(&mut self, data: &Object) -> Result<Vec<Delta>, ReplyError> {
        match data.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => Ok(vec![self.begin(data)?]),
            "content_block_start" => self.open_block(data),
            "content_block_delta" => Ok(self.delta(data)?.into_iter().collect()),
            "content_block_stop" => Ok(self.close_block(data)?.into_iter().collect()),
            "message_delta" => self.message_delta(data).map(|()| Vec::new()),
            "message_stop" => self.end(),
            "error" => Err(reported(data)),
            // "ping", and events of later versions.
            _ => Ok(Vec::new()),
        }
    }

    /// Reads a message that was not streamed, as the events that would have streamed it, so that both forms
    /// agree. Fails if the response is an error or not a message.
    pub fn whole(&mut self, mut message: Object) -> Result<Vec<Delta>, ReplyError> {
        if message.get("type").is_some_and(|kind| kind == "error") {
            return Err(reported(&message));
        }
        let Some(Value::Array(blocks)) = message.shift_remove("content") else {
            return Err(invalid("a message without content"));
        };
        if blocks.len() > MAX_PIECES {
            return Err(invalid("a message with more content blocks than the gateway accepts"));
        }
        let end = json!({
            "stop_reason": message.get("stop_reason"),
            "stop_sequence": message.get("stop_sequence"),
            "stop_details": message.get("stop_details"),
        });
        let start = event("message_start", [("message", message.into())]);
        let mut deltas = self.event(&start)?;
        for block in blocks {
            let block = [("index", 0.into()), ("content_block", block)];
            deltas.append(&mut self.event(&event("content_block_start", block))?);
            let stop = event("content_block_stop", [("index", 0.into())]);
            deltas.append(&mut self.event(&stop)?);
        }
        deltas.append(&mut self.event(&event("message_delta", [("delta", end)]))?);
        deltas.append(&mut self.event(&event("message_stop", []))?);
        Ok(deltas)
    }

    fn begin(&mut self, data: &Object) -> Result<Delta, ReplyError> {
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
        Ok(Delta::Begin(Begin { id, model, ..Begin::default() }))
    }

    fn open_block(&mut self, data: &Object) -> Result<Vec<Delta>, ReplyError> {
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
    fn opened(&mut self, block: &Object) -> Result<(Block, Vec<Delta>), ReplyError> {
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => {
                let mut steps: Vec<_> = block::text_delta(block).into_iter().collect();
                let citations = block.get("citations").and_then(Value::as_array);
                let citations = citations.map_or(&[][..], Vec::as_slice);
                if citations.len() > MAX_ANNOTATIONS {
                    return Err(invalid(
                        "a content block with more citations than the gateway accepts",
                    ));
                }
                steps.extend(citations.iter().filter_map(citation_delta));
                Ok((Block::Text, steps))
            }
            "thinking" => {
                let steps = block::reasoning_delta(text(block, "thinking"));
                Ok((Block::thinking(block)?, steps.into_iter().collect()))
            }
            "redacted_thinking" => Ok((Block::thinking(block)?, Vec::new())),
            "tool_use" => {
                let index = self.calls;
                self.calls += 1;
                let call = Delta::Call {
                    choice: 0,
                    index,
                    id: text(block, "id"),
                    name: text(block, "name"),
                    is_custom: false,
                    extra: Object::new(),
                };
                let input = block.get("input").cloned().unwrap_or_else(|| Object::new().into());
                Ok((Block::Call { index, input: Some(input) }, vec![call]))
            }
            _ => Ok((Block::Ignored, Vec::new())),
        }
    }

    fn delta(&mut self, data: &Object) -> Result<Option<Delta>, ReplyError> {
        self.check_begun()?;
        let Some(Value::Object(delta)) = data.get("delta") else {
            return Err(invalid("a content_block_delta event without a delta"));
        };
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default();
        match (kind, self.open_at(data)?) {
            ("citations_delta", Block::Text) => Ok(delta.get("citation").and_then(citation_delta)),
            (kind, block) => block.extend(kind, delta),
        }
    }

    fn close_block(&mut self, data: &Object) -> Result<Option<Delta>, ReplyError> {
        self.check_begun()?;
        self.open_at(data)?;
        match self.open.take() {
            Some((_, Block::Thinking(block))) => {
                let reasoning = block::reasoning(block);
                Ok(Some(Delta::ReasoningEnd { choice: 0, reasoning }))
            }
            // A tool without parameters is called without pieces. Its arguments are then the input
            // with which the block started, `{}`.
            Some((_, Block::Call { index, input: Some(input) })) => {
                Ok(Some(Delta::Arguments { choice: 0, index, text: input.to_string() }))
            }
            _ => Ok(None),
        }
    }

    fn message_delta(&mut self, data: &Object) -> Result<(), ReplyError> {
        self.check_begun()?;
        self.usage.update(data.get("usage"));
        let Some(Value::Object(delta)) = data.get("delta") else { return Ok(()) };
        if let Some(Value::String(reason)) = delta.get("stop_reason") {
            let sequence = delta.get("stop_sequence").and_then(Value::as_str);
            self.finish_reason = Some(tokens::finish_reason(reason, sequence));
        }
        if let Some(Value::String(why)) =
            delta.get("stop_details").and_then(|d| d.get("explanation"))
        {
            self.refusal = Some(why.clone());
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Vec<Delta>, ReplyError> {
        self.check_begun()?;
        if self.open.is_some() {
            return Err(invalid("a message that stops inside a content block"));
        }
        let reason = self.finish_reason.take();
        let reason = reason.ok_or_else(|| invalid("a message that stops without a reason"))?;
        self.phase = MessagePhase::Ended;
        let refusal = self.refusal.take().map(|text| Delta::Refusal { choice: 0, text });
        let end = [Delta::End { choice: 0, reason }, Delta::Usage(self.usage.to_usage())];
        Ok(refusal.into_iter().chain(self.usage.tier()).chain(end).collect())
    }

    fn check_begun(&self) -> Result<(), ReplyError> {
        match self.phase {
            MessagePhase::New => Err(invalid("an event before message_start")),
            MessagePhase::Begun => Ok(()),
            MessagePhase::Ended => Err(invalid("an event after message_stop")),
        }
    }

    fn open_at(&mut self, data: &Object) -> Result<&mut Block, ReplyError> {
        match &mut self.open {
            Some((open, block)) if index(data) == Some(*open) => Ok(block),
            _ => Err(invalid("an event of a content block that has not started")),
        }
    }
}

/// Returns an event of type `kind`.
fn event<const N: usize>(kind: &str, members: [(&str, Value); N]) -> Object {
    let mut event = object_of(members);
    event.insert("type".to_owned(), kind.into());
    event
}

fn citation_delta(citation: &Value) -> Option<Delta> {
    let citation = citation.as_object()?.clone();
    Some(Delta::Citation { choice: 0, wire: Wire::Messages, citation })
}

fn index(data: &Object) -> Option<u64> {
    data.get("index").and_then(Value::as_u64)
}

#[cfg(test)]
mod tests;
