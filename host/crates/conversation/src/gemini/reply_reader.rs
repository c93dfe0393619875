//! Responses of `generateContent` and `streamGenerateContent` → deltas.
//!
//! An event of a stream has the form of a whole response with a piece of each candidate. A candidate can
//! have a `finishReason` in every event, so it ends with the reply. Parts of types that are not known
//! are ignored: those of tools that run at the provider, which the gateway does not offer, and media,
//! for which chat has no form.

mod outcome;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use serde_json::Value;

use self::outcome::TokenCounts;
use super::{
    THOUGHT_SIGNATURE,
    error::{read_error, reported},
    object_of,
};
use crate::{
    Begin, Delta, FinishReason, Object, ReplyError, Wire,
    delta::{MAX_NAME_BYTES, MAX_PIECES, invalid},
    thought_signature::{self, EXTRA_CONTENT},
};

/// Maximum number of candidates of a reply, as of the choices that OpenAI's API takes. Gemini's maximum is 8. Each
/// keeps a state until the reply ends, and a provider may number them as it likes.
const MAX_CANDIDATES: usize = 128;

/// Members of a candidate that describe the sources of its text. Chat has no form for them.
const SOURCES: [&str; 3] = ["citationMetadata", "groundingMetadata", "urlContextMetadata"];

/// Reads a reply, which is one response or a stream of them. Its size does not grow with the reply.
#[derive(Debug, Default)]
pub struct ReplyReader {
    has_begun: bool,
    candidates: BTreeMap<u64, Candidate>,
    tokens: TokenCounts,
    /// The tier of service, until the reply has begun.
    tier: Option<String>,
}

/// State of a candidate.
#[derive(Debug, Default)]
struct Candidate {
    calls: u64,
    /// True if the signature of its text was read. A later one is left out, because clients join the
    /// pieces of a member.
    is_signed: bool,
    finish: Option<FinishReason>,
}

/// Parts and tokens that the candidates of one response may still have.
struct PieceAllowance {
    parts: usize,
    tokens: usize,
}

impl ReplyReader {
    /// Creates a reader of a reply with this tier of service, in the words of OpenAI's API: the head of the response has
    /// it, and not the body.
    pub fn with_tier(tier: Option<String>) -> Self {
        Self { tier, ..Self::default() }
    }

    /// Reads a response, or one event of a stream. Fails if it reports an error, or if a candidate
    /// failed.
    pub fn response(&mut self, mut response: Object) -> Result<Vec<Delta>, ReplyError> {
        if let Some(error) = read_error(&response) {
            return Err(error);
        }
        let mut deltas = Vec::new();
        if !self.has_begun {
            deltas.push(Delta::Begin(begin(&mut response)?));
            deltas.extend(self.tier.take().map(Delta::ServiceTier));
            self.has_begun = true;
        }
        self.tokens.update(response.get("usageMetadata"));
        let mut left = PieceAllowance { parts: MAX_PIECES, tokens: MAX_PIECES };
        let mut seen = BTreeSet::new();
        for (position, candidate) in take_list(&mut response, "candidates").into_iter().enumerate()
        {
            let Value::Object(candidate) = candidate else {
                return Err(invalid("a candidate that is not an object"));
            };
            let index = candidate.get("index").and_then(Value::as_u64);
            let choice = index.unwrap_or(position as u64);
            if !seen.insert(choice) {
                return Err(invalid("two candidates with the same index"));
            }
            let mut open = self.candidates.remove(&choice).unwrap_or_default();
            if self.candidates.len() >= MAX_CANDIDATES {
                return Err(invalid("more candidates than the gateway accepts"));
            }
            open.read(choice, candidate, &mut left, &mut deltas)?;
            self.candidates.insert(choice, open);
        }
        if self.candidates.is_empty()
            && let Some(why) = outcome::block_reason(&response)
        {
            let finish = Some(FinishReason::ContentFilter);
            self.candidates.insert(0, Candidate { finish, ..Candidate::default() });
            deltas.push(Delta::Refusal { choice: 0, text: why });
        }
        Ok(deltas)
    }

    /// Ends the reply. Fails if it is not complete: a call that was cut off must not be run.
    pub fn finish(&mut self) -> Result<Vec<Delta>, ReplyError> {
        if self.candidates.is_empty() {
            return Err(invalid("a response without candidates"));
        }
        let mut deltas = Vec::with_capacity(self.candidates.len() + 1);
        for (choice, candidate) in mem::take(&mut self.candidates) {
            let reason = match candidate.finish {
                None => return Err(invalid("a response that ended before it was complete")),
                Some(FinishReason::Stop) if candidate.calls > 0 => FinishReason::ToolCalls,
                Some(reason) => reason,
            };
            deltas.push(Delta::End { choice, reason });
        }
        deltas.extend(self.tokens.to_usage().map(Delta::Usage));
        Ok(deltas)
    }
}

impl Candidate {
    fn read(
        &mut self,
        choice: u64,
        mut candidate: Object,
        left: &mut PieceAllowance,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        if let Some(probabilities) = candidate.shift_remove("logprobsResult") {
            let value = outcome::logprobs(&probabilities, &mut left.tokens);
            deltas.extend(value.map(|value| member(choice, Wire::Chat, "logprobs", value)));
        }
        let mut content = match candidate.shift_remove("content") {
            Some(Value::Object(content)) => content,
            _ => Object::new(),
        };
        for part in take_list(&mut content, "parts") {
            left.parts = left
                .parts
                .checked_sub(1)
                .ok_or_else(|| invalid("a response with more parts than the gateway accepts"))?;
            let Value::Object(part) = part else {
                return Err(invalid("a part that is not an object"));
            };
            self.read_part(choice, part, deltas)?;
        }
        for name in SOURCES {
            let value = candidate.shift_remove(name).filter(|value| !value.is_null());
            deltas.extend(value.map(|value| member(choice, Wire::Gemini, name, value)));
        }
        self.read_finish(choice, &mut candidate, deltas)
    }

    fn read_part(
        &mut self,
        choice: u64,
        mut part: Object,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        let signature = part.shift_remove(THOUGHT_SIGNATURE);
        let signature =
            signature.filter(|value| value.as_str().is_some_and(|text| !text.is_empty()));
        if let Some(Value::Object(call)) = part.shift_remove("functionCall") {
            return self.read_call(choice, call, signature, deltas);
        }
        let is_thought = part.get("thought").is_some_and(|thought| *thought == true);
        let text = take_text(&mut part, "text");
        if is_thought {
            deltas.extend(text.map(|text| Delta::Reasoning { choice, text }));
            return Ok(());
        }
        deltas.extend(text.map(|text| Delta::Text { choice, text }));
        if let Some(signature) = signature.filter(|_| !self.is_signed) {
            self.is_signed = true;
            deltas.push(member(
                choice,
                Wire::Chat,
                EXTRA_CONTENT,
                thought_signature::write(signature),
            ));
        }
        Ok(())
    }

    fn read_call(
        &mut self,
        choice: u64,
        mut call: Object,
        signature: Option<Value>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        // Arguments in pieces are an option of `toolConfig` that only Vertex AI has.
        if call.contains_key("partialArgs") || call.get("willContinue") == Some(&true.into()) {
            return Err(invalid("a function call in pieces"));
        }
        let index = self.calls;
        self.calls += 1;
        let id = take_text(&mut call, "id").unwrap_or_default();
        let name = take_text(&mut call, "name").unwrap_or_default();
        let extra = signature.map(|signature| (EXTRA_CONTENT, thought_signature::write(signature)));
        let extra = extra.map_or_else(Object::new, |member| object_of([member]));
        deltas.push(Delta::Call { choice, index, id, name, is_custom: false, extra });
        let text = match call.shift_remove("args") {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(args) => args.to_string(),
        };
        deltas.push(Delta::Arguments { choice, index, text });
        Ok(())
    }

    fn read_finish(
        &mut self,
        choice: u64,
        candidate: &mut Object,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        let Some(native) = take_text(candidate, "finishReason") else { return Ok(()) };
        let message = take_text(candidate, "finishMessage");
        if let Some(status) = outcome::failure(&native) {
            let message = message.unwrap_or_else(|| format!("the model's reply failed: {native}"));
            return Err(reported(&message, "server_error", &native, status));
        }
        let Some(reason) = outcome::finish_reason(&native) else { return Ok(()) };
        let is_first = self.finish.is_none();
        if let (FinishReason::ContentFilter, true, Some(text)) = (&reason, is_first, message) {
            deltas.push(Delta::Refusal { choice, text });
        }
        self.finish = Some(reason);
        Ok(())
    }
}

fn begin(response: &mut Object) -> Result<Begin, ReplyError> {
    let id = take_text(response, "responseId").unwrap_or_default();
    let model = take_text(response, "modelVersion").unwrap_or_default();
    if id.len().max(model.len()) > MAX_NAME_BYTES {
        return Err(invalid("a response with an id or model of excessive length"));
    }
    Ok(Begin { id, model, ..Begin::default() })
}

fn member(choice: u64, wire: Wire, name: &str, value: Value) -> Delta {
    Delta::Member { choice, wire, name: name.to_owned(), value }
}

/// Takes a text; `None` if it is absent or empty.
fn take_text(object: &mut Object, name: &str) -> Option<String> {
    match object.shift_remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Takes a list; an empty one if it is absent.
fn take_list(object: &mut Object, name: &str) -> Vec<Value> {
    match object.shift_remove(name) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
