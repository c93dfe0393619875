//! Streamed responses of a service.

use std::{collections::BTreeSet, mem};

use bytes::Bytes;
use http::StatusCode;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::timeout;

use super::{Client, Held, ModelError};
use crate::{
    json::Caps,
    model::{
        Document, Object,
        document::{Unread, choices, finish_reason, index_of},
        sse::{Decoder, ERROR, Event},
    },
};

/// Data of the event after the last chunk.
const DONE: &str = "[DONE]";
/// Maximum number of choices of one response. OpenAI's maximum is 128.
const MAX_CHOICES: usize = 1_024;

/// Chunks of one streamed response.
pub(crate) struct Chunks<'a> {
    client: &'a Client,
    response: reqwest::Response,
    decoder: Decoder,
    /// Bytes that are received and not decoded yet.
    received: Bytes,
    received_bytes: usize,
    held: Held,
    /// Bytes that `held` holds for the decoder.
    held_bytes: usize,
    /// Choices so far, by index.
    seen: BTreeSet<u64>,
    /// Choices with a `finish_reason`.
    finished: BTreeSet<u64>,
    has_ended: bool,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(client: &'a Client, response: reqwest::Response, held: Held) -> Self {
        Self {
            client,
            response,
            decoder: Decoder::new(client.bounds.event_bytes),
            received: Bytes::new(),
            received_bytes: 0,
            held,
            held_bytes: 0,
            seen: BTreeSet::new(),
            finished: BTreeSet::new(),
            has_ended: false,
        }
    }

    /// Returns the next chunk; `None` after the last one.
    pub(in crate::model) async fn next(&mut self) -> Result<Option<Document>, ModelError> {
        while let Some(event) = self.event().await? {
            match event.data.trim_ascii() {
                "" => {}
                DONE => {
                    self.has_ended = true;
                    return self.completed().map(|()| None);
                }
                _ => return self.chunk(event).map(Some),
            }
        }
        Ok(None)
    }

    /// Returns the next event; `None` at the end of the stream.
    async fn event(&mut self) -> Result<Option<Event>, ModelError> {
        if self.has_ended {
            return Ok(None);
        }
        loop {
            let mut bytes = &self.received[..];
            let event = self.decoder.next(&mut bytes).map_err(|_| self.event_too_large())?;
            let read = self.received.len() - bytes.len();
            drop(self.received.split_to(read));
            if let Some(event) = event {
                return Ok(Some(event));
            }
            self.hold()?;
            if !self.receive().await? {
                return self.last();
            }
        }
    }

    /// Waits for more bytes. Returns false at the end of the body.
    async fn receive(&mut self) -> Result<bool, ModelError> {
        let waiting = timeout(self.client.bounds.idle, self.response.chunk());
        let received = waiting.await.map_err(|_| self.client.is_silent())?;
        let Some(bytes) = received.map_err(|error| self.client.trouble(error))? else {
            self.has_ended = true;
            return Ok(false);
        };
        self.received_bytes = self.received_bytes.saturating_add(bytes.len());
        if self.received_bytes > self.client.bounds.answer_bytes {
            return Err(self.client.bad_answer("a stream that is larger than the gateway accepts"));
        }
        self.received = bytes;
        Ok(true)
    }

    /// Returns the event that the end of the stream completes. Fails if the response is cut off: a
    /// call whose arguments are incomplete must not be run.
    fn last(&mut self) -> Result<Option<Event>, ModelError> {
        let decoder = mem::replace(&mut self.decoder, Decoder::new(0));
        let event = decoder.finish().map_err(|_| self.event_too_large())?;
        // An event that is cut off is no JSON.
        let event = event.filter(|event| {
            event.data.trim_ascii() == DONE
                || serde_json::from_str::<IgnoredAny>(&event.data).is_ok()
        });
        if event.is_none() && (self.seen.is_empty() || self.finished.len() < self.seen.len()) {
            return Err(self.client.bad_answer("a stream that ended before the response did"));
        }
        Ok(event)
    }

    /// Fails if a complete stream has no response in it.
    fn completed(&self) -> Result<(), ModelError> {
        if self.seen.is_empty() { Err(self.client.bad_answer("no `choices`")) } else { Ok(()) }
    }

    fn chunk(&mut self, event: Event) -> Result<Document, ModelError> {
        if event.is_broken {
            return Err(self.client.bad_answer("an event that is not UTF-8"));
        }
        let data = self.client.without_key_in(event.data);
        let caps = Caps::memory(self.client.bounds.answer_tree_bytes);
        let chunk = Document::read(data, &caps, &self.held).map_err(|error| match error {
            Unread::NoMemory => self.client.no_memory(),
            Unread::Dense(error) => self.client.dense(&error),
            Unread::NoObject => self.client.bad_answer("an event that is not a JSON object"),
        })?;
        if let Some(error) = self.error_in(chunk.object(), &event.kind) {
            return Err(self.client.refused(StatusCode::BAD_GATEWAY, error, None));
        }
        for (position, choice) in choices(chunk.object()).enumerate() {
            let index = index_of(choice, position);
            self.seen.insert(index);
            if finish_reason(choice).is_some() {
                self.finished.insert(index);
            }
        }
        if self.seen.len() > MAX_CHOICES {
            return Err(self.client.bad_answer("more choices than the gateway accepts"));
        }
        Ok(chunk)
    }

    /// Returns the error that an event reports, in OpenAI's form.
    fn error_in(&self, chunk: &Object, kind: &str) -> Option<Object> {
        let error = match chunk.get("error") {
            Some(error) if !error.is_null() => error.clone(),
            _ if kind == ERROR || chunk.get("object").is_some_and(|it| it == ERROR) => {
                chunk.clone().into()
            }
            _ => return None,
        };
        Some(match error {
            Value::Object(error) if error.get("message").is_some_and(Value::is_string) => error,
            Value::String(message) => Object::from_iter([("message".to_owned(), message.into())]),
            _ => self.client.plain_error(StatusCode::BAD_GATEWAY),
        })
    }

    /// Holds the memory of the decoder, which grows with the event.
    fn hold(&mut self) -> Result<(), ModelError> {
        let allocated = self.decoder.allocated();
        if allocated > self.held_bytes {
            if !self.held.grow(allocated - self.held_bytes) {
                return Err(self.client.no_memory());
            }
            self.held_bytes = allocated;
        }
        Ok(())
    }

    fn event_too_large(&self) -> ModelError {
        self.client.bad_answer("an event that is larger than the gateway accepts")
    }
}

#[cfg(test)]
mod tests;
