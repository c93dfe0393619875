//! Streamed chat completions: the chunks of the loop, as server-sent events.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    agent::{EXTENSION, Ended, Event, Run, Started},
    model::{Object, document::head},
    server::{
        events::{self, Source},
        respond::ApiError,
    },
    text::cut,
};

/// Data of the last event.
const DONE: &str = "[DONE]";
/// Maximum length of arguments, results and partial results in an event, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// One streamed completion.
pub(in crate::server) struct ChatStream {
    run: Run,
    /// The first event, received before the response begins.
    first: Option<Event>,
    /// True if the client asked for events of tools.
    wants_events: bool,
    /// Members that the chunks of the stream share.
    head: Object,
    has_ended: bool,
}

impl ChatStream {
    /// Waits for the first event. A failure before it has a status of its own.
    pub(in crate::server) async fn begin(
        mut run: Run,
        wants_events: bool,
    ) -> Result<Self, ApiError> {
        match run.next().await {
            Some(Event::Failed(error)) => Err((*error).into()),
            first => Ok(Self { run, first, wants_events, head: Object::new(), has_ended: false }),
        }
    }

    /// Renders an event; `None` if the client gets nothing of it.
    fn render(&mut self, event: Event) -> Option<Bytes> {
        match event {
            Event::Chunk(chunk) => {
                if self.wants_events && self.head.is_empty() {
                    self.head = head(chunk.object());
                }
                Some(events::data(&chunk.into_line()))
            }
            Event::Done(_) => {
                self.has_ended = true;
                Some(events::data(DONE))
            }
            Event::Failed(error) => {
                self.has_ended = true;
                Some(events::failure((*error).into()))
            }
            event if self.wants_events => Some(self.tool_event(describe(event)?)),
            _ => None,
        }
    }

    /// Returns a chunk without text that has the event as its member `airlock`.
    fn tool_event(&self, event: Value) -> Bytes {
        let mut chunk = self.head.clone();
        let choice = json!({"index": 0, "delta": {}, "finish_reason": null});
        chunk.insert("choices".to_owned(), json!([choice]));
        chunk.insert(EXTENSION.to_owned(), json!({"event": event}));
        events::data(&Value::from(chunk).to_string())
    }
}

impl Source for ChatStream {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.has_ended {
            let event = match self.first.take() {
                Some(event) => event,
                None => self.run.next().await?,
            };
            if let Some(bytes) = self.render(event) {
                return Some(bytes);
            }
        }
        None
    }
}

/// Describes an event of a tool; `None` if it is no event of a tool.
fn describe(event: Event) -> Option<Value> {
    Some(match event {
        Event::Started(Started { tool_call_id, name, arguments, .. }) => json!({
            "type": "call_started",
            "tool_call_id": tool_call_id,
            "name": name,
            "arguments": cut(arguments, MAX_TEXT_BYTES),
        }),
        Event::Progress { tool_call_id, progress } => {
            json!({"type": "call_progress", "tool_call_id": tool_call_id, "progress": progress})
        }
        Event::Partial { tool_call_id, part } => {
            let text = part.as_text().map(|text| cut(text.to_owned(), MAX_TEXT_BYTES));
            json!({"type": "call_partial", "tool_call_id": tool_call_id, "text": text})
        }
        Event::Ended(Ended { tool_call_id, name, text, error }) => json!({
            "type": "call_ended",
            "tool_call_id": tool_call_id,
            "name": name,
            "status": if error.is_none() { "ok" } else { "error" },
            "code": error,
            "result": cut(text.to_string(), MAX_TEXT_BYTES),
        }),
        Event::Round { rounds } => json!({"type": "round", "rounds": rounds}),
        Event::Chunk(_) | Event::Done(_) | Event::Failed(_) => return None,
    })
}
