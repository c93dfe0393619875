//! Streamed responses of a script.

use std::{collections::VecDeque, mem, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    Document, ModelError, ReplyChunk, Terms,
    backend::ChunkSource,
    chat_reader::{ChatError, ChatReader},
};
use airlock_conversation::Object;

/// Bytes of arguments in one chunk.
const ARGUMENT_BYTES: usize = 16;

/// Chunks of one response.
pub(super) struct ScriptedChunks {
    left: VecDeque<Object>,
    pace: Option<Duration>,
    end: Option<ModelError>,
    reader: ScriptReader,
    has_ended: bool,
}

/// Reader of the responses of a script.
pub(super) struct ScriptReader {
    reader: ChatReader,
    provider: String,
    max_calls: usize,
}

impl ScriptReader {
    pub(super) fn new(provider: &str, terms: &Terms<'_>, hides_usage: bool) -> Self {
        let provider = provider.to_owned();
        let reader = ChatReader::new(terms);
        let reader = if hides_usage { reader.without_usage() } else { reader };
        Self { reader, provider, max_calls: terms.max_calls }
    }

    /// Reads a response that is not streamed.
    pub(super) fn whole(
        self,
        completion: Document,
        terms: &Terms<'_>,
    ) -> Result<ReplyChunk, ModelError> {
        let whole = ChatReader::whole(completion, terms.passes_on_whole(), terms.max_calls);
        whole.map_err(|error| self.failure(error))
    }

    fn failure(&self, error: ChatError) -> ModelError {
        let provider = self.provider.clone();
        error.into_model_error(self.max_calls, |_| ModelError::BadAnswer {
            provider,
            what: "a turn that is not a response",
        })
    }
}

impl ScriptedChunks {
    /// Cuts a completion into chunks. `end` is an error, and the number of chunks before it.
    pub(super) fn new(
        completion: &Object,
        includes_usage: bool,
        pace: Option<Duration>,
        end: Option<(usize, ModelError)>,
        reader: ScriptReader,
    ) -> Self {
        let mut left = VecDeque::new();
        let choices = completion["choices"].as_array().map_or(&[][..], Vec::as_slice);
        for choice in choices {
            for (delta, finish_reason) in deltas(choice) {
                let choice = json!({"index": choice["index"], "delta": delta, "logprobs": null, "finish_reason": finish_reason});
                left.push_back(chunk(completion, vec![choice]));
            }
        }
        if includes_usage {
            let mut last = chunk(completion, Vec::new());
            last.insert("usage".to_owned(), completion["usage"].clone());
            left.push_back(last);
        }
        let (after, end) = end.map_or((usize::MAX, None), |(after, end)| (after, Some(end)));
        left.truncate(after);
        Self { left, pace, end, reader, has_ended: false }
    }
}

impl ChunkSource for ScriptedChunks {
    /// Waits for the pace of the turn and returns the next chunk; `None` after the last one. Fails
    /// with the error of the turn in its place.
    async fn next(&mut self) -> Result<Option<ReplyChunk>, ModelError> {
        if let Some(pace) = self.pace.filter(|_| !self.has_ended) {
            sleep(pace).await;
        }
        match (self.left.pop_front(), self.end.take()) {
            (None, Some(error)) => Err(error),
            (None, None) if mem::replace(&mut self.has_ended, true) => Ok(None),
            (None, None) => self.reader.reader.finish().map_err(|error| self.reader.failure(error)),
            (Some(chunk), end) => {
                self.end = end;
                let chunk = self.reader.reader.chunk(chunk.into());
                chunk.map(Some).map_err(|error| self.reader.failure(error))
            }
        }
    }
}

fn chunk(completion: &Object, choices: Vec<Value>) -> Object {
    let mut chunk = Object::new();
    for name in ["id", "created", "model"] {
        chunk.insert(name.to_owned(), completion[name].clone());
    }
    chunk.insert("object".to_owned(), "chat.completion.chunk".into());
    chunk.insert("choices".to_owned(), choices.into());
    chunk
}

/// Returns the deltas of a choice, each with its `finish_reason`.
fn deltas(choice: &Value) -> Vec<(Value, Value)> {
    let message = &choice["message"];
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    for name in ["reasoning_content", "content"] {
        let words = message[name].as_str().unwrap_or_default().split_inclusive(' ');
        deltas.extend(words.map(|word| json!({name: word})));
    }
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, call) in calls.iter().enumerate() {
        let mut first = call.clone();
        first["index"] = index.into();
        first["function"]["arguments"] = "".into();
        deltas.push(json!({"tool_calls": [first]}));
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        deltas.extend(pieces(arguments).map(
            |piece| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
        ));
    }
    let mut deltas: Vec<_> = deltas.into_iter().map(|delta| (delta, Value::Null)).collect();
    deltas.push((json!({}), choice["finish_reason"].clone()));
    deltas
}

/// Cuts a text into pieces of up to [`ARGUMENT_BYTES`], at boundaries of characters.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(ARGUMENT_BYTES));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}
