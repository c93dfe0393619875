//! Streamed chat completions: the chunks of the loop, as server-sent events.

use std::{collections::VecDeque, mem, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use airlock_agent::{CallEnded, CallStarted, EXTENSION, Event, MAX_TEXT_BYTES, Run};
use airlock_conversation::Delta;
use airlock_core::{
    memory::RequestMemory as _,
    request_memory::{ChargeRefused, RequestCharge},
    threads::{self, INLINE_BYTES},
};
use airlock_http::{
    events::{self, EventSource},
    memory::AfterWork as _,
    respond::ApiError,
};
use airlock_json as json;
use airlock_model::{ChatForm, ReplyChunk};
use airlock_strings::cut;

/// Data of the last event.
const DONE: &str = "[DONE]";
/// Memory of a chunk that waits, in bytes beside its text.
const LINE_BYTES: usize = 64;
/// Memory of the tree of a chunk while it is written, in bytes beside its text.
const TREE_BYTES: usize = 3 << 10;

/// One streamed completion.
pub(crate) struct ChatStream {
    run: Run,
    form: Arc<Mutex<ChatForm>>,
    /// Writes long chunks. Kept here, so that none is lost if `next` is dropped.
    work: Option<BoxFuture<'static, WrittenChunks>>,
    /// True if the caller asked for events of tools.
    wants_events: bool,
    charge: RequestCharge,
    /// Chunks that are not sent yet.
    waiting: VecDeque<Bytes>,
    /// Bytes that are charged for them.
    room: usize,
    has_ended: bool,
}

/// Chunks as text, and the bytes that are charged for the trees that they were.
struct WrittenChunks {
    lines: Vec<String>,
    tree_bytes: usize,
}

impl ChatStream {
    /// Waits for the first event. Fails if the request fails before it, so that the failure has a
    /// status of its own.
    pub(crate) async fn begin(
        mut run: Run,
        form: ChatForm,
        wants_events: bool,
        charge: RequestCharge,
    ) -> Result<Self, ApiError> {
        run.begin().await.map_err(|error| error.into_error_reply())?;
        Ok(Self {
            run,
            form: Arc::new(Mutex::new(form)),
            work: None,
            wants_events,
            charge,
            waiting: VecDeque::new(),
            room: 0,
            has_ended: false,
        })
    }

    /// Adds what the caller receives for an event. Fails if the request has failed, or if there is no memory
    /// for the chunks.
    fn add(&mut self, event: Event) -> Result<(), ApiError> {
        match event {
            Event::Chunk(chunk) => {
                let tree_bytes = tree_bytes(&chunk);
                self.charge.grow(tree_bytes).map_err(ChargeRefused::after_work)?;
                let bytes = chunk.written_bytes();
                self.write(bytes, tree_bytes, move |form| form.lines(chunk))?;
            }
            Event::Done(completion) => {
                self.has_ended = true;
                let airlock = completion.airlock;
                let bytes = airlock.as_ref().map_or(0, json::text_len);
                self.write(bytes, 0, move |form| {
                    let mut lines = form.finish(airlock);
                    lines.push(DONE.to_owned());
                    lines
                })?;
            }
            Event::Failed(error) => return Err(error.into_error_reply().into()),
            event if self.wants_events => {
                let event = describe(event).map(|event| self.tool_event(&event));
                self.waiting.extend(event);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes chunks that have `bytes`: here if they are few, else on a blocking thread. Fails if there is no memory for the
    /// chunks.
    fn write(
        &mut self,
        bytes: usize,
        tree_bytes: usize,
        write: impl FnOnce(&mut ChatForm) -> Vec<String> + Send + 'static,
    ) -> Result<(), ApiError> {
        if bytes <= INLINE_BYTES {
            let lines = write(&mut self.form.lock());
            return self.send(WrittenChunks { lines, tree_bytes });
        }
        let form = self.form.clone();
        let tenant = self.charge.tenant().clone();
        self.work = Some(Box::pin(async move {
            let lines = threads::run(&tenant, move || write(&mut form.lock())).await;
            WrittenChunks { lines, tree_bytes }
        }));
        Ok(())
    }

    /// Adds chunks. Those that many deltas became are charged, in place of their trees.
    fn send(&mut self, written: WrittenChunks) -> Result<(), ApiError> {
        let WrittenChunks { lines, tree_bytes } = written;
        if lines.len() > 1 && !self.has_ended {
            let bytes = lines.iter().map(|line| line.len() + LINE_BYTES).sum();
            self.charge.grow(bytes).map_err(ChargeRefused::after_work)?;
            self.room += bytes;
        }
        self.waiting.extend(lines.iter().map(|line| events::data(line)));
        self.charge.give_back(tree_bytes);
        Ok(())
    }

    fn fail(&mut self, error: ApiError) {
        self.has_ended = true;
        self.waiting.push_back(events::failure(error));
    }

    /// Returns a chunk without text that has the event as its member `airlock`.
    fn tool_event(&self, event: &Value) -> Bytes {
        let mut chunk = self.form.lock().empty();
        chunk.insert(EXTENSION.to_owned(), json!({"event": event}));
        events::data(&Value::from(chunk).to_string())
    }
}

impl EventSource for ChatStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.waiting.pop_front() {
                return Some(bytes);
            }
            if let Some(work) = &mut self.work {
                let written = work.await;
                self.work = None;
                if let Err(error) = self.send(written) {
                    self.fail(error);
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
}

/// Returns an upper estimate of the memory of the trees that a chunk of many deltas becomes, in bytes.
fn tree_bytes(chunk: &ReplyChunk) -> usize {
    let pieces = chunk.deltas().iter();
    let deltas = pieces.filter(|delta| !matches!(delta, Delta::ChunkMember { .. })).count();
    if deltas <= 1 || chunk.exact().is_some() {
        return 0;
    }
    chunk.bytes().saturating_mul(2).saturating_add(deltas.saturating_mul(TREE_BYTES))
}

/// Describes an event of a tool or a round; `None` for other events. Texts are cut after
/// [`MAX_TEXT_BYTES`].
pub(crate) fn describe(event: Event) -> Option<Value> {
    Some(match event {
        Event::Started(started) => {
            let CallStarted { tool_call_id, name, arguments, .. } = *started;
            json!({
                "type": "call_started",
                "tool_call_id": tool_call_id,
                "name": name,
                "arguments": cut(arguments, MAX_TEXT_BYTES),
            })
        }
        Event::Progress { tool_call_id, progress } => {
            json!({"type": "call_progress", "tool_call_id": tool_call_id, "progress": progress})
        }
        Event::Partial { tool_call_id, part } => {
            let text = part.as_text().map(|text| cut(text.to_owned(), MAX_TEXT_BYTES));
            json!({"type": "call_partial", "tool_call_id": tool_call_id, "text": text})
        }
        Event::Ended(ended) => {
            let CallEnded { tool_call_id, name, text, error } = *ended;
            json!({
                "type": "call_ended",
                "tool_call_id": tool_call_id,
                "name": name,
                "status": if error.is_none() { "ok" } else { "error" },
                "code": error.as_ref().map(|error| &error.code),
                "error": error,
                "result": cut(text.to_string(), MAX_TEXT_BYTES),
            })
        }
        Event::Round { rounds } => json!({"type": "round", "rounds": rounds}),
        Event::Chunk(_) | Event::Done(_) | Event::Failed(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use futures_util::StreamExt as _;
    use tokio::time::Instant;

    use super::*;
    use crate::tests::SETTINGS;
    use airlock_agent as agent;
    use airlock_conversation::Wire;
    use airlock_core::{
        door::{Budget, Caller, Filter, Origin},
        memory::MemoryBudget,
        request_memory::Memory,
        tenant::Tenant,
    };
    use airlock_fakes as fake;
    use airlock_ingress::Parts;
    use airlock_json::{RawObject, object};
    use airlock_model::Prompt;

    /// Starts a streamed chat.
    fn run_of(turns: &Value, timeout: Duration) -> Run {
        let (catalog, _happened) = fake::catalog();
        let view = catalog.snapshot().view(&Filter::none(), None);
        let body = json!({"model": "demo/m", "messages": [{"role": "user", "content": "go"}]});
        let request = agent::Request {
            wire: Wire::Chat,
            prompt: Prompt::new(RawObject::from(&object(body))),
            is_streamed: true,
            shows_rounds: false,
            max_tool_calls: None,
            approver: None,
            notes: airlock_conversation::Object::new(),
            tokens: agent::TokenVisibility::Hidden,
            names_tools: false,
            reports: None,
            results: None,
            keeper: None,
            budget: MemoryBudget::unlimited(),
            observer: None,
        };
        let settings = agent::Settings { timeout, ..SETTINGS };
        // Tools run until the request ends.
        let budget = Budget { deadline: Duration::from_hours(1), ..fake::BUDGET };
        let caller = Caller::new(view, Origin::Model, budget);
        agent::run(Arc::new(fake::scripted(turns)), caller, request, settings)
    }

    /// Starts a streamed chat and returns its body.
    async fn begin(turns: Value, timeout: Duration) -> Parts {
        let run = run_of(&turns, timeout);
        let memory = Memory::new(usize::MAX);
        let charge = memory.open(Tenant::ANONYMOUS, 0).expect("room");
        let stream = ChatStream::begin(run, ChatForm::new(false), false, charge).await;
        events::parts(stream.expect("it begins"))
    }

    /// Returns the parts of a streamed chat with their times in seconds, each as a word.
    async fn timeline(turns: Value, timeout: Duration) -> Vec<(u64, &'static str)> {
        let started = Instant::now();
        let parts = begin(turns, timeout).await.map(|part| {
            let part = std::str::from_utf8(&part).expect("UTF-8");
            let kind = match part.trim_end() {
                ": keep-alive" => "comment",
                "data: [DONE]" => "done",
                error if error.starts_with("event: error") => "error",
                chunk if chunk.starts_with("data: {") => "chunk",
                other => panic!("{other}"),
            };
            (started.elapsed().as_secs(), kind)
        });
        parts.collect().await
    }

    #[tokio::test]
    async fn the_trees_of_a_chunk_are_charged_before_they_are_written() {
        let texts = vec![Delta::Text { choice: 0, text: "x".to_owned() }; 64];
        for (limit, has_room) in [(64 * TREE_BYTES, false), (1 << 20, true)] {
            let memory = Memory::new(Memory::least_for(limit));
            let charge = memory.open(Tenant::ANONYMOUS, 0).expect("room");
            let before = charge.bytes();
            let mut stream = ChatStream {
                run: run_of(&json!([{"answer": {"content": "hi"}}]), Duration::from_mins(1)),
                form: Arc::new(Mutex::new(ChatForm::new(false))),
                work: None,
                wants_events: false,
                charge,
                waiting: VecDeque::new(),
                room: 0,
                has_ended: false,
            };
            let added = stream.add(Event::Chunk(texts.clone().into()));
            assert_eq!(added.is_ok(), has_room, "{limit}");
            assert_eq!(stream.waiting.len() >= texts.len(), has_room);
            let lines: usize = stream.waiting.iter().map(|line| line.len() + LINE_BYTES).sum();
            assert!(stream.charge.bytes() - before <= lines, "only the lines stay charged");
        }
    }

    #[tokio::test]
    async fn a_long_chunk_is_not_written_on_a_worker() {
        for (bytes, is_here) in [(10, true), (INLINE_BYTES, false)] {
            let memory = Memory::new(usize::MAX);
            let charge = memory.open(Tenant::ANONYMOUS, 0).expect("room");
            let run = run_of(&json!([{"answer": {"content": "hi"}}]), Duration::from_mins(1));
            let form = ChatForm::new(false);
            let begun = ChatStream::begin(run, form, false, charge).await;
            let mut stream = begun.expect("it begins");
            let text = Delta::Text { choice: 0, text: "x".repeat(bytes) };
            let added = stream.add(Event::Chunk(vec![text].into()));
            added.expect("room");
            assert_eq!(stream.waiting.is_empty(), !is_here, "{bytes}");
            let sent = stream.next().await.expect("the role");
            assert!(sent.ends_with(b"\n\n"));
            let sent = stream.next().await.expect("the text");
            assert!(sent.len() > bytes && stream.waiting.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn comments_are_sent_while_a_tool_runs_until_the_request_times_out() {
        let turns = json!([{"answer": {"tool_calls": [{"name": "desk-hang"}]}}]);
        let expected = [(0, "chunk"), (15, "comment"), (30, "comment"), (40, "error")];
        assert_eq!(timeline(turns, Duration::from_secs(40)).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_comment_between_two_chunks_of_a_slow_model_loses_neither() {
        let turns = json!([{"answer": {"content": "hi", "pace": "20s"}}]);
        let expected = [
            (20, "chunk"),
            (35, "comment"),
            (40, "chunk"),
            (55, "comment"),
            (70, "comment"),
            (80, "chunk"),
            (80, "done"),
        ];
        assert_eq!(timeline(turns, Duration::from_mins(5)).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_not_read_stops_the_model() {
        let turns = json!([{"answer": {"content": "word ".repeat(20), "pace": "1s"}}]);
        let mut parts = begin(turns, Duration::from_mins(5)).await;
        parts.next().await.expect("a chunk");
        tokio::time::sleep(Duration::from_mins(1)).await;
        let started = Instant::now();
        let rest = parts.count().await;
        assert_eq!(rest, 22, "20 words, the end and [DONE]");
        assert!(started.elapsed() > Duration::from_secs(18), "{:?}", started.elapsed());
    }
}
