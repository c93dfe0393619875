//! Tests of the whole translation.

mod continuation;
mod properties;
mod request;
mod stream;

use std::mem;

use serde_json::{Value, json};

use super::{BuiltinTools, GatewayCall, Prepared, Writer, prepare};
use airlock_conversation::{
    Object,
    chat::{self, ChatDialect, ReplyReader},
    read::Untranslatable,
    responses,
};
use airlock_json::object;

/// Prepares a request without earlier items.
fn prepared(request: Value) -> Prepared {
    prepare(object(request), Vec::new(), false, &BuiltinTools::Drop)
        .expect("the request can be prepared")
}

/// Prepares a request that must be refused.
fn refusal(request: Value) -> Untranslatable {
    prepare(object(request), Vec::new(), false, &BuiltinTools::Refuse)
        .expect_err("the request cannot be prepared")
}

/// Returns a prepared request as the chat completion request that a provider receives.
fn sent(prepared: &Prepared) -> Result<Object, Untranslatable> {
    let conversation = responses::read_request(prepared.body.clone(), &prepared.places)?;
    chat::write_request(conversation, ChatDialect::OpenAi)
}

/// Translates input items into messages.
fn messages(input: Value) -> Value {
    let request =
        Object::from_iter([("model".to_owned(), "m".into()), ("input".to_owned(), input)]);
    sent(&prepared(request.into())).expect("it can be sent")["messages"].take()
}

/// A request with members beside the required ones.
fn request(members: Value) -> Value {
    let mut request = object(json!({"model": "m", "input": "hi"}));
    request.extend(object(members));
    request.into()
}

/// Writes a Response and collects its stream events.
struct OutputRecorder {
    writer: Writer,
    /// Reader of the chunks of the round.
    reader: ReplyReader,
    events: Vec<Object>,
}

impl OutputRecorder {
    fn new() -> Self {
        let echo = prepared(json!({"model": "m", "input": "hi"})).echo;
        let mut recorder = Self::with_writer(Writer::new("resp_1", 7, echo));
        recorder.writer.begin(&mut recorder.events);
        recorder
    }

    fn with_writer(writer: Writer) -> Self {
        Self { writer, reader: ReplyReader::default(), events: Vec::new() }
    }

    /// Writes the choice of a chunk of a chat completion.
    fn chunk(&mut self, choice: Value) -> &mut Self {
        let chunk = Object::from_iter([("choices".to_owned(), vec![choice].into())]);
        self.add(chunk)
    }

    fn add(&mut self, chunk: Object) -> &mut Self {
        if let Ok(deltas) = self.reader.chunk(chunk) {
            self.writer.deltas(deltas, &mut self.events);
        }
        self
    }

    /// Writes the end of the model's reply, if it has begun.
    fn end_reply(&mut self) {
        if let Ok(deltas) = mem::take(&mut self.reader).finish() {
            self.writer.deltas(deltas, &mut self.events);
        }
    }

    fn delta(&mut self, delta: Value) -> &mut Self {
        self.chunk(Object::from_iter([("delta".to_owned(), delta)]).into())
    }

    fn stop(&mut self, reason: &str) -> &mut Self {
        self.chunk(json!({"index": 0, "delta": {}, "finish_reason": reason}))
    }

    fn start(&mut self, id: &str, name: &str, arguments: &str) -> &mut Self {
        let call = GatewayCall {
            tool_call_id: id,
            server_label: "fs",
            name,
            arguments,
            extra: &Object::new(),
        };
        self.writer.call_started(call, &mut self.events);
        self
    }

    fn end(&mut self, id: &str, result: Result<&str, &str>) -> &mut Self {
        self.writer.call_ended(id, result, &mut self.events);
        self
    }

    fn round(&mut self) -> &mut Self {
        self.end_reply();
        self.writer.round_ended(&mut self.events);
        self
    }

    fn finish(&mut self) -> &mut Self {
        self.end_reply();
        self.writer.finish(None, None, &mut self.events);
        self
    }

    /// Returns each event on one line: its type, its item, and its text.
    fn story(&self) -> Vec<String> {
        self.events.iter().map(line).collect()
    }
}

fn line(event: &Object) -> String {
    let kind = event["type"].as_str().expect("every event has a type");
    let mut line = kind.strip_prefix("response.").unwrap_or(kind).to_owned();
    for name in ["output_index", "content_index"] {
        line.extend(event.get(name).map(|index| format!(" {index}")));
    }
    let texts = ["delta", "text", "refusal", "arguments", "input"];
    for text in texts.iter().filter_map(|name| event.get(*name)) {
        line.extend([" ", &text.to_string()]);
    }
    let inner = event.get("item").or_else(|| event.get("part")).or_else(|| event.get("response"));
    if let Some(inner) = inner {
        let members = ["type", "status"].iter().filter_map(|name| inner.get(*name)?.as_str());
        members.for_each(|member| line.extend([" ", member]));
    }
    line
}
