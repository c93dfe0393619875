//! The thread that writes the batches of one log, and then notifies the callers that wait.
//!
//! ```text
//! take ─► render ─► write ─► settled
//!                   ▲   │ fails: the waiting callers are notified, and
//!                   └───┘ the same batch is tried again after a pause
//! ```

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use tracing::{error, info};

use crate::queue::{EventQueue, QueuedEvent};
use airlock_core::tool::Cause;
use airlock_strings::with_causes;

/// Time before a batch is tried again. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest time before a batch is tried again.
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// Time between two messages about failures.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);
/// Attempts for a batch once the gateway stops.
const LAST_ATTEMPTS: u32 = 3;
/// Deadline for events of a log with nothing else to do: the thread wakes up and goes on waiting.
const IDLE: Duration = Duration::from_mins(10);

/// A log, as its writer sees it.
pub(crate) trait LogSink: Send {
    /// Events in the form of the log.
    type Rendered;

    /// Name of the log, in metrics and messages.
    const NAME: &'static str;

    /// Renders events. `None` if the log has nothing of them.
    fn render(&self, events: &[QueuedEvent]) -> Option<Self::Rendered>;

    /// Writes events, all or none. They are durable when it returns.
    fn write(&mut self, events: &Self::Rendered) -> Result<(), Cause>;

    /// Returns the time at which the log needs [`Self::wake`]; `None` if it needs nothing.
    fn wakes_at(&self) -> Option<Instant> {
        None
    }

    /// Does what is due.
    fn wake(&mut self) {}
}

/// The writer of a log.
struct LogWriter<S> {
    queue: Arc<EventQueue>,
    sink: S,
    /// Time of the last message about a failure.
    reported: Option<Instant>,
}

/// A batch on its way into the log.
struct EventBatch<R> {
    /// `None` if the log has nothing of it.
    rendered: Option<R>,
    waiters: Vec<oneshot::Sender<bool>>,
    events: u64,
    /// Room that it has in the queue.
    count: usize,
    bytes: usize,
}

/// Starts the thread that writes what comes into a queue. It ends once the queue is closed and empty. Fails if the
/// system starts no thread.
pub(crate) fn start<S: LogSink + 'static>(
    queue: Arc<EventQueue>,
    sink: S,
) -> io::Result<JoinHandle<()>> {
    let mut writer = LogWriter { queue, sink, reported: None };
    thread::Builder::new().name(format!("records-{}", S::NAME)).spawn(move || writer.run())
}

impl<S: LogSink> LogWriter<S> {
    fn run(&mut self) {
        loop {
            let deadline = self.sink.wakes_at().unwrap_or_else(|| Instant::now() + IDLE);
            let Some(events) = self.queue.take(deadline) else { break };
            if !events.is_empty() {
                let batch = self.batch(events);
                self.write(batch);
            }
            if self.sink.wakes_at().is_some_and(|at| Instant::now() >= at) {
                self.sink.wake();
            }
        }
    }

    fn batch(&self, mut events: Vec<QueuedEvent>) -> EventBatch<S::Rendered> {
        let waiters = events.iter_mut().filter_map(|event| event.waiter.take()).collect();
        let queued = events.iter().filter(|event| event.bytes > 0);
        EventBatch {
            rendered: self.sink.render(&events),
            waiters,
            events: events.len() as u64,
            // The note about lost events has no room of its own.
            count: queued.count(),
            bytes: events.iter().map(|event| event.bytes).sum(),
        }
    }

    /// Writes a batch, as often as it takes. Gives it up only after the queue is closed.
    fn write(&mut self, mut batch: EventBatch<S::Rendered>) {
        let mut pause = FIRST_PAUSE;
        let mut attempts_left = LAST_ATTEMPTS;
        let is_written = loop {
            let rendered = batch.rendered.as_ref();
            let written = rendered.map_or(Ok(()), |rendered| self.sink.write(rendered));
            let Err(cause) = written else { break true };
            self.fail(&mut batch.waiters, &cause);
            if self.queue.is_closed() {
                attempts_left -= 1;
                if attempts_left == 0 {
                    break false;
                }
                thread::sleep(pause);
            } else {
                self.queue.wait_closed(pause);
            }
            pause = (pause * 2).min(LAST_PAUSE);
        };
        let queue = &self.queue;
        if is_written {
            if queue.is_failing() {
                info!(log = S::NAME, "records are written again");
                self.reported = None;
            }
            queue.metrics.written.inc_by(batch.events);
        } else {
            let events = batch.events;
            error!(log = S::NAME, events, "the gateway stops, and its last records are lost");
            queue.metrics.lost.inc_by(events);
        }
        queue.settle(batch.count, batch.bytes);
        if is_written {
            // After the events have left the queue: one that was not written in time is none of them any more. And
            // before the callers go on, whose next calls would be refused.
            queue.set_failing(false);
        }
        tell(&mut batch.waiters, is_written);
    }

    /// Fails the callers that wait for a batch, and for those after it: these cannot be written now.
    fn fail(&mut self, waiters: &mut Vec<oneshot::Sender<bool>>, cause: &Cause) {
        self.queue.metrics.failures.inc();
        self.queue.set_failing(true);
        tell(waiters, false);
        self.queue.fail_waiters();
        let is_due = self.reported.is_none_or(|reported| reported.elapsed() >= REPORT_INTERVAL);
        if is_due {
            self.reported = Some(Instant::now());
            let error = with_causes(&**cause);
            error!(log = S::NAME, error, "records cannot be written; the gateway tries again");
        }
    }
}

fn tell(waiters: &mut Vec<oneshot::Sender<bool>>, is_written: bool) {
    for waiter in waiters.drain(..) {
        // One that waits no more needs no answer.
        let _ = waiter.send(is_written);
    }
}

#[cfg(test)]
mod tests;
