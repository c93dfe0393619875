//! Streamed messages: the events of the loop, as server-sent events.

use std::{collections::VecDeque, mem, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::after_calls;
use crate::chat::describe;
use airlock_agent::{EXTENSION, Event, Run};
use airlock_conversation::{Delta, Object, messages::EventWriter};
use airlock_core::{
    memory::RequestMemory as _,
    request_memory::{ChargeRefused, RequestCharge},
    threads,
};
use airlock_http::{
    events::{self, EventSource},
    memory::AfterWork as _,
    respond::{ApiError, RequestId},
};
use airlock_json as json;
use airlock_model::ReplyChunk;

/// Number of copies in memory of a text: in the reply, and in the text of its event.
const COPIES: usize = 2;
/// Memory of the events of one piece, in bytes beside its text: those of the beginning, the piece and the
/// end of a block.
const PIECE_BYTES: usize = 6 << 10;

/// One streamed message.
pub(super) struct MessageStream {
    run: Run,
    translation: Arc<Mutex<Translation>>,
    /// Translates an event of the loop. Kept here, so that no event is lost if `next` is dropped.
    work: Option<BoxFuture<'static, Result<Vec<Bytes>, ApiError>>>,
    /// True if the caller asked for events of tools.
    wants_events: bool,
    charge: RequestCharge,
    /// Bytes that are charged for the work and the events that wait.
    room: usize,
    /// Identifier of the request, which an error repeats.
    request_id: RequestId,
    /// Events that are not sent yet.
    waiting: VecDeque<Bytes>,
    has_ended: bool,
}

/// Writes the deltas of the loop as events.
struct Translation {
    writer: EventWriter,
    charge: RequestCharge,
    /// Bytes that the writer holds and that are charged.
    charged: usize,
}

impl Translation {
    fn new(writer: EventWriter, charge: RequestCharge) -> Self {
        Self { writer, charge, charged: 0 }
    }

    /// Returns the events of deltas. Charges what has to be kept. It was charged for a short time before, as a
    /// part of its chunk.
    fn write(&mut self, deltas: Vec<Delta>) -> Result<Vec<Object>, ApiError> {
        let mut out = Vec::new();
        for delta in deltas {
            self.writer.delta(delta, &mut out);
        }
        let held = self.writer.held_bytes().saturating_mul(COPIES);
        self.charge.grow(held - self.charged).map_err(ChargeRefused::after_work)?;
        self.charged = held;
        Ok(out)
    }

    /// Returns the events of the end.
    fn finish(&mut self, airlock: Option<Object>) -> Vec<Object> {
        let mut out = Vec::new();
        self.writer.finish(airlock, &mut out);
        out
    }
}

impl MessageStream {
    /// Waits for the first event of the loop. Fails if the request fails before it, so that the failure
    /// has a status of its own.
    pub(super) async fn begin(
        mut run: Run,
        writer: EventWriter,
        wants_events: bool,
        request_id: RequestId,
        charge: RequestCharge,
    ) -> Result<Self, ApiError> {
        run.begin().await.map_err(|error| error.into_error_reply())?;
        Ok(Self {
            run,
            translation: Arc::new(Mutex::new(Translation::new(writer, charge.clone()))),
            work: None,
            wants_events,
            charge,
            room: 0,
            request_id,
            waiting: VecDeque::new(),
            has_ended: false,
        })
    }

    /// Adds an event of the loop. Fails if the request has failed, or if there is no memory for the events
    /// that it becomes.
    fn add(&mut self, event: Event) -> Result<(), ApiError> {
        match event {
            Event::Chunk(chunk) => {
                self.charge_room(room_of(&chunk))?;
                let bytes = chunk.bytes();
                self.start(bytes, move |translation| translation.write(chunk.into_deltas()));
            }
            Event::Done(completion) => {
                self.has_ended = true;
                let airlock = completion.airlock;
                let bytes = airlock.as_ref().map_or(0, json::text_len);
                if let Err(error) = self.charge_room(bytes.saturating_mul(COPIES)) {
                    return Err(after_calls(error, airlock));
                }
                let bytes = bytes + self.translation.lock().charged;
                self.start(bytes, move |translation| Ok(translation.finish(airlock)));
            }
            Event::Failed(error) => return Err(error.into_error_reply().into()),
            event => {
                if self.wants_events
                    && let Some(event) = describe(event)
                {
                    // Clients of the API skip pings, and fail on events that they do not know.
                    let ping = json!({"type": "ping", EXTENSION: {"event": event}});
                    self.waiting.push_back(events::typed("ping", &ping.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Charges memory until all events that wait are sent.
    fn charge_room(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.charge.grow(bytes).map_err(ChargeRefused::after_work)?;
        self.room += bytes;
        Ok(())
    }

    /// Starts a translation that reads `bytes`.
    fn start(
        &mut self,
        bytes: usize,
        work: impl FnOnce(&mut Translation) -> Result<Vec<Object>, ApiError> + Send + 'static,
    ) {
        let translation = self.translation.clone();
        let tenant = self.charge.tenant().clone();
        self.work = Some(Box::pin(async move {
            threads::read(&tenant, bytes, move || {
                let events = work(&mut translation.lock())?;
                Ok(events.into_iter().map(|event| events::object(&event)).collect())
            })
            .await
        }));
    }

    fn fail(&mut self, error: ApiError) {
        self.has_ended = true;
        self.waiting.push_back(self.failure(error));
    }
}

impl EventSource for MessageStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if let Some(work) = &mut self.work {
                let events = work.await;
                self.work = None;
                match events {
                    Ok(events) => self.waiting.extend(events),
                    Err(error) => self.fail(error),
                }
                continue;
            }
            if self.has_ended {
                return None;
            }
            self.charge.give_back(mem::take(&mut self.room));
            let event = self.run.next().await?;
            if let Err(error) = self.add(event) {
                self.fail(error);
            }
        }
    }

    fn failure(&self, error: ApiError) -> Bytes {
        let body = error.into_anthropic_body(&self.request_id);
        events::typed("error", &Value::from(body).to_string())
    }
}

/// Returns an upper estimate of the memory that a chunk and its events take, in bytes.
fn room_of(chunk: &ReplyChunk) -> usize {
    let pieces = chunk.deltas().len().saturating_mul(PIECE_BYTES);
    chunk.bytes().saturating_mul(COPIES).saturating_add(pieces)
}

#[cfg(test)]
mod tests {

    use super::*;
    use airlock_conversation::chat::ReplyReader;
    use airlock_core::{request_memory::Memory, tenant::Tenant};
    use airlock_json::{object, weight::object_weight};

    fn translation(bytes: usize) -> (Translation, RequestCharge) {
        let memory = Memory::new(bytes);
        let charge = memory.open(Tenant::ANONYMOUS, 0).expect("room");
        (Translation::new(EventWriter::new("msg_1", "m"), charge.clone()), charge)
    }

    /// Returns the deltas of a chunk of a chat completion.
    fn deltas(delta: &Value) -> Vec<Delta> {
        let chunk = object(json!({"choices": [{"index": 0, "delta": delta}]}));
        let mut reader = ReplyReader::default();
        let mut deltas = reader.chunk(chunk).expect("a chunk");
        deltas.append(&mut reader.finish().expect("an end"));
        deltas
    }

    #[test]
    fn the_room_of_a_chunk_is_at_least_that_of_its_events() {
        let thought = json!({"type": "thinking", "thinking": [{"type": "text", "text": "x"}]});
        let text = json!({"type": "text", "text": "x"});
        let pairs: Vec<_> = std::iter::repeat_n([thought, text.clone()], 1_000).flatten().collect();
        let calls: Vec<_> = (0..1_000)
            .map(|index| json!({"index": index, "id": "x", "function": {"name": "f", "arguments": "{}"}}))
            .collect();
        let google = json!({"google": {"thought_signature": "s"}});
        let signed: Vec<_> = (0..1_000)
            .map(|index| json!({"index": index, "id": "x", "extra_content": google, "function": {"name": "f", "arguments": "{}"}}))
            .collect();
        for delta in [
            json!({"content": "x"}),
            json!({"content": "x".repeat(10_000)}),
            json!({"content": vec![text; 1_000]}),
            json!({"content": vec![0; 1_000]}),
            json!({"content": pairs}),
            json!({"tool_calls": calls}),
            json!({"tool_calls": signed}),
            json!({"citations": vec![json!({"type": "x", "a": [{}, {}]}); 1_000]}),
        ] {
            let chunk = ReplyChunk::from(deltas(&delta));
            let room = room_of(&chunk);
            let (mut translation, _charge) = translation(usize::MAX);
            let events = translation.write(chunk.into_deltas()).expect("events");
            let taken: usize =
                events.iter().map(|event| object_weight(event) + events::object(event).len()).sum();
            assert!(taken <= room, "{taken} of {room}: {delta}");
        }
    }

    fn call(index: u64) -> Vec<Delta> {
        let name = "f".to_owned();
        let id = index.to_string();
        let extra = Object::new();
        let call = Delta::Call { choice: 0, index, id, name, is_custom: false, extra };
        vec![call, Delta::Arguments { choice: 0, index, text: "{".to_owned() }]
    }

    fn text(bytes: usize) -> Vec<Delta> {
        vec![Delta::Text { choice: 0, text: "x".repeat(bytes) }]
    }

    #[test]
    fn what_has_to_wait_is_charged_or_refused() {
        let (mut large, charge) = translation(usize::MAX);
        let before = charge.bytes();
        for deltas in [call(0), call(1), text(10_000)] {
            large.write(deltas).expect("room");
        }
        let bytes = charge.bytes() - before;
        assert!((20_000..60_000).contains(&bytes), "{bytes}");
        let (mut small, _charge) = translation(64 << 10);
        small.write(call(0)).expect("room");
        small.write(text(40_000)).expect_err("no room");
    }
}
