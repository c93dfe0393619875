//! The response of a request that has just begun in a session.
//!
//! ```text
//!            the response is ready
//!  Attended ───────────────────────► Ended        events are forgotten
//!     │
//!     │ the client gets a stream, or has left
//!     ▼
//!  Detached ───────────────────────► Ended        events of a stream are kept for a while
//! ```
//!
//! Most requests end before their clients get a stream. Their work is part of the task that waits for the
//! response; a task of its own is there only for work that outlives this one.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

use futures_util::future::BoxFuture;
use tokio::{runtime::Handle, time::sleep};

use super::{KEPT_FOR, Session};
use crate::event_log::{EventLog, EventReader, Next};

/// The response of a request in a session. The request is worked on while the response is awaited, and in a
/// task of its own once this is dropped.
pub struct SessionResponse {
    // Dropped first, which decides whether there is a stream to resume.
    reader: EventReader,
    work: RequestWork,
}

/// The work of a request. Dropping it before the request has ended moves the rest to a task.
struct RequestWork {
    /// `None` once the request has ended.
    attended: Option<BoxFuture<'static, ()>>,
    session: Arc<Session>,
    log: Arc<EventLog>,
    runtime: Handle,
}

impl SessionResponse {
    /// Creates the response of a request whose `work` fills `log`. Must be called within a tokio runtime.
    pub(super) fn new(
        work: impl Future<Output = ()> + Send + 'static,
        session: Arc<Session>,
        log: Arc<EventLog>,
    ) -> Self {
        let reader = log.reader(0);
        let attended: BoxFuture<'static, ()> = Box::pin(work);
        let runtime = Handle::current();
        Self { reader, work: RequestWork { attended: Some(attended), session, log, runtime } }
    }

    /// Waits for the first message to the client, and does not take it; `None` if there is none. Dropping the
    /// future loses nothing.
    pub async fn peek(&mut self) -> Option<Next> {
        let Self { reader, work } = self;
        let mut working = pin!(work.run());
        poll_fn(|context| match working.as_mut().poll(context) {
            // Only the work adds messages.
            Poll::Pending if !reader.has_next() => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
        reader.peek().await
    }

    /// Waits for the response; `None` if there is none. What precedes it is dropped.
    pub async fn response(&mut self) -> Option<Arc<String>> {
        self.work.run().await;
        self.reader.response().await
    }

    /// Notes that the client receives the messages as a stream, which it may lose.
    pub fn into_stream(self) -> EventReader {
        let Self { reader, work } = self;
        reader.begin_stream();
        drop(work);
        reader
    }
}

impl RequestWork {
    async fn run(&mut self) {
        if let Some(attended) = &mut self.attended {
            attended.await;
            self.attended = None;
        }
    }
}

impl Drop for RequestWork {
    fn drop(&mut self) {
        let attended = self.attended.take();
        if attended.is_none() && !self.log.has_stream() {
            self.session.forget(self.log.stream);
            return;
        }
        let kept = keep(self.session.clone(), self.log.clone());
        self.runtime.spawn(async move {
            if let Some(attended) = attended {
                attended.await;
            }
            kept.await;
        });
    }
}

/// Keeps the events of a request that has ended for as long as its client may resume the stream.
async fn keep(session: Arc<Session>, log: Arc<EventLog>) {
    let stream = log.stream;
    let dropped = log.dropped().clone();
    let has_stream = log.has_stream();
    // While the events are kept, the session alone holds them.
    drop(log);
    if has_stream {
        let _ = dropped.run_until_cancelled(sleep(KEPT_FOR)).await;
    }
    session.forget(stream);
}
