//! Reads the events of a streamed message.
//!
//! A stream is `message_start`, then for each block of content `content_block_start`, any number of
//! `content_block_delta` and `content_block_stop`, then `message_delta` and `message_stop`. Events
//! and blocks of types that are not known are ignored, as Anthropic's policy on versions requires:
//! new ones can be added at any time. The blocks of tools that Anthropic runs are among them,
//! because chat has no form for them.

use serde_json::Value;

use super::{error::Failure, usage, usage::Usage};
use crate::model::Object;

/// Maximum bytes of one block of thinking. Its text is kept until its signature has come. The
/// longest output of a model, 128,000 tokens, is about a sixth of it.
const MAX_THINKING_BYTES: usize = 4 << 20;
/// Maximum bytes of a message's id and of its model's name, which every chunk repeats.
const MAX_NAME_BYTES: usize = 256;

/// One step of a message.
#[derive(Debug)]
pub(super) enum Step {
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
    End { finish_reason: &'static str, refusal: Option<String>, usage: Usage },
}

/// State of a message. Its size is bounded by [`MAX_THINKING_BYTES`] and the size of one event.
#[derive(Debug, Default)]
pub(super) struct Reader {
    phase: Phase,
    /// The open block and its index.
    open: Option<(u64, Block)>,
    calls: usize,
    thinking_blocks: usize,
    citations: usize,
    usage: Usage,
    finish_reason: Option<&'static str>,
    refusal: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Begun,
    Ended,
}

#[derive(Debug)]
enum Block {
    Text,
    Thinking(Object),
    /// A call, and its input if no piece of it has been streamed.
    Call {
        index: usize,
        input: Option<Value>,
    },
    Ignored,
}

impl Reader {
    /// Returns whether `message_stop` has been read. A stream that ends before it is incomplete.
    pub(super) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Reads the data of one event. Fails if it reports an error, or cannot follow the events
    /// before it.
    pub(super) fn event(&mut self, data: &Object) -> Result<Vec<Step>, Failure> {
        match data.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => Ok(vec![self.begin(data)?]),
            "content_block_start" => self.open_block(data),
            "content_block_delta" => Ok(self.delta(data)?.into_iter().collect()),
            "content_block_stop" => Ok(self.close_block(data)?.into_iter().collect()),
            "message_delta" => self.message_delta(data).map(|()| Vec::new()),
            "message_stop" => Ok(vec![self.end()?]),
            "error" => Err(Failure::reported(data)),
            // "ping", and events of later versions.
            _ => Ok(Vec::new()),
        }
    }

    fn begin(&mut self, data: &Object) -> Result<Step, Failure> {
        if self.phase != Phase::New {
            return Err(invalid("a second message_start event"));
        }
        let Some(Value::Object(message)) = data.get("message") else {
            return Err(invalid("a message_start event without a message"));
        };
        let (id, model) = (text(message, "id"), text(message, "model"));
        if id.len().max(model.len()) > MAX_NAME_BYTES {
            return Err(invalid("a message with an id or model of excessive length"));
        }
        self.usage.update(message.get("usage"));
        self.phase = Phase::Begun;
        Ok(Step::Begin { id, model })
    }

    fn open_block(&mut self, data: &Object) -> Result<Vec<Step>, Failure> {
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
    fn opened(&mut self, block: &Object) -> Result<(Block, Vec<Step>), Failure> {
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => {
                let mut steps: Vec<_> = text_step(block).into_iter().collect();
                let citations = block.get("citations").and_then(Value::as_array);
                steps.extend(citations.into_iter().flatten().filter_map(|c| self.citation(c)));
                Ok((Block::Text, steps))
            }
            "thinking" => {
                check_thinking(block)?;
                let thinking = text(block, "thinking");
                let steps = (!thinking.is_empty()).then_some(Step::Reasoning(thinking));
                Ok((Block::Thinking(block.clone()), steps.into_iter().collect()))
            }
            "redacted_thinking" => Ok((Block::Thinking(block.clone()), Vec::new())),
            "tool_use" => {
                let index = self.calls;
                self.calls += 1;
                let call = Step::Call { index, id: text(block, "id"), name: text(block, "name") };
                let input = block.get("input").cloned().unwrap_or_else(|| Object::new().into());
                Ok((Block::Call { index, input: Some(input) }, vec![call]))
            }
            _ => Ok((Block::Ignored, Vec::new())),
        }
    }

    fn delta(&mut self, data: &Object) -> Result<Option<Step>, Failure> {
        self.check_begun()?;
        let Some(Value::Object(delta)) = data.get("delta") else {
            return Err(invalid("a content_block_delta event without a delta"));
        };
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default();
        match (kind, self.open_at(data)?) {
            ("text_delta", Block::Text) => Ok(text_step(delta)),
            ("citations_delta", Block::Text) => {
                Ok(delta.get("citation").and_then(|citation| self.citation(citation)))
            }
            ("thinking_delta", Block::Thinking(block)) => {
                let piece = text(delta, "thinking");
                append(block, "thinking", &piece);
                check_thinking(block)?;
                Ok((!piece.is_empty()).then_some(Step::Reasoning(piece)))
            }
            ("signature_delta", Block::Thinking(block)) => {
                block.insert("signature".to_owned(), text(delta, "signature").into());
                check_thinking(block)?;
                Ok(None)
            }
            ("input_json_delta", Block::Call { index, input }) => {
                let json = text(delta, "partial_json");
                if json.is_empty() {
                    return Ok(None);
                }
                *input = None;
                Ok(Some(Step::Arguments { index: *index, json }))
            }
            ("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta", block)
                if !matches!(block, Block::Ignored) =>
            {
                Err(invalid("a delta that does not fit the type of its content block"))
            }
            _ => Ok(None),
        }
    }

    fn close_block(&mut self, data: &Object) -> Result<Option<Step>, Failure> {
        self.check_begun()?;
        self.open_at(data)?;
        match self.open.take() {
            Some((_, Block::Thinking(block))) => {
                let index = self.thinking_blocks;
                self.thinking_blocks += 1;
                Ok(Some(Step::Thinking { index, block }))
            }
            // A tool without parameters is called without pieces. Its arguments are then the input
            // with which the block started, `{}`.
            Some((_, Block::Call { index, input: Some(input) })) => {
                Ok(Some(Step::Arguments { index, json: input.to_string() }))
            }
            _ => Ok(None),
        }
    }

    fn message_delta(&mut self, data: &Object) -> Result<(), Failure> {
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

    fn end(&mut self) -> Result<Step, Failure> {
        self.check_begun()?;
        if self.open.is_some() {
            return Err(invalid("a message that stops inside a content block"));
        }
        let finish_reason =
            self.finish_reason.ok_or_else(|| invalid("a message that stops without a reason"))?;
        self.phase = Phase::Ended;
        Ok(Step::End { finish_reason, refusal: self.refusal.take(), usage: self.usage })
    }

    fn citation(&mut self, citation: &Value) -> Option<Step> {
        let citation = citation.as_object()?.clone();
        let index = self.citations;
        self.citations += 1;
        Some(Step::Citation { index, citation })
    }

    fn check_begun(&self) -> Result<(), Failure> {
        match self.phase {
            Phase::New => Err(invalid("an event before message_start")),
            Phase::Begun => Ok(()),
            Phase::Ended => Err(invalid("an event after message_stop")),
        }
    }

    fn open_at(&mut self, data: &Object) -> Result<&mut Block, Failure> {
        match &mut self.open {
            Some((open, block)) if index(data) == Some(*open) => Ok(block),
            _ => Err(invalid("an event of a content block that has not started")),
        }
    }
}

fn index(data: &Object) -> Option<u64> {
    data.get("index").and_then(Value::as_u64)
}

/// Returns a member that is a string; empty if it is absent.
fn text(object: &Object, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the step of a member `text`, unless it is empty.
fn text_step(object: &Object) -> Option<Step> {
    let text = text(object, "text");
    (!text.is_empty()).then_some(Step::Text(text))
}

fn append(block: &mut Object, name: &str, piece: &str) {
    match block.get_mut(name) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => drop(block.insert(name.to_owned(), piece.into())),
    }
}

fn check_thinking(block: &Object) -> Result<(), Failure> {
    let bytes = |name| block.get(name).and_then(Value::as_str).map_or(0, str::len);
    if bytes("thinking") + bytes("signature") > MAX_THINKING_BYTES {
        return Err(invalid("a block of thinking of excessive length"));
    }
    Ok(())
}

fn invalid(what: &'static str) -> Failure {
    Failure::Invalid { what }
}

#[cfg(test)]
mod tests;
