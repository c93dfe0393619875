//! One choice of a reply that is being read.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use airlock_json::weight::object_weight;
use serde_json::Value;

use super::{
    super::{
        members::{LOGPROBS, TOOL_CALLS, take_list, take_string},
        reasoning,
    },
    chunk_members, number_calls,
};
use crate::{
    Delta, FinishReason, Object, Reasoning, ReplyError, Seal, Wire, delta::MAX_HELD_BYTES,
    object_of,
};

/// Maximum bytes of the identifier and of the name of a call. Both are kept until the name is complete;
/// longer ones are cut. A provider may send the name in any number of pieces.
const MAX_NAME: usize = 1_024;

/// Members of a choice that are not carried along: those that are read, and a message that repeats the delta.
const READ_OR_DROPPED: [&str; 4] = ["index", "delta", "message", "finish_reason"];

/// State of a choice.
#[derive(Debug, Default)]
pub(super) struct ChoiceReader {
    /// Place of each call, by the `index` of its deltas.
    places: BTreeMap<u64, u64>,
    /// The `index` of the last delta of a call.
    last: Option<u64>,
    /// The call whose name may not be complete.
    open: Option<OpenCall>,
    /// Pieces of a block of thinking whose signature has not come.
    thinking: String,
    /// The [`marks`](reasoning::marks) that were sent.
    marks: BTreeSet<(&'static str, &'static str)>,
    /// True if readable reasoning was sent after the last sealed block.
    has_open_reasoning: bool,
    finish: Option<FinishReason>,
    /// Unknown members that came with the end.
    end_members: Object,
    /// Bytes of all that was kept beyond its chunk.
    kept_bytes: usize,
}

/// A call whose [`Delta::Call`] was not sent: servers send the name in pieces, or after the arguments.
#[derive(Debug, Default)]
struct OpenCall {
    place: u64,
    id: String,
    name: String,
    is_custom: bool,
    input: String,
    extra: Object,
}

/// Members of a delta of a call.
struct CallPiece {
    is_custom: bool,
    name: String,
    input: String,
}

impl ChoiceReader {
    /// Returns the number of calls so far.
    pub(super) fn calls(&self) -> usize {
        self.places.len()
    }

    /// Returns the bytes of all that was kept beyond its chunk so far.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Returns the bytes of the texts that are held now: of the block of thinking whose signature has not come, and the
    /// input of the call whose name has not.
    pub(super) fn text_bytes(&self) -> usize {
        self.thinking.len() + self.open.as_ref().map_or(0, |open| open.input.len())
    }

    /// Reads the choice of a chunk, without its reason of the end. A `message` alone counts as the delta, and a
    /// later end replaces an earlier one.
    pub(super) fn read(
        &mut self,
        number: u64,
        mut choice: Object,
        finish: Option<FinishReason>,
        out: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        let mut delta = match choice.shift_remove("delta") {
            Some(Value::Object(delta)) => delta,
            _ => match choice.shift_remove("message") {
                Some(Value::Object(mut message)) => {
                    number_calls(&mut message);
                    message
                }
                _ => Object::new(),
            },
        };
        delta.retain(|name, value| name != "role" && !value.is_null());
        let calls = take_list(&mut delta, TOOL_CALLS);
        // Any other value would replace the calls that a client has collected.
        delta.shift_remove(TOOL_CALLS);
        let marks = reasoning::marks(&delta).filter(|mark| self.marks.insert(*mark));
        out.extend(marks.map(|(name, mark)| member(number, name, mark.into())));
        let logprobs = choice.shift_remove(LOGPROBS).filter(|logprobs| !logprobs.is_null());
        let logprobs = logprobs.map(|logprobs| member(number, LOGPROBS, logprobs));
        let mut pieces: Vec<_> = logprobs.into_iter().collect();
        self.read_reasoning(number, &mut delta, &mut pieces)?;
        read_text(number, &mut delta, &mut pieces);
        let rest = delta.into_iter();
        pieces.extend(rest.map(|(name, value)| member(number, &name, value)));
        if !pieces.is_empty() {
            self.begin_call(number, out);
            out.append(&mut pieces);
        }
        for call in calls {
            if let Value::Object(call) = call {
                self.read_call(number, call, out)?;
            }
        }
        choice.retain(|name, value| !value.is_null() && !READ_OR_DROPPED.contains(&name.as_str()));
        match finish {
            Some(reason) => self.set_finish(reason, choice),
            None => out.extend(chunk_members(Some(number), choice)),
        }
        Ok(())
    }

    /// Sets the reason of the end, and keeps the members that came with it.
    fn set_finish(&mut self, reason: FinishReason, members: Object) {
        self.finish = Some(reason);
        // Only what is new is weighed: an end may be repeated in every chunk. One that is replaced stays counted.
        self.kept_bytes += if members.is_empty() { 0 } else { object_weight(&members) };
        self.end_members.extend(members);
    }

    /// Ends the choice.
    pub(super) fn finish(&mut self, number: u64, out: &mut Vec<Delta>) {
        self.begin_call(number, out);
        let complete =
            if self.places.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let reason = self.finish.take().unwrap_or(complete);
        out.push(Delta::End { choice: number, reason });
        out.extend(chunk_members(Some(number), mem::take(&mut self.end_members)));
    }

    /// Reads the reasoning of a delta: its text, and the blocks that are complete.
    fn read_reasoning(
        &mut self,
        choice: u64,
        delta: &mut Object,
        out: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        let text = reasoning::take_text(delta);
        let blocks: Vec<_> =
            take_list(delta, reasoning::BLOCKS).into_iter().map(reasoning::read_block).collect();
        let has_text = text.is_some();
        // A whole message has the text of all blocks and the blocks. Each block then comes with its own.
        if let Some(text) = text.filter(|text| !is_text_of(text, &blocks)) {
            self.has_open_reasoning = true;
            out.push(Delta::Reasoning { choice, text });
        }
        for block in blocks {
            match block {
                Ok(block) if block.seal.is_some() => self.end_block(choice, block, out),
                Ok(piece) => self.add_piece(choice, piece.text, has_text, out)?,
                Err(other) => out.push(member(choice, reasoning::BLOCKS, vec![other].into())),
            }
        }
        match reasoning::read_details(take_list(delta, reasoning::DETAILS)) {
            Ok(items) => {
                self.has_open_reasoning = false;
                let ends = items.into_iter();
                out.extend(ends.map(|reasoning| Delta::ReasoningEnd { choice, reasoning }));
            }
            Err(details) if details.is_empty() => {}
            Err(details) => out.push(member(choice, reasoning::DETAILS, details.into())),
        }
        Ok(())
    }

    /// Adds a piece of a block of thinking. `LiteLLM` sends each with an empty signature, and with the
    /// readable reasoning beside it.
    fn add_piece(
        &mut self,
        choice: u64,
        text: String,
        is_shown: bool,
        out: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        if self.thinking.len() + text.len() > MAX_HELD_BYTES {
            let what = "a block of thinking of excessive length";
            return Err(ReplyError::Invalid { what });
        }
        self.kept_bytes += text.len();
        self.thinking.push_str(&text);
        if !is_shown && !text.is_empty() {
            self.has_open_reasoning = true;
            out.push(Delta::Reasoning { choice, text });
        }
        Ok(())
    }

    /// Ends a block of thinking. Its text is sent before, unless it was.
    fn end_block(&mut self, choice: u64, mut reasoning: Reasoning, out: &mut Vec<Delta>) {
        if matches!(reasoning.seal, Some(Seal::Signature(_))) {
            let pieces = mem::take(&mut self.thinking);
            if reasoning.text.is_empty() {
                reasoning.text = pieces;
            }
            if !self.has_open_reasoning && !reasoning.text.is_empty() {
                out.push(Delta::Reasoning { choice, text: reasoning.text.clone() });
            }
            self.has_open_reasoning = false;
        }
        out.push(Delta::ReasoningEnd { choice, reasoning });
    }

    fn read_call(
        &mut self,
        choice: u64,
        mut call: Object,
        out: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        let index = call.shift_remove("index").and_then(|index| index.as_u64());
        let id = take_string(&mut call, "id").unwrap_or_default();
        let CallPiece { is_custom, name, input } = CallPiece::take(&mut call);
        let index = index.unwrap_or_else(|| self.index_without(&id, &name));
        // Those that are left are no texts, and would replace the right ones.
        call.retain(|key, value| !value.is_null() && !matches!(key.as_str(), "id" | "type"));
        // A client may take either for the call.
        if call.contains_key("function") {
            return Err(ReplyError::Invalid { what: "a tool call of two types" });
        }
        self.last = Some(index);
        let place = self.place_of(choice, index, out);
        let Some(open) = self.open.as_mut().filter(|open| open.place == place) else {
            out.extend(later_pieces(choice, place, input, call));
            return Ok(());
        };
        open.is_custom |= is_custom;
        if !call.is_empty() {
            self.kept_bytes += object_weight(&call);
            open.extra.extend(call);
        }
        open.add_name(id, &name);
        if input.is_empty() {
            return Ok(());
        }
        if open.name.is_empty() {
            self.kept_bytes += input.len();
            return open.add_input(&input);
        }
        self.begin_call(choice, out);
        out.push(Delta::Arguments { choice, index: place, text: input });
        Ok(())
    }

    /// Returns the place of a call. A new one is open until its name is complete.
    fn place_of(&mut self, choice: u64, index: u64, out: &mut Vec<Delta>) -> u64 {
        if let Some(place) = self.places.get(&index) {
            return *place;
        }
        self.begin_call(choice, out);
        let place = self.places.len() as u64;
        self.places.insert(index, place);
        self.open = Some(OpenCall { place, ..OpenCall::default() });
        place
    }

    /// Returns the `index` of a delta without one: that of the last call, unless the delta has an identifier,
    /// or a name although that of the last call is complete.
    fn index_without(&self, id: &str, name: &str) -> u64 {
        let is_next = !id.is_empty() || (!name.is_empty() && self.open.is_none());
        match self.last {
            None => 0,
            Some(last) if is_next => last.saturating_add(1),
            Some(last) => last,
        }
    }

    /// Sends the beginning of the open call: its name is complete.
    fn begin_call(&mut self, choice: u64, out: &mut Vec<Delta>) {
        let Some(open) = self.open.take() else { return };
        let OpenCall { place: index, id, name, is_custom, input, extra } = open;
        out.push(Delta::Call { choice, index, id, name, is_custom, extra });
        if !input.is_empty() {
            out.push(Delta::Arguments { choice, index, text: input });
        }
    }
}

impl CallPiece {
    fn take(call: &mut Object) -> Self {
        let has_custom_type = take_string(call, "type").is_some_and(|kind| kind == "custom");
        let is_custom = has_custom_type || call.get("custom").is_some_and(Value::is_object);
        let (body, input) = if is_custom { ("custom", "input") } else { ("function", "arguments") };
        let mut body = match call.shift_remove(body) {
            Some(Value::Object(body)) => body,
            _ => Object::new(),
        };
        let name = take_string(&mut body, "name").unwrap_or_default();
        let input = match body.shift_remove(input) {
            Some(Value::String(text)) => text,
            None | Some(Value::Null) => String::new(),
            // Ollama sends an object.
            Some(other) => other.to_string(),
        };
        Self { is_custom, name, input }
    }
}

impl OpenCall {
    /// Adds a piece of the name. One that equals the name so far repeats it (NIM); another continues it
    /// (Gemini). The first identifier stays, because `LiteLLM` sends a new one in every delta. No call is
    /// refused for a long name: its round may have run others.
    fn add_name(&mut self, id: String, name: &str) {
        if self.id.is_empty() {
            self.id = id;
        }
        if self.name != name {
            self.name.push_str(name);
        }
        for text in [&mut self.id, &mut self.name] {
            if text.len() > MAX_NAME {
                text.truncate(text.floor_char_boundary(MAX_NAME));
                text.shrink_to_fit();
            }
        }
    }

    /// Keeps a piece of the input, until the name comes.
    fn add_input(&mut self, input: &str) -> Result<(), ReplyError> {
        if self.input.len() + input.len() > MAX_HELD_BYTES {
            return Err(ReplyError::Invalid { what: "a tool call without a name" });
        }
        self.input.push_str(input);
        Ok(())
    }
}

/// Returns the pieces of a call that has begun. A piece of its name comes too late.
fn later_pieces(choice: u64, index: u64, input: String, extra: Object) -> Vec<Delta> {
    let mut pieces = Vec::new();
    if !input.is_empty() {
        pieces.push(Delta::Arguments { choice, index, text: input });
    }
    if !extra.is_empty() {
        let mut call = object_of([("index", index.into())]);
        call.extend(extra);
        pieces.push(member(choice, TOOL_CALLS, vec![Value::Object(call)].into()));
    }
    pieces
}

/// Returns whether a text is that of these blocks, of which one has a seal.
fn is_text_of(text: &str, blocks: &[Result<Reasoning, Value>]) -> bool {
    let mut rest = text;
    let mut is_sealed = false;
    for block in blocks.iter().filter_map(|block| block.as_ref().ok()) {
        let Some(after) = rest.strip_prefix(block.text.as_str()) else { return false };
        is_sealed |= block.seal.is_some();
        rest = after;
    }
    is_sealed && rest.is_empty()
}

/// Reads the text of a delta, its refusal and the sources.
fn read_text(choice: u64, delta: &mut Object, out: &mut Vec<Delta>) {
    match take_string(delta, "content") {
        Some(text) if !text.is_empty() => out.push(Delta::Text { choice, text }),
        _ => {
            let parts = take_list(delta, "content").into_iter();
            parts.for_each(|part| read_part(choice, part, out));
        }
    }
    let refusal = take_string(delta, "refusal").filter(|text| !text.is_empty());
    out.extend(refusal.map(|text| Delta::Refusal { choice, text }));
    // Anthropic's sources have an index for the clients that merge lists by it.
    for (name, wire) in [("annotations", Wire::Chat), ("citations", Wire::Messages)] {
        for source in take_list(delta, name) {
            out.push(match source {
                Value::Object(mut citation)
                    if citation.get("type").is_some_and(Value::is_string) =>
                {
                    if wire == Wire::Messages {
                        citation.shift_remove("index");
                    }
                    Delta::Citation { choice, wire, citation }
                }
                other => member(choice, name, vec![other].into()),
            });
        }
    }
}

/// Reads a content part. Mistral streams text and thinking in parts.
fn read_part(choice: u64, mut part: Value, out: &mut Vec<Delta>) {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match (kind == reasoning::THINKING, part.as_object_mut()) {
        (true, Some(thinking)) => {
            for piece in take_list(thinking, reasoning::THINKING) {
                let text = piece.get("text").and_then(Value::as_str).unwrap_or_default();
                if !text.is_empty() {
                    out.push(Delta::Reasoning { choice, text: text.to_owned() });
                }
            }
        }
        (false, Some(part)) if part.get("type").is_some_and(|kind| kind == "text") => {
            let text = take_string(part, "text").filter(|text| !text.is_empty());
            out.extend(text.map(|text| Delta::Text { choice, text }));
        }
        _ => out.push(member(choice, "content", vec![part].into())),
    }
}

fn member(choice: u64, name: &str, value: Value) -> Delta {
    Delta::Member { choice, wire: Wire::Chat, name: name.to_owned(), value }
}
