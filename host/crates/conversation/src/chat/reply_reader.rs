//! Chunks of a chat completion → deltas.

mod choice;

use std::{collections::BTreeMap, mem};

use airlock_json::weight::object_weight;
use airlock_strings::{MAX_WORD_BYTES, cut};
use serde_json::Value;

use self::choice::ChoiceReader;
use super::{
    members::{TOOL_CALLS, take_list, take_string},
    usage,
};
use crate::{
    Begin, Delta, FinishReason, Object, ReplyError, Usage, UsageChunk,
    delta::{MAX_CHOICES, MAX_NAME_BYTES, MAX_PIECES, MAX_REPLY_HELD_BYTES},
    object_of,
    thought_signature::EXTRA_CONTENT,
};

/// Maximum bytes of a text of `stop` that ended a choice. It is kept for each choice: 1 MiB for the most choices.
const MAX_SEQUENCE: usize = 1_024;
/// Members of a chunk that are not carried along: those that are read, its type, and padding that hides the
/// length of the text.
const READ_OR_DROPPED: [&str; 7] =
    ["id", "model", "created", "choices", "usage", "object", "obfuscation"];
/// Status of an error that has none, because the reply itself has the status 200.
const BAD_GATEWAY: u16 = 502;

/// Reads a reply in chunks.
///
/// It is read like the gateway's other readers of chunks: the first `id`, `model` and `created` that are not
/// empty count, the last `usage` and the last `finish_reason`, and a `message` beside a `delta` repeats it.
/// Members of chunks and choices that it does not know are [`Delta::ChunkMember`]s; those of the first chunk
/// with a choice are in [`Begin`], and those beside a `finish_reason` follow the end.
/// The `index` of a call is what tells it from the others; chunks of servers that do without it are repaired
/// before.
#[derive(Debug, Default)]
pub struct ReplyReader {
    begin: Begin,
    has_begun: bool,
    choices: BTreeMap<u64, ChoiceReader>,
    /// Calls so far, of all choices.
    calls: usize,
    usage: Option<Usage>,
    kept_bytes: usize,
    /// Bytes of the texts of all choices that are held now, see [`ChoiceReader::text_bytes`].
    text_bytes: usize,
}

impl ReplyReader {
    /// Returns the bytes of all that was kept beyond its chunk so far. It never decreases.
    pub fn held_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Reads a chunk. Fails if it reports an error, or if the chunk has more pieces or the reply more
    /// choices, calls or text to be held than the gateway accepts.
    pub fn chunk(&mut self, mut chunk: Object) -> Result<Vec<Delta>, ReplyError> {
        if let Some(error) = take_error(&mut chunk) {
            return Err(error);
        }
        if pieces(&chunk) > MAX_PIECES {
            return Err(ReplyError::Invalid { what: "more pieces than the gateway accepts" });
        }
        let choices = take_list(&mut chunk, "choices");
        if choices.len() > MAX_CHOICES {
            return Err(ReplyError::Invalid { what: "more choices than the gateway accepts" });
        }
        if let Some(Value::Object(usage)) = chunk.shift_remove("usage")
            && !usage.is_empty()
        {
            let mut usage = usage::read(usage);
            let is_alone = choices.is_empty();
            usage.chunk = Some(if is_alone { UsageChunk::Own } else { UsageChunk::OfChoices });
            let before = self.usage.as_ref().map_or(0, |usage| object_weight(&usage.extra));
            self.kept_bytes += object_weight(&usage.extra).saturating_sub(before);
            self.usage = Some(usage);
        }
        let mut out = Vec::new();
        let choices = choices.into_iter().filter_map(|choice| match choice {
            Value::Object(choice) => Some(choice),
            _ => None,
        });
        let mut choices = choices.enumerate().peekable();
        let members = self.read_head(chunk, choices.peek().is_some(), &mut out);
        for (position, choice) in choices {
            self.read_choice(position, choice, &mut out)?;
        }
        out.extend(chunk_members(None, members));
        Ok(out)
    }

    /// Ends the reply. Returns the ends of the choices, and the tokens if the provider counted them. A
    /// choice without a reason ends as if it were complete: whether the stream was cut is known to the
    /// reader of the stream. Fails if there was no choice.
    pub fn finish(&mut self) -> Result<Vec<Delta>, ReplyError> {
        if self.choices.is_empty() {
            return Err(ReplyError::Invalid { what: "a reply without choices" });
        }
        let mut out = Vec::new();
        for (number, mut choice) in mem::take(&mut self.choices) {
            choice.finish(number, &mut out);
        }
        out.extend(self.usage.take().map(Delta::Usage));
        Ok(out)
    }

    /// Reads a reply that was not streamed, and ends it.
    pub fn whole(&mut self, mut completion: Object) -> Result<Vec<Delta>, ReplyError> {
        drop_deltas(&mut completion);
        let mut deltas = self.chunk(completion)?;
        if let Some(usage) = &mut self.usage {
            usage.chunk = None;
        }
        deltas.append(&mut self.finish()?);
        Ok(deltas)
    }

    /// Reads the members of the whole reply. It begins with the first choice: Azure sends a chunk without
    /// any before, whose head is empty. Returns the unknown members of any other chunk.
    fn read_head(&mut self, mut chunk: Object, begins: bool, out: &mut Vec<Delta>) -> Object {
        if self.has_begun {
            chunk.retain(|name, value| is_unknown(name, value));
            return chunk;
        }
        for (name, text) in [("id", &mut self.begin.id), ("model", &mut self.begin.model)] {
            let found = take_string(&mut chunk, name).filter(|found| found.len() <= MAX_NAME_BYTES);
            if text.is_empty() {
                *text = found.unwrap_or_default();
            }
        }
        let created = chunk.shift_remove("created").and_then(|created| created.as_u64());
        if self.begin.created == 0 {
            self.begin.created = created.unwrap_or_default();
        }
        chunk.retain(|name, value| is_unknown(name, value));
        if begins {
            self.has_begun = true;
            self.begin.extra = mem::take(&mut chunk);
            out.push(Delta::Begin(mem::take(&mut self.begin)));
        }
        chunk
    }

    fn read_choice(
        &mut self,
        position: usize,
        mut choice: Object,
        out: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        let number = choice.get("index").and_then(Value::as_u64).unwrap_or(position as u64);
        if self.choices.len() == MAX_CHOICES && !self.choices.contains_key(&number) {
            return Err(ReplyError::Invalid { what: "more choices than the gateway accepts" });
        }
        let reader = self.choices.entry(number).or_default();
        let reason = finish_reason(&mut choice);
        let calls = reader.calls();
        let bytes = reader.kept_bytes();
        let text = reader.text_bytes();
        let read = reader.read(number, choice, reason, out);
        // Before a failure ends the reply: a part of the choice may have been read.
        self.calls += reader.calls() - calls;
        self.kept_bytes += reader.kept_bytes() - bytes;
        self.text_bytes = self.text_bytes - text + reader.text_bytes();
        read?;
        if self.calls > MAX_PIECES {
            return Err(ReplyError::Invalid { what: "more tool calls than the gateway accepts" });
        }
        if self.text_bytes > MAX_REPLY_HELD_BYTES {
            let what =
                "thinking without signatures and tool calls without names of excessive length";
            return Err(ReplyError::Invalid { what });
        }
        Ok(())
    }
}

/// Returns whether a member of a chunk is carried along.
fn is_unknown(name: &str, value: &Value) -> bool {
    !value.is_null() && !READ_OR_DROPPED.contains(&name)
}

/// Returns members of a chunk, or of a choice, as deltas.
fn chunk_members(choice: Option<u64>, members: Object) -> impl Iterator<Item = Delta> {
    members.into_iter().map(move |(name, value)| Delta::ChunkMember { choice, name, value })
}

/// Removes the `delta` of each choice that has a `message`: a reply that was not streamed has no other.
fn drop_deltas(completion: &mut Object) {
    let choices = completion.get_mut("choices").and_then(Value::as_array_mut);
    for choice in choices.into_iter().flatten().filter_map(Value::as_object_mut) {
        if choice.get("message").is_some_and(Value::is_object) {
            choice.shift_remove("delta");
        }
    }
}

/// Returns the number of pieces in the choices of a chunk: the elements of all lists of their deltas, and
/// the other members. Each can become a few deltas.
pub fn pieces(chunk: &Object) -> usize {
    let choices = chunk.get("choices").and_then(Value::as_array).into_iter().flatten();
    let messages = choices.flat_map(|choice| [choice.get("delta"), choice.get("message")]);
    let members = messages.flatten().filter_map(Value::as_object).flat_map(Object::values);
    members.map(pieces_of).sum()
}

/// Returns the number of pieces of a member. A content part of Mistral's has a list of its own, and the
/// signature of a call is a piece too.
fn pieces_of(member: &Value) -> usize {
    let Value::Array(list) = member else { return 1 };
    let inner = list.iter().filter_map(|part| part.get("thinking")?.as_array());
    let signed = list.iter().filter(|part| part.get(EXTRA_CONTENT).is_some()).count();
    list.len().max(1) + inner.map(Vec::len).sum::<usize>() + signed
}

/// Returns the reason of an end; `None` if the choice has not ended. Some servers send an empty one until
/// then.
fn finish_reason(choice: &mut Object) -> Option<FinishReason> {
    let reason = take_string(choice, "finish_reason").filter(|reason| !reason.is_empty())?;
    Some(match reason.as_str() {
        "stop" => match take_string(choice, "stop_reason") {
            Some(text) => FinishReason::StopSequence(cut_to_keep(text, MAX_SEQUENCE)),
            None => FinishReason::Stop,
        },
        "length" => FinishReason::Length,
        "tool_calls" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Other(cut_to_keep(reason, MAX_WORD_BYTES)),
    })
}

/// Cuts a text that is kept until the reply ends, and releases the memory of the rest.
fn cut_to_keep(text: String, most: usize) -> String {
    let mut text = cut(text, most);
    text.shrink_to_fit();
    text
}

/// Takes the error that a chunk reports, in OpenAI's form.
fn take_error(chunk: &mut Object) -> Option<ReplyError> {
    let error = match chunk.get_mut("error").map(Value::take) {
        Some(error) if !error.is_null() => error,
        _ if chunk.get("object").is_some_and(|object| object == "error") => mem::take(chunk).into(),
        _ => return None,
    };
    let error = match error {
        Value::Object(error) if error.get("message").is_some_and(Value::is_string) => error,
        Value::String(message) => object_of([("message", message.into())]),
        _ => object_of([("message", "the provider reported an error without a message".into())]),
    };
    // vLLM's `code` is a status.
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = code.filter(|code| (400..600).contains(code)).unwrap_or(BAD_GATEWAY);
    Some(ReplyError::Reported { error, status: Some(status) })
}

/// Numbers the calls of a whole message, which have no `index`.
fn number_calls(message: &mut Object) {
    let calls = message.get_mut(TOOL_CALLS).and_then(Value::as_array_mut);
    for (index, call) in calls.into_iter().flatten().enumerate() {
        if let Value::Object(call) = call {
            call.entry("index").or_insert_with(|| index.into());
        }
    }
}

#[cfg(test)]
mod tests;
