//! Streamed responses of a service.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::Value;

use super::failure;
use crate::{
    Document, ModelError, Object, Refusal, ReplyChunk, Terms,
    backend::ChunkSource,
    chat_reader::{ChatError, ChatReader},
    document::{choices, choices_mut, finish_reason, index_of},
    http::{DONE, ServiceEvents},
};
use airlock_conversation::MAX_CHOICES;
use airlock_wire::sse::ERROR;

/// Chunks of one streamed response.
pub(super) struct OpenAiChunks<'a> {
    events: ServiceEvents<'a>,
    /// Choices so far, by index.
    seen: BTreeSet<u64>,
    /// Choices with a `finish_reason`.
    finished: BTreeSet<u64>,
    reader: ChatReader,
    max_calls: usize,
    /// Bytes that are held for the reader.
    held_bytes: usize,
    has_ended: bool,
}

impl<'a> OpenAiChunks<'a> {
    pub(super) fn new(events: ServiceEvents<'a>, terms: &Terms<'_>) -> Self {
        Self {
            events,
            seen: BTreeSet::new(),
            finished: BTreeSet::new(),
            reader: ChatReader::new(terms),
            max_calls: terms.max_calls,
            held_bytes: 0,
            has_ended: false,
        }
    }

    /// Hides the usage, which the caller did not ask for.
    pub(super) fn without_usage(self) -> Self {
        Self { reader: self.reader.without_usage(), ..self }
    }
}

impl ChunkSource for OpenAiChunks<'_> {
    async fn next(&mut self) -> Result<Option<ReplyChunk>, ModelError> {
        if self.has_ended {
            return Ok(None);
        }
        match self.events.next().await? {
            Some(event) if event.data.trim_ascii() == DONE => {
                self.events.end();
                self.has_ended = true;
                self.completed()?;
                self.finish()
            }
            Some(event) => {
                let kind = event.kind.clone();
                let chunk = self.chunk(self.events.parse_chunk(event).await?, &kind)?;
                self.read(chunk).map(Some)
            }
            None => {
                self.has_ended = true;
                self.not_cut()?;
                self.finish()
            }
        }
    }
}

impl OpenAiChunks<'_> {
    /// Fails if a stream that ended with `[DONE]` had no choices.
    fn completed(&self) -> Result<(), ModelError> {
        if self.seen.is_empty() {
            return Err(self.events.client.bad_answer("no `choices`"));
        }
        Ok(())
    }

    /// Fails if the connection ended before the response did: a call whose arguments are incomplete
    /// must not be run.
    fn not_cut(&self) -> Result<(), ModelError> {
        if self.seen.is_empty() || self.finished.len() < self.seen.len() {
            let what = "a stream that ended before the response did";
            return Err(self.events.client.bad_answer(what));
        }
        Ok(())
    }

    fn chunk(&mut self, mut chunk: Document, kind: &str) -> Result<Document, ModelError> {
        let client = self.events.client;
        let outlines = chunk.outlines().filter(|_| kind != ERROR);
        if let Some(outlines) = outlines {
            self.note(outlines.iter().map(|choice| (choice.index, choice.has_ended)))?;
            return Ok(chunk);
        }
        if let Some(error) = self.error_in(chunk.object(), kind) {
            let status = status_of(&error);
            return Err(client.refused(Refusal { status, error, retry_after: None }));
        }
        use_deltas(&mut chunk);
        let choices = choices(chunk.object()).enumerate();
        self.note(choices.map(|(position, choice)| {
            (index_of(choice, position), finish_reason(choice).is_some())
        }))?;
        Ok(chunk)
    }

    /// Reads a chunk. Memory is held for what is kept of it.
    fn read(&mut self, chunk: Document) -> Result<ReplyChunk, ModelError> {
        let bytes = chunk.bytes();
        let chunk = self.reader.chunk(chunk).map_err(|error| self.failure(error))?;
        let held = self.reader.held_bytes();
        self.events.keep(held - self.held_bytes)?;
        self.held_bytes = held;
        self.events.keep_growth(bytes, chunk)
    }

    fn finish(&mut self) -> Result<Option<ReplyChunk>, ModelError> {
        self.reader.finish().map_err(|error| self.failure(error))
    }

    fn failure(&self, error: ChatError) -> ModelError {
        failure(error, self.max_calls, self.events.client)
    }

    /// Notes the choices of a chunk: the index of each, and whether it ends. Fails if there are too many.
    fn note(&mut self, choices: impl Iterator<Item = (u64, bool)>) -> Result<(), ModelError> {
        for (position, (index, has_ended)) in choices.enumerate() {
            self.seen.insert(index);
            if has_ended {
                self.finished.insert(index);
            }
            if position >= MAX_CHOICES || self.seen.len() > MAX_CHOICES {
                let what = "more choices than the gateway accepts";
                return Err(self.events.client.bad_answer(what));
            }
        }
        Ok(())
    }

    /// Returns the error that an event reports, in OpenAI's form.
    fn error_in(&self, chunk: &Object, kind: &str) -> Option<Object> {
        let error = match chunk.get("error") {
            Some(error) if !error.is_null() => error.clone(),
            _ if kind == ERROR || chunk.get("object").is_some_and(|object| object == ERROR) => {
                chunk.clone().into()
            }
            _ => return None,
        };
        Some(match error {
            Value::Object(error) if error.get("message").is_some_and(Value::is_string) => error,
            Value::String(message) => Object::from_iter([("message".to_owned(), message.into())]),
            _ => self.events.client.plain_error(StatusCode::BAD_GATEWAY, None),
        })
    }
}

/// Returns the status of an error in a stream, because the stream itself has the status 200: its
/// `code` if that is a status, as vLLM sends it, and else 502.
fn status_of(error: &Object) -> StatusCode {
    let code = error.get("code").and_then(Value::as_u64).filter(|code| (400..600).contains(code));
    code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok())
        .unwrap_or(StatusCode::BAD_GATEWAY)
}

/// Removes a `message` beside a `delta`: some servers repeat the whole message in every chunk
/// (Perplexity). A `message` alone counts as the delta.
fn use_deltas(chunk: &mut Document) {
    if !choices(chunk.object()).any(|choice| choice.contains_key("message")) {
        return;
    }
    for choice in choices_mut(chunk.object_mut()) {
        let message = choice.shift_remove("message");
        if !choice.get("delta").is_some_and(Value::is_object) {
            choice.extend(message.map(|message| ("delta".to_owned(), message)));
        }
    }
}

#[cfg(test)]
mod tests;
