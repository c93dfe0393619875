//! Streamed responses of a service.

use std::{collections::BTreeSet, mem, sync::Arc};

use http::StatusCode;
use serde_json::Value;

use super::failure;
use crate::{
    Document, ModelError, Refusal, ReplyChunk, Terms,
    backend::ChunkSource,
    chat_reader::{ChatError, ChatReader},
    document::{choices, choices_mut, finish_reason, index_of},
    http::{DONE, HttpClient, ServiceEvents},
};
use airlock_conversation::{MAX_CHOICES, Object};
use airlock_core::{
    memory::Charge,
    threads::{self, INLINE_BYTES},
};
use airlock_wire::sse::ERROR;

/// Chunks of one streamed response.
pub(super) struct OpenAiChunks<'a> {
    events: ServiceEvents<'a>,
    reader: StreamReader,
    max_calls: usize,
    has_ended: bool,
}

/// Reader of the chunks of one stream, apart from its connection.
#[derive(Debug, Default)]
struct StreamReader {
    /// Choices so far, by index.
    seen: BTreeSet<u64>,
    /// Choices with a `finish_reason`.
    finished: BTreeSet<u64>,
    chat: ChatReader,
    /// Bytes that are held for `chat`.
    held_bytes: usize,
}

/// Reason why a chunk was not read.
#[derive(Debug)]
enum UnreadChunk {
    /// The service reports an error; `None` if it is in no known form.
    Reported(Option<Object>),
    /// It is no chunk that the gateway accepts.
    Invalid(&'static str),
    /// The memory of the request has no room for what is kept of it.
    NoMemory,
    Chat(ChatError),
}

impl<'a> OpenAiChunks<'a> {
    pub(super) fn new(events: ServiceEvents<'a>, terms: &Terms<'_>) -> Self {
        let reader = StreamReader { chat: ChatReader::new(terms), ..StreamReader::default() };
        Self { events, reader, max_calls: terms.max_calls, has_ended: false }
    }

    /// Hides the usage, which the caller did not ask for.
    pub(super) fn without_usage(mut self) -> Self {
        self.reader.chat = self.reader.chat.without_usage();
        self
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
                let is_error = event.kind == ERROR;
                let chunk = self.events.parse_chunk(event).await?;
                let chunk = read_chunk(&mut self.reader, chunk, is_error, self.events.held()).await;
                chunk.map(Some).map_err(|unread| self.unread(unread))
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
        if self.reader.seen.is_empty() {
            return Err(self.events.client.bad_answer("no `choices`"));
        }
        Ok(())
    }

    /// Fails if the connection ended before the response did: a call whose arguments are incomplete
    /// must not be run.
    fn not_cut(&self) -> Result<(), ModelError> {
        let StreamReader { seen, finished, .. } = &self.reader;
        if seen.is_empty() || finished.len() < seen.len() {
            let what = "a stream that ended before the response did";
            return Err(self.events.client.bad_answer(what));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<ReplyChunk>, ModelError> {
        self.reader.chat.finish().map_err(|error| self.unread(UnreadChunk::Chat(error)))
    }

    fn unread(&self, unread: UnreadChunk) -> ModelError {
        unread.into_model_error(self.max_calls, self.events.client)
    }
}

/// Reads a chunk: here if its text is short, else on a blocking thread, as it was parsed. What is kept of it is held in
/// `held`. If the future is dropped, the reader has nothing of the chunks before.
async fn read_chunk(
    reader: &mut StreamReader,
    chunk: Document,
    is_error: bool,
    held: &Arc<Charge>,
) -> Result<ReplyChunk, UnreadChunk> {
    if chunk.text_bytes() <= INLINE_BYTES {
        return reader.read(chunk, is_error, held);
    }
    let mut taken = mem::take(reader);
    let held = held.clone();
    let tenant = held.tenant();
    let reading = threads::run(&tenant, move || {
        let read = taken.read(chunk, is_error, &held);
        (taken, read)
    });
    // Boxed: most chunks are short, and the future would have room for the wait of a long one.
    let (taken, read) = Box::pin(reading).await;
    *reader = taken;
    read
}

impl StreamReader {
    /// Reads a chunk. Memory is held for what is kept of it.
    fn read(
        &mut self,
        chunk: Document,
        is_error: bool,
        held: &Charge,
    ) -> Result<ReplyChunk, UnreadChunk> {
        let chunk = self.checked(chunk, is_error)?;
        let bytes = chunk.bytes();
        let mut chunk = self.chat.chunk(chunk).map_err(UnreadChunk::Chat)?;
        let kept = self.chat.held_bytes();
        if !held.grow(kept - self.held_bytes) {
            return Err(UnreadChunk::NoMemory);
        }
        self.held_bytes = kept;
        if chunk.keep_growth(bytes, held) { Ok(chunk) } else { Err(UnreadChunk::NoMemory) }
    }

    /// Returns a chunk that reports no error, with its choices noted.
    fn checked(&mut self, mut chunk: Document, is_error: bool) -> Result<Document, UnreadChunk> {
        let outlines = chunk.outlines().filter(|_| !is_error);
        if let Some(outlines) = outlines {
            self.note(outlines.iter().map(|choice| (choice.index, choice.has_ended)))?;
            return Ok(chunk);
        }
        if reports_error(chunk.object(), is_error) {
            return Err(UnreadChunk::Reported(error_in(chunk.object())));
        }
        use_deltas(&mut chunk);
        let choices = choices(chunk.object()).enumerate();
        self.note(choices.map(|(position, choice)| {
            (index_of(choice, position), finish_reason(choice).is_some())
        }))?;
        Ok(chunk)
    }

    /// Notes the choices of a chunk: the index of each, and whether it ends. Fails if there are too many.
    fn note(&mut self, choices: impl Iterator<Item = (u64, bool)>) -> Result<(), UnreadChunk> {
        for (position, (index, has_ended)) in choices.enumerate() {
            self.seen.insert(index);
            if has_ended {
                self.finished.insert(index);
            }
            if position >= MAX_CHOICES || self.seen.len() > MAX_CHOICES {
                return Err(UnreadChunk::Invalid("more choices than the gateway accepts"));
            }
        }
        Ok(())
    }
}

impl UnreadChunk {
    /// Returns the failure of the stream. `max_calls` is the limit on calls.
    fn into_model_error(self, max_calls: usize, client: &HttpClient) -> ModelError {
        match self {
            Self::Reported(error) => {
                let error =
                    error.unwrap_or_else(|| client.plain_error(StatusCode::BAD_GATEWAY, None));
                let status = status_of(&error);
                client.refused(Refusal { status, error, retry_after: None })
            }
            Self::Invalid(what) => client.bad_answer(what),
            Self::NoMemory => client.no_memory(),
            Self::Chat(error) => failure(error, max_calls, client),
        }
    }
}

/// Returns whether an event reports an error. One of that type does whatever it has.
fn reports_error(chunk: &Object, is_error: bool) -> bool {
    is_error
        || chunk.get("error").is_some_and(|error| !error.is_null())
        || chunk.get("object").is_some_and(|object| object == ERROR)
}

/// Returns the error that an event reports, in OpenAI's form; `None` if it is in no known form.
fn error_in(chunk: &Object) -> Option<Object> {
    match chunk.get("error") {
        Some(Value::Object(error)) if has_message(error) => Some(error.clone()),
        Some(Value::String(message)) => {
            Some(Object::from_iter([("message".to_owned(), message.clone().into())]))
        }
        None | Some(Value::Null) if has_message(chunk) => Some(chunk.clone()),
        _ => None,
    }
}

fn has_message(error: &Object) -> bool {
    error.get("message").is_some_and(Value::is_string)
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
