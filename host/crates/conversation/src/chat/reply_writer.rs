//! Deltas → chunks of a chat completion, and a whole one.

mod whole;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use serde_json::{Value, json};

pub use self::whole::{join_member, write_message, write_reply};
use super::{
    members::{LOGPROBS, TOOL_CALLS},
    reasoning, usage,
};
use crate::{
    Begin, Delta, FinishReason, Object, Reasoning, Seal, Usage, UsageChunk, Wire, object_of,
};

/// Writes a reply as chunks.
#[derive(Debug)]
pub struct ChunkWriter {
    created: u64,
    includes_usage: bool,
    id: String,
    model: String,
    /// Members of the first chunk.
    extra: Object,
    /// Tier of service that was used, once it is known.
    service_tier: Option<String>,
    /// Boxed: a map has room for eleven, and most replies have one choice.
    choices: BTreeMap<u64, Box<ChoiceWriter>>,
    /// Tokens that were counted before the choices ended. Boxed: a stream would have room for them from its beginning.
    usage: Option<Box<Usage>>,
}

/// State of one choice.
#[derive(Debug, Default)]
struct ChoiceWriter {
    blocks: usize,
    details: usize,
    citations: usize,
    /// Places of the calls of custom tools.
    custom: BTreeSet<u64>,
    /// Log probabilities of the next text.
    logprobs: Option<Value>,
    /// True if reasoning has its less common name.
    has_short_name: bool,
    /// True if a part of the reasoning has begun.
    has_part: bool,
    has_ended: bool,
}

impl ChunkWriter {
    /// Creates the writer of a reply that began at `created`, in seconds since 1970, unless the reply
    /// itself says when. `includes_usage` is the one of the request's `stream_options`: it adds a last
    /// chunk without choices.
    pub fn new(created: u64, includes_usage: bool) -> Self {
        Self {
            created,
            includes_usage,
            id: String::new(),
            model: String::new(),
            extra: Object::new(),
            service_tier: None,
            choices: BTreeMap::new(),
            usage: None,
        }
    }

    /// Writes a delta. Appends the chunks that it becomes to `out`, which has those of the deltas that came
    /// with it. The first chunk of a choice has its role. Members of other APIs are left out.
    pub fn delta(&mut self, delta: Delta, out: &mut Vec<Object>) {
        match delta {
            Delta::Begin(begin) => self.begin(begin, out),
            Delta::Text { choice, text } => {
                self.write(choice, object_of([("content", text.into())]), out);
            }
            Delta::Refusal { choice, text } => {
                self.write(choice, object_of([("refusal", text.into())]), out);
            }
            Delta::Reasoning { choice, text } => {
                self.write_reasoning(choice, text, out);
            }
            Delta::ReasoningPart { choice, .. } => {
                let state = self.choice(choice, out);
                if mem::replace(&mut state.has_part, true) {
                    self.write_reasoning(choice, reasoning::SEPARATOR.to_owned(), out);
                }
            }
            Delta::ReasoningEnd { choice, reasoning } => self.end_block(choice, reasoning, out),
            Delta::Citation { choice, wire, citation } => {
                let state = self.choice(choice, out);
                let delta = match wire {
                    Wire::Messages => element("citations", next(&mut state.citations), citation),
                    _ => object_of([("annotations", vec![annotation(wire, citation)].into())]),
                };
                self.write(choice, delta, out);
            }
            Delta::Call { choice, index, id, name, is_custom, extra } => {
                let state = self.choice(choice, out);
                if is_custom {
                    state.custom.insert(index);
                }
                self.write(
                    choice,
                    element(TOOL_CALLS, index, call(id, &name, is_custom, extra)),
                    out,
                );
            }
            Delta::Arguments { choice, index, text } => {
                let is_custom = self.choice(choice, out).custom.contains(&index);
                let (kind, input) = body_of(is_custom);
                let body = object_of([(input, text.into())]);
                self.write(
                    choice,
                    element(TOOL_CALLS, index, object_of([(kind, body.into())])),
                    out,
                );
            }
            Delta::Member { choice, wire: Wire::Chat, name, value } => {
                self.member(choice, name, value, out);
            }
            Delta::ChunkMember { choice, name, value } => {
                self.chunk_member(choice, name, value, out);
            }
            // Its pieces were written.
            Delta::Member { .. } | Delta::ItemEnd { .. } => {}
            Delta::ServiceTier(tier) => self.service_tier = Some(tier),
            Delta::End { choice, reason } => self.end(choice, reason, out),
            Delta::Usage(usage) => {
                self.usage = Some(Box::new(usage));
                self.write_usage(out);
            }
        }
    }

    /// Returns a chunk of the first choice without content.
    pub fn empty(&self) -> Object {
        let choice = json!({"index": 0, "delta": {}, "finish_reason": null});
        self.frame(vec![choice])
    }

    /// Notes that a choice has begun, in a chunk that was not written here.
    pub fn note_choice(&mut self, number: u64) {
        self.choices.entry(number).or_default();
    }

    fn begin(&mut self, begin: Begin, out: &mut Vec<Object>) {
        let Begin { id, model, created, extra } = begin;
        self.id = id;
        self.model = model;
        self.extra = extra;
        if created != 0 {
            self.created = created;
        }
        self.choice(0, out);
    }

    /// Returns the state of a choice. Writes the role before its first delta.
    fn choice(&mut self, number: u64, out: &mut Vec<Object>) -> &mut ChoiceWriter {
        if !self.choices.contains_key(&number) {
            let role = [("role", "assistant".into()), ("content", Value::Null)];
            let mut chunk = self.chunk(number, object_of(role), None, None);
            chunk.extend(mem::take(&mut self.extra));
            out.push(chunk);
        }
        self.choices.entry(number).or_default()
    }

    /// Adds an unknown member to the last chunk in `out`, or to its choice. If the chunk is of another choice, or
    /// if there is none, an empty chunk is written for it: one without choices before the reply has begun, as Azure sends it.
    fn chunk_member(
        &mut self,
        choice: Option<u64>,
        name: String,
        value: Value,
        out: &mut Vec<Object>,
    ) {
        let Some(number) = choice else {
            if out.is_empty() {
                let has_begun = !self.choices.is_empty();
                out.push(if has_begun { self.empty() } else { self.frame(Vec::new()) });
            }
            if let Some(chunk) = out.last_mut() {
                chunk.insert(name, value);
            }
            return;
        };
        if last_of(number, out).is_none() {
            self.write(number, Object::new(), out);
        }
        if let Some(choice) = last_of(number, out) {
            choice.insert(name, value);
        }
    }

    fn write(&mut self, choice: u64, delta: Object, out: &mut Vec<Object>) {
        let logprobs = self.choice(choice, out).logprobs.take();
        out.push(self.chunk(choice, delta, logprobs, None));
    }

    fn end_block(&mut self, choice: u64, reasoning: Reasoning, out: &mut Vec<Object>) {
        let state = self.choice(choice, out);
        let delta = if matches!(reasoning.seal, Some(Seal::Encrypted(_))) {
            let mut details = Vec::new();
            reasoning::write_details(reasoning, &mut details, state.details);
            state.details += details.len();
            object_of([(reasoning::DETAILS, details.into())])
        } else {
            let Some(block) = reasoning::write_block(reasoning) else { return };
            element(reasoning::BLOCKS, next(&mut state.blocks), block)
        };
        self.write(choice, delta, out);
    }

    fn write_reasoning(&mut self, choice: u64, text: String, out: &mut Vec<Object>) {
        let name = reasoning::name(self.choice(choice, out).has_short_name);
        self.write(choice, object_of([(name, text.into())]), out);
    }

    /// Writes a member. Log probabilities wait for their text, and of the marks only the name of reasoning
    /// counts.
    fn member(&mut self, choice: u64, name: String, value: Value, out: &mut Vec<Object>) {
        if reasoning::is_mark(&name, &value) {
            if name == reasoning::SHORT {
                self.choice(choice, out).has_short_name = true;
            }
            return;
        }
        if name != LOGPROBS {
            if name == reasoning::DETAILS {
                let state = self.choice(choice, out);
                state.details = state.details.max(reasoning::next_index(&value));
            }
            self.write(choice, Object::from_iter([(name, value)]), out);
            return;
        }
        if self.choice(choice, out).logprobs.is_some() {
            self.write(choice, Object::new(), out);
        }
        self.choice(choice, out).logprobs = Some(value);
    }

    fn end(&mut self, choice: u64, reason: FinishReason, out: &mut Vec<Object>) {
        let state = self.choice(choice, out);
        state.has_ended = true;
        let logprobs = state.logprobs.take();
        out.push(self.chunk(choice, Object::new(), logprobs, Some(reason)));
        self.write_usage(out);
    }

    /// Writes the tokens, once all choices have ended. Those that were not asked for are in the chunk in which
    /// they would be if the chunks were passed on.
    fn write_usage(&mut self, out: &mut Vec<Object>) {
        let has_ended =
            !self.choices.is_empty() && self.choices.values().all(|choice| choice.has_ended);
        let Some(usage) =
            self.usage.take_if(|usage| has_ended && (self.includes_usage || usage.chunk.is_some()))
        else {
            return;
        };
        let is_alone = self.includes_usage || usage.chunk == Some(UsageChunk::Own);
        if is_alone || out.is_empty() {
            out.push(self.frame(Vec::new()));
        }
        let last = out.last_mut().expect("there is a chunk");
        last.insert("usage".to_owned(), usage::write(*usage).into());
    }

    fn chunk(
        &self,
        number: u64,
        delta: Object,
        logprobs: Option<Value>,
        finish: Option<FinishReason>,
    ) -> Object {
        let mut choice = object_of([
            ("index", number.into()),
            ("delta", delta.into()),
            (LOGPROBS, logprobs.into()),
        ]);
        add_finish(&mut choice, finish);
        self.frame(vec![choice.into()])
    }

    fn frame(&self, choices: Vec<Value>) -> Object {
        let mut chunk = object_of([
            ("id", self.id.as_str().into()),
            ("object", "chat.completion.chunk".into()),
            ("created", self.created.into()),
            ("model", self.model.as_str().into()),
            ("choices", choices.into()),
        ]);
        if let Some(tier) = &self.service_tier {
            chunk.insert("service_tier".to_owned(), tier.as_str().into());
        }
        // OpenAI's reference: with `include_usage`, all other chunks have a usage of null.
        if self.includes_usage {
            chunk.insert("usage".to_owned(), Value::Null);
        }
        chunk
    }
}

/// Returns the choice of the last chunk; `None` if it is another one. Earlier chunks are not searched, because
/// they can be many.
fn last_of(number: u64, chunks: &mut [Object]) -> Option<&mut Object> {
    let choice = chunks.last_mut()?.get_mut("choices")?.get_mut(0)?.as_object_mut()?;
    choice.get("index").is_some_and(|index| *index == number).then_some(choice)
}

/// Adds the reason of the end to a choice.
fn add_finish(choice: &mut Object, finish: Option<FinishReason>) {
    let mut stop = None;
    let reason = match finish {
        None => Value::Null,
        Some(FinishReason::Stop) => "stop".into(),
        Some(FinishReason::StopSequence(text)) => {
            stop = Some(text);
            "stop".into()
        }
        Some(FinishReason::Length) => "length".into(),
        Some(FinishReason::ToolCalls) => "tool_calls".into(),
        Some(FinishReason::ContentFilter) => "content_filter".into(),
        Some(FinishReason::Other(reason)) => reason.into(),
    };
    choice.insert("finish_reason".to_owned(), reason);
    choice.extend(stop.map(|text| ("stop_reason".to_owned(), text.into())));
}

/// Returns a call without its place. Its input is empty.
fn call(id: String, name: &str, is_custom: bool, extra: Object) -> Object {
    let (kind, input) = body_of(is_custom);
    let mut call = object_of([
        ("id", id.into()),
        ("type", kind.into()),
        (kind, json!({"name": name, input: ""})),
    ]);
    call.extend(extra);
    call
}

/// Returns the names of the body of a call and of its input.
fn body_of(is_custom: bool) -> (&'static str, &'static str) {
    if is_custom { ("custom", "input") } else { ("function", "arguments") }
}

/// Returns a source as chat has it. Chat keeps the members of one of the Responses API in an object that is
/// named after its type.
fn annotation(wire: Wire, mut source: Object) -> Value {
    if wire == Wire::Responses
        && let Some(Value::String(kind)) = source.shift_remove("type")
    {
        let kind_of = ("type".to_owned(), kind.as_str().into());
        source = Object::from_iter([kind_of, (kind, source.into())]);
    }
    source.into()
}

/// Returns a delta that has one element of a list.
fn element(list: &str, index: impl Into<Value>, element: Object) -> Object {
    let mut indexed = object_of([("index", index.into())]);
    indexed.extend(element.into_iter().filter(|(name, _)| name != "index"));
    object_of([(list, vec![Value::Object(indexed)].into())])
}

/// Returns a count, and increases it.
fn next(count: &mut usize) -> usize {
    *count += 1;
    *count - 1
}

#[cfg(test)]
mod tests;
