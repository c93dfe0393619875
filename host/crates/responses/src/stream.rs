//! Streamed Responses: typed server-sent events, each with its `sequence_number`.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::composer::Composer;
use airlock_agent::{Event, Run};
use airlock_conversation::Object;
use airlock_core::threads::{self, INLINE_BYTES};
use airlock_http::{
    events::{self, EventSource},
    respond::ApiError,
};

/// One streamed Response.
pub struct ResponseStream {
    run: Run,
    /// `None` while `work` has it.
    composer: Option<Box<Composer>>,
    /// Writes long stream events. Kept here, so that no event is lost if `next` is dropped.
    work: Option<BoxFuture<'static, Composed>>,
    /// Stream events that are not sent yet.
    waiting: VecDeque<Bytes>,
    has_ended: bool,
}

/// A composer after a step, and the stream events of this step.
struct Composed {
    composer: Box<Composer>,
    events: Vec<Bytes>,
    /// True if they are the last ones.
    has_ended: bool,
}

impl ResponseStream {
    /// Waits for the first event of the loop. Fails if the request fails before it, so that the
    /// failure has a status of its own.
    pub async fn begin(mut run: Run, composer: Composer) -> Result<Self, ApiError> {
        run.begin().await.map_err(|error| error.into_error_reply())?;
        let waiting = VecDeque::new();
        let mut this = Self { run, composer: None, work: None, waiting, has_ended: false };
        let bytes = composer.response_bytes();
        this.start(Box::new(composer), bytes, |composer, out| {
            composer.begin(out);
            false
        });
        Ok(this)
    }

    /// Runs a step that reads or copies `bytes`: here if they are few, else on a blocking thread. The step appends
    /// stream events, and returns true if they are the last ones.
    fn start(
        &mut self,
        composer: Box<Composer>,
        bytes: usize,
        step: impl FnOnce(&mut Composer, &mut Vec<Object>) -> bool + Send + 'static,
    ) {
        if bytes <= INLINE_BYTES {
            return self.receive(compose(composer, step));
        }
        let tenant = composer.tenant().clone();
        self.work =
            Some(Box::pin(
                async move { threads::run(&tenant, move || compose(composer, step)).await },
            ));
    }

    fn receive(&mut self, composed: Composed) {
        self.composer = Some(composed.composer);
        self.waiting.extend(composed.events);
        self.has_ended = composed.has_ended;
    }
}

impl EventSource for ResponseStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if let Some(work) = &mut self.work {
                let composed = work.await;
                self.work = None;
                self.receive(composed);
                continue;
            }
            let composer = self.composer.as_mut().filter(|_| !self.has_ended)?;
            if composer.is_complete() {
                let last = composer.conclude().await;
                let bytes = composer.response_bytes();
                let composer = self.composer.take()?;
                self.start(composer, bytes, move |_, out| {
                    out.push(last);
                    true
                });
                continue;
            }
            let event = self.run.next().await?;
            let composer = self.composer.take()?;
            let bytes = composer.work_bytes(&event);
            self.start(composer, bytes, move |composer, out| add(composer, event, out));
        }
    }
}

/// Adds an event of the loop. Returns true after a failure: the stream ends with `response.failed`, because typed
/// clients know no other end.
fn add(composer: &mut Composer, event: Event, out: &mut Vec<Object>) -> bool {
    match composer.add(event, out) {
        Ok(()) => false,
        Err(error) => {
            composer.fail(error, out);
            true
        }
    }
}

/// Runs a step, and writes its stream events as text.
fn compose(
    mut composer: Box<Composer>,
    step: impl FnOnce(&mut Composer, &mut Vec<Object>) -> bool,
) -> Composed {
    let mut out = Vec::new();
    let has_ended = step(&mut composer, &mut out);
    // Each is dropped once it is written.
    let events = out.into_iter().map(|event| events::object(&event)).collect();
    Composed { composer, events, has_ended }
}
