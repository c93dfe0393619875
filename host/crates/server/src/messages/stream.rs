//! Streamed messages: the events of the loop, as server-sent events.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::{Value, json};

use super::unreadable;
use crate::{
    chat::describe,
    events::{self, Source},
    memory::RequestCharge,
    respond::ApiError,
};
use airlock_agent::{EXTENSION, Event, Run};
use airlock_conversation::{chat::ReplyReader, messages::EventWriter};
use airlock_model::{Document, Object};

/// One streamed message.
pub(super) struct MessageStream {
    run: Run,
    /// The first event of the loop, received before the response begins.
    first: Option<Event>,
    reader: ReplyReader,
    writer: EventWriter,
    /// True if the caller asked for events of tools.
    wants_events: bool,
    charge: RequestCharge,
    /// Bytes that the writer holds and that are charged.
    charged: usize,
    /// Events that are not sent yet.
    waiting: VecDeque<Bytes>,
    has_ended: bool,
}

impl MessageStream {
    /// Waits for the first event of the loop. Fails if the request fails before it, so that the failure
    /// has a status of its own.
    pub(super) async fn begin(
        mut run: Run,
        writer: EventWriter,
        wants_events: bool,
        charge: RequestCharge,
    ) -> Result<Self, ApiError> {
        let first = match run.next().await {
            Some(Event::Failed(error)) => return Err((*error).into()),
            first => first,
        };
        Ok(Self {
            run,
            first,
            reader: ReplyReader::default(),
            writer,
            wants_events,
            charge,
            charged: 0,
            waiting: VecDeque::new(),
            has_ended: false,
        })
    }

    /// Adds an event of the loop. Fails if the request has failed, or if there is no memory for what has
    /// to wait.
    fn add(&mut self, event: Event) -> Result<(), ApiError> {
        match event {
            Event::Chunk(chunk) => self.add_chunk(chunk),
            Event::Done(completion) => {
                let mut out = Vec::new();
                for delta in self.reader.finish().map_err(|error| unreadable(&error))? {
                    self.writer.delta(delta, &mut out);
                }
                self.writer.finish(completion.airlock, &mut out);
                self.send(out);
                self.has_ended = true;
                Ok(())
            }
            Event::Failed(error) => Err((*error).into()),
            event => {
                if self.wants_events
                    && let Some(event) = describe(event)
                {
                    // Clients of the API skip pings, and fail on events that they do not know.
                    let ping = json!({"type": "ping", EXTENSION: {"event": event}});
                    self.waiting.push_back(events::typed("ping", &ping.to_string()));
                }
                Ok(())
            }
        }
    }

    fn add_chunk(&mut self, chunk: Document) -> Result<(), ApiError> {
        let mut chunk = chunk.into_object();
        // It is a member of the last event.
        chunk.shift_remove(EXTENSION);
        let mut out = Vec::new();
        for delta in self.reader.chunk(chunk).map_err(|error| unreadable(&error))? {
            self.writer.delta(delta, &mut out);
        }
        self.send(out);
        let held = self.writer.held_bytes();
        self.charge.grow(held - self.charged)?;
        self.charged = held;
        Ok(())
    }

    fn send(&mut self, out: Vec<Object>) {
        self.waiting.extend(out.into_iter().map(|event| render(&event)));
    }
}

impl Source for MessageStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            let event = match self.first.take() {
                Some(event) => event,
                None => self.run.next().await?,
            };
            if let Err(error) = self.add(event) {
                self.has_ended = true;
                self.waiting.push_back(Self::failure(error));
            }
        }
    }

    fn failure(error: ApiError) -> Bytes {
        events::typed("error", &Value::from(error.into_anthropic_body()).to_string())
    }
}

fn render(event: &Object) -> Bytes {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    events::typed(kind, &serde_json::to_string(event).unwrap_or_default())
}
