//! Deltas → events of a streamed message, and a whole message.
//!
//! The blocks of a stream follow one another: each ends before the next one begins. Pieces that come
//! while the arguments of another call are incomplete wait until they are complete.

mod arguments;
mod whole;

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
};

use airlock_json::weight::object_weight;
use serde_json::{Value, json};

use self::arguments::ArgumentStream;
pub use self::whole::write_reply;
use super::{object_of, seal};
use crate::{Delta, FinishReason, Object, Reasoning, Seal, Usage, Wire, thought_signature};

/// Memory of a delta that waits and of the events that it becomes, in bytes beside its text: those of the
/// beginning, the piece and the end of a block.
const WAITING_BYTES: usize = 4 << 10;

/// Writes a reply as the events of a streamed message. Of several choices it writes the first one.
#[derive(Debug)]
pub struct EventWriter {
    id: String,
    model: String,
    has_begun: bool,
    /// Number of blocks so far.
    blocks: u64,
    open: OpenBlock,
    has_calls: bool,
    /// Deltas that wait for the end of the open call. Pieces of arguments are in `arguments`.
    waiting: VecDeque<Delta>,
    /// Arguments of calls that wait.
    arguments: BTreeMap<u64, String>,
    /// Text with which the model refuses. It is an explanation of the end, or text of the message.
    refusal: String,
    held_bytes: usize,
    reason: Option<FinishReason>,
    usage: Usage,
}

/// The block that has begun and not ended. Its index is the number of blocks before it.
#[derive(Debug)]
enum OpenBlock {
    None,
    Text,
    Thinking {
        /// Length of its text so far.
        bytes: usize,
    },
    Call {
        index: u64,
        arguments: ArgumentStream,
    },
}

impl EventWriter {
    /// Creates the writer of a message. `id` and `model` are used unless the reply has its own.
    pub fn new(id: &str, model: &str) -> Self {
        Self {
            id: id.to_owned(),
            model: model.to_owned(),
            has_begun: false,
            blocks: 0,
            open: OpenBlock::None,
            has_calls: false,
            waiting: VecDeque::new(),
            arguments: BTreeMap::new(),
            refusal: String::new(),
            held_bytes: 0,
            reason: None,
            usage: Usage::default(),
        }
    }

    /// Returns the bytes of all pieces that had to wait so far. It never decreases.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Writes a delta. Appends the events that it becomes to `out`, each with its `type`.
    pub fn delta(&mut self, delta: Delta, out: &mut Vec<Object>) {
        match delta {
            Delta::Begin(begin) => {
                if !self.has_begun && !begin.id.is_empty() {
                    self.id = begin.id;
                }
                if !self.has_begun && !begin.model.is_empty() {
                    self.model = begin.model;
                }
                self.begin(out);
            }
            Delta::Usage(usage) => self.usage = usage,
            Delta::End { choice: 0, reason } => self.reason = Some(reason),
            Delta::Refusal { choice: 0, text } => {
                self.held_bytes += text.len();
                self.refusal.push_str(&text);
            }
            Delta::Arguments { choice: 0, index, text } => self.add_arguments(index, text, out),
            delta if is_content(&delta) => {
                self.begin(out);
                if self.is_blocked() {
                    self.wait(delta);
                } else {
                    self.content(delta, out);
                }
            }
            _ => {}
        }
    }

    /// Ends the message. `airlock` becomes a member of the event `message_delta`, which the clients of
    /// the API keep or ignore.
    pub fn finish(&mut self, airlock: Option<Object>, out: &mut Vec<Object>) {
        self.begin(out);
        self.close(out);
        while let Some(delta) = self.waiting.pop_front() {
            self.content(delta, out);
        }
        self.close(out);
        if self.reason != Some(FinishReason::ContentFilter) && !self.refusal.is_empty() {
            let text = mem::take(&mut self.refusal);
            self.reason = Some(FinishReason::ContentFilter);
            self.content(Delta::Text { choice: 0, text }, out);
            self.close(out);
        }
        let end = ending(self.reason.take(), self.has_calls, mem::take(&mut self.refusal));
        let kind = "message_delta".into();
        let usage = usage(&self.usage);
        let mut last = object_of([("type", kind), ("delta", end.into()), ("usage", usage)]);
        last.extend(airlock.map(|airlock| ("airlock".to_owned(), airlock.into())));
        out.push(last);
        out.push(object_of([("type", "message_stop".into())]));
    }

    fn begin(&mut self, out: &mut Vec<Object>) {
        if mem::replace(&mut self.has_begun, true) {
            return;
        }
        let message = json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        });
        out.push(object_of([("type", "message_start".into()), ("message", message)]));
    }

    /// Returns whether the open call has to get the rest of its arguments before another block begins.
    fn is_blocked(&self) -> bool {
        let is_open =
            matches!(&self.open, OpenBlock::Call { arguments, .. } if !arguments.is_complete());
        is_open || !self.waiting.is_empty()
    }

    /// Keeps a delta until the open call is complete, without the members that are not written. Pieces of
    /// one text are joined.
    fn wait(&mut self, mut delta: Delta) {
        if let (Some(Delta::Text { text: sum, .. }), Delta::Text { text, .. })
        | (Some(Delta::Reasoning { text: sum, .. }), Delta::Reasoning { text, .. }) =
            (self.waiting.back_mut(), &delta)
        {
            self.held_bytes += text.len();
            sum.push_str(text);
            return;
        }
        let bytes = match &mut delta {
            Delta::Text { text, .. } | Delta::Reasoning { text, .. } => text.len(),
            Delta::ReasoningEnd { reasoning, .. } => {
                seal::drop_unwritten(reasoning);
                seal::text_len(reasoning)
            }
            Delta::Citation { citation, .. } => object_weight(citation),
            Delta::Call { index, id, name, extra, .. } => {
                *extra = thought_signature::only(mem::take(extra));
                self.arguments.entry(*index).or_default();
                let signature = thought_signature::get(extra);
                let signature = signature.map_or(0, |text| text.len() + id.len() + WAITING_BYTES);
                id.len() + name.len() + signature
            }
            _ => 0,
        };
        self.held_bytes += bytes + WAITING_BYTES;
        self.waiting.push_back(delta);
    }

    fn add_arguments(&mut self, call: u64, text: String, out: &mut Vec<Object>) {
        if let OpenBlock::Call { index, arguments } = &mut self.open
            && *index == call
        {
            let before = arguments.held_bytes();
            let piece = arguments.add(text);
            self.held_bytes += arguments.held_bytes() - before;
            self.write_arguments(piece, out);
            self.resume(out);
        } else if let Some(waiting) = self.arguments.get_mut(&call) {
            self.held_bytes += text.len();
            waiting.push_str(&text);
        }
    }

    /// Writes what waits, up to the next call whose arguments are incomplete.
    fn resume(&mut self, out: &mut Vec<Object>) {
        while let OpenBlock::Call { arguments, .. } = &self.open
            && arguments.is_complete()
            && let Some(mut delta) = self.waiting.pop_front()
        {
            // Text and reasoning do not block, so all of them up to the next call are written.
            while !matches!(delta, Delta::Call { .. }) {
                self.content(delta, out);
                match self.waiting.pop_front() {
                    Some(next) => delta = next,
                    None => return,
                }
            }
            self.content(delta, out);
        }
    }

    /// Writes a delta that is a piece of a block, or begins or ends one.
    fn content(&mut self, delta: Delta, out: &mut Vec<Object>) {
        match delta {
            Delta::Text { text, .. } if !text.is_empty() => {
                self.open_text(out);
                self.write_delta("text_delta", "text", text.into(), out);
            }
            Delta::Citation { citation, .. } => {
                self.open_text(out);
                self.write_delta("citations_delta", "citation", citation.into(), out);
            }
            Delta::Reasoning { text, .. } if !text.is_empty() => {
                if !matches!(self.open, OpenBlock::Thinking { .. }) {
                    self.open_thinking(out);
                }
                self.write_thinking(text, out);
            }
            Delta::ReasoningPart { .. } => {
                if matches!(self.open, OpenBlock::Thinking { bytes: 1.. }) {
                    self.write_thinking("\n\n".to_owned(), out);
                }
            }
            Delta::ReasoningEnd { reasoning, .. } => self.end_reasoning(&reasoning, out),
            Delta::Call { index, id, name, extra, .. } => {
                self.has_calls = true;
                if let Some(signature) = seal::of_call(&id, &extra) {
                    self.open_thinking(out);
                    self.write_delta("signature_delta", "signature", signature.into(), out);
                }
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                let arguments = ArgumentStream::default();
                self.start(block, OpenBlock::Call { index, arguments }, out);
                if let Some(text) = self.arguments.remove(&index)
                    && let OpenBlock::Call { arguments, .. } = &mut self.open
                {
                    let piece = arguments.add(text);
                    self.write_arguments(piece, out);
                }
            }
            _ => {}
        }
    }

    fn open_text(&mut self, out: &mut Vec<Object>) {
        if !matches!(self.open, OpenBlock::Text) {
            self.start(json!({"type": "text", "text": ""}), OpenBlock::Text, out);
        }
    }

    fn open_thinking(&mut self, out: &mut Vec<Object>) {
        let block = json!({"type": "thinking", "thinking": "", "signature": ""});
        self.start(block, OpenBlock::Thinking { bytes: 0 }, out);
    }

    fn write_thinking(&mut self, text: String, out: &mut Vec<Object>) {
        if let OpenBlock::Thinking { bytes } = &mut self.open {
            *bytes += text.len();
        }
        self.write_delta("thinking_delta", "thinking", text.into(), out);
    }

    /// Ends a block of reasoning. Its text was written before, in pieces. If they do not make up the
    /// block, it is written again as a whole, because the signature is of the whole.
    fn end_reasoning(&mut self, reasoning: &Reasoning, out: &mut Vec<Object>) {
        if let Some(Seal::Redacted(data)) = &reasoning.seal {
            let block = json!({"type": "redacted_thinking", "data": data});
            self.start(block, OpenBlock::None, out);
            self.stop(out);
            return;
        }
        let text = seal::readable(reasoning);
        let signature = seal::signature(reasoning);
        let is_written = matches!(self.open, OpenBlock::Thinking { bytes } if bytes == text.len());
        if !signature.is_empty() {
            if !is_written {
                self.open_thinking(out);
                if !text.is_empty() {
                    self.write_thinking(text, out);
                }
            }
            self.write_delta("signature_delta", "signature", signature.into(), out);
        }
        if matches!(self.open, OpenBlock::Thinking { .. }) {
            self.close(out);
        }
    }

    fn write_arguments(&self, piece: String, out: &mut Vec<Object>) {
        if !piece.is_empty() {
            self.write_delta("input_json_delta", "partial_json", piece.into(), out);
        }
    }

    /// Ends the open block and begins another one.
    fn start(&mut self, block: Value, open: OpenBlock, out: &mut Vec<Object>) {
        self.close(out);
        self.open = open;
        let kind = "content_block_start".into();
        let index = self.blocks.into();
        out.push(object_of([("type", kind), ("index", index), ("content_block", block)]));
    }

    /// Writes a piece of the open block: the member `name` of a delta of type `kind`.
    fn write_delta(&self, kind: &str, name: &str, piece: Value, out: &mut Vec<Object>) {
        let delta = object_of([("type", kind.into()), (name, piece)]);
        let kind = "content_block_delta".into();
        out.push(object_of([
            ("type", kind),
            ("index", self.blocks.into()),
            ("delta", delta.into()),
        ]));
    }

    /// Ends the open block, if there is one.
    fn close(&mut self, out: &mut Vec<Object>) {
        match mem::replace(&mut self.open, OpenBlock::None) {
            OpenBlock::None => return,
            OpenBlock::Text | OpenBlock::Thinking { .. } => {}
            OpenBlock::Call { arguments, .. } => self.write_arguments(arguments.finish(), out),
        }
        self.stop(out);
    }

    fn stop(&mut self, out: &mut Vec<Object>) {
        let kind = "content_block_stop".into();
        out.push(object_of([("type", kind), ("index", self.blocks.into())]));
        self.blocks += 1;
    }
}

/// Returns whether a delta is content of the first choice that the API has a form for.
fn is_content(delta: &Delta) -> bool {
    matches!(
        delta,
        Delta::Text { choice: 0, .. }
            | Delta::Reasoning { choice: 0, .. }
            | Delta::ReasoningPart { choice: 0, .. }
            | Delta::ReasoningEnd { choice: 0, .. }
            | Delta::Citation { choice: 0, wire: Wire::Messages, .. }
            | Delta::Call { choice: 0, .. }
    )
}

/// Returns `stop_reason`, `stop_sequence` and, if the model refuses, `stop_details`. `refusal` is the
/// explanation of the refusal; it may be empty.
fn ending(reason: Option<FinishReason>, has_calls: bool, refusal: String) -> Object {
    let mut sequence = Value::Null;
    let reason = match reason {
        Some(FinishReason::Length) => "max_tokens",
        Some(FinishReason::ContentFilter) => "refusal",
        // Also a provider that says `stop` after a call expects its result.
        _ if has_calls => "tool_use",
        Some(FinishReason::StopSequence(text)) => {
            sequence = text.into();
            "stop_sequence"
        }
        _ => "end_turn",
    };
    let mut end = object_of([("stop_reason", reason.into()), ("stop_sequence", sequence)]);
    if reason == "refusal" {
        let explanation = if refusal.is_empty() { Value::Null } else { refusal.into() };
        let details = json!({"type": "refusal", "category": null, "explanation": explanation});
        end.insert("stop_details".to_owned(), details);
    }
    end
}

/// Returns the `usage` of a message. Anthropic's input tokens do not include those of the cache.
fn usage(usage: &Usage) -> Value {
    let reads = usage.cache_reads.unwrap_or_default();
    let writes = usage.cache_writes.unwrap_or_default();
    let mut counts = json!({
        "input_tokens": usage.input.saturating_sub(reads).saturating_sub(writes),
        "cache_creation_input_tokens": writes,
        "cache_read_input_tokens": reads,
        "output_tokens": usage.output,
    });
    if let Some(reasoning) = usage.reasoning {
        counts["output_tokens_details"] = json!({"thinking_tokens": reasoning});
    }
    counts
}

#[cfg(test)]
mod tests;
