//! Streamed Responses: typed server-sent events, each with its `sequence_number`.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::Value;

use super::composer::Composer;
use airlock_agent::{Event, Run};
use airlock_http::{
    events::{self, Source},
    respond::ApiError,
};
use airlock_model::Object;

/// One streamed Response.
pub struct ResponseStream {
    run: Run,
    composer: Composer,
    /// Stream events that are not sent yet.
    waiting: VecDeque<Object>,
    has_ended: bool,
}

impl ResponseStream {
    /// Waits for the first event of the loop. Fails if the request fails before it, so that the
    /// failure has a status of its own.
    pub async fn begin(mut run: Run, mut composer: Composer) -> Result<Self, ApiError> {
        run.begin().await.map_err(|error| *error)?;
        let mut begun = Vec::new();
        composer.begin(&mut begun);
        Ok(Self { run, composer, waiting: begun.into(), has_ended: false })
    }

    /// Adds an event of the loop. After a failure the stream ends with `response.failed`, because
    /// typed clients know no other end.
    fn take(&mut self, event: Event) {
        let mut out = Vec::new();
        if let Err(error) = self.composer.add(event, &mut out) {
            self.composer.fail(error, &mut out);
            self.has_ended = true;
        }
        self.waiting.extend(out);
    }
}

impl Source for ResponseStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(render(&event));
            }
            if self.has_ended {
                return None;
            }
            if self.composer.is_complete() {
                let last = self.composer.conclude().await;
                self.has_ended = true;
                return Some(render(&last));
            }
            let event = self.run.next().await?;
            self.take(event);
        }
    }
}

fn render(event: &Object) -> Bytes {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    events::typed(kind, &serde_json::to_string(event).unwrap_or_default())
}
