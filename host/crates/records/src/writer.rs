//! The thread that writes batches: first the audit log, then the call log, then it tells who waits.
//!
//! ```text
//! take ─► render ─► audit ─► rows ─► settled
//!                     ▲        │ fails: those who wait are told, and
//!                     └─ pause ┘ the same batch is tried again
//! ```
//!
//! A batch that is in the audit log is not added to it again. If the disk of the audit log fails, so that the
//! log is opened again, a line of that batch may be there twice.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use crate::{
    event::Event,
    queue::{Entry, Queue},
    recorder::ToolPrices,
    render::{Rendered, Renderer},
    sink::{AuditSink, OpenAudit, RowSink},
};
use airlock_core::tool::Cause;
use airlock_store::call_log::LogBatch;
use airlock_strings::with_causes;

/// Time before a batch is tried again. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest time before a batch is tried again.
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// Time between two messages about failures.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);
/// Attempts for a batch once the gateway stops.
const LAST_ATTEMPTS: u32 = 3;
/// Deadline without checkpoints: the thread wakes up and goes on waiting.
const IDLE: Duration = Duration::from_mins(10);

/// The writer's part of the records.
pub(crate) struct Writer {
    pub(crate) queue: Arc<Queue>,
    /// `None` without an audit log.
    pub(crate) open_audit: Option<OpenAudit>,
    /// `None` without a call log.
    pub(crate) rows: Option<Box<dyn RowSink>>,
    pub(crate) keeps_contents: bool,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) prices: Arc<ArcSwapOption<Box<dyn ToolPrices>>>,
    /// Public key of the audit log, set when it is opened.
    pub(crate) public_key: Arc<ArcSwapOption<String>>,
}

/// The state of a writer that runs.
struct Writing {
    writer: Writer,
    /// `None` until it is open, and after a failure.
    audit: Option<Box<dyn AuditSink>>,
    /// Time of the next checkpoint, if there is anything new.
    checkpoint_at: Instant,
    has_new_lines: bool,
    reported: Option<Instant>,
}

/// A batch on its way into the logs.
struct Batch {
    lines: Vec<String>,
    rows: Arc<LogBatch>,
    waiters: Vec<oneshot::Sender<bool>>,
    events: u64,
    /// Room that it has in the queue.
    count: usize,
    bytes: usize,
    is_audited: bool,
    is_stored: bool,
}

impl Writer {
    /// Writes until the queue is closed and empty.
    pub(crate) fn run(self) {
        let checkpoint_at = Instant::now() + self.checkpoint_interval;
        let mut writing = Writing {
            writer: self,
            audit: None,
            checkpoint_at,
            has_new_lines: false,
            reported: None,
        };
        writing.run();
    }
}

impl Writing {
    fn run(&mut self) {
        loop {
            let deadline =
                if self.has_new_lines { self.checkpoint_at } else { Instant::now() + IDLE };
            let Some(entries) = self.writer.queue.take(deadline) else { break };
            if !entries.is_empty() {
                let batch = self.render(entries);
                self.write(batch);
            }
            if self.has_new_lines && Instant::now() >= self.checkpoint_at {
                self.checkpoint();
            }
        }
        // Dropping the audit log writes its last checkpoint.
        self.audit = None;
    }

    fn render(&self, mut entries: Vec<Entry>) -> Batch {
        let waiters = entries.iter_mut().filter_map(|entry| entry.waiter.take()).collect();
        let prices = self.writer.prices.load();
        let renderer = Renderer {
            has_audit: self.writer.open_audit.is_some(),
            has_call_log: self.writer.rows.is_some(),
            keeps_contents: self.writer.keeps_contents,
            prices: prices.as_deref().map(|prices| &**prices),
        };
        let Rendered { lines, rows } = renderer.batch(entries.iter().map(|entry| &entry.event));
        let queued = entries.iter().filter(|entry| !matches!(entry.event, Event::Lost(_)));
        let count = queued.count();
        Batch {
            events: entries.len() as u64,
            count,
            bytes: entries.iter().map(|entry| entry.bytes).sum(),
            is_audited: lines.is_empty(),
            is_stored: rows.is_empty(),
            lines,
            rows: Arc::new(rows),
            waiters,
        }
    }

    /// Writes a batch, as often as it takes. Gives it up only after the queue is closed.
    fn write(&mut self, mut batch: Batch) {
        let queue = self.writer.queue.clone();
        let mut pause = FIRST_PAUSE;
        let mut attempts_left = LAST_ATTEMPTS;
        let is_written = loop {
            let Err(cause) = self.attempt(&mut batch) else { break true };
            queue.metrics.failures.inc();
            queue.set_failing(true);
            tell(&mut batch.waiters, false);
            queue.fail_waiters();
            self.report(&cause);
            if queue.is_closed() {
                attempts_left -= 1;
                if attempts_left == 0 {
                    break false;
                }
                std::thread::sleep(pause);
            } else {
                queue.wait_closed(pause);
            }
            pause = (pause * 2).min(LAST_PAUSE);
        };
        if is_written {
            if queue.is_failing() {
                info!("records are written again");
                self.reported = None;
            }
            queue.metrics.written.inc_by(batch.events);
        } else {
            error!(events = batch.events, "the gateway stops, and its last records are lost");
            queue.metrics.lost.inc_by(batch.events);
        }
        queue.settle(batch.count, batch.bytes);
        if is_written {
            // After the events have left the queue: one that was not written in time is none of them any more. And
            // before the callers go on, whose next calls would be refused.
            queue.set_failing(false);
        }
        tell(&mut batch.waiters, is_written);
    }

    /// Writes what of a batch is not written yet.
    fn attempt(&mut self, batch: &mut Batch) -> Result<(), Cause> {
        if !batch.is_audited {
            let appended = match self.audit()? {
                Some(audit) => audit.append(&batch.lines),
                None => Ok(()),
            };
            if let Err(cause) = appended {
                // One that was only full stays open: to open it, its newest file is read.
                self.audit = self.audit.take().filter(|audit| !audit.has_failed());
                return Err(cause);
            }
            batch.is_audited = true;
            self.mark_new_lines();
        }
        if !batch.is_stored
            && let Some(rows) = &mut self.writer.rows
        {
            rows.write(batch.rows.clone())?;
        }
        batch.is_stored = true;
        Ok(())
    }

    fn mark_new_lines(&mut self) {
        if !self.has_new_lines {
            self.has_new_lines = true;
            self.checkpoint_at = Instant::now() + self.writer.checkpoint_interval;
        }
    }

    /// Returns the open audit log; `None` if there is none. Fails if it cannot be opened.
    fn audit(&mut self) -> Result<Option<&mut Box<dyn AuditSink>>, Cause> {
        if self.audit.is_none()
            && let Some(open) = &mut self.writer.open_audit
        {
            let audit = open()?;
            self.writer.public_key.store(Some(Arc::new(audit.public_key())));
            self.audit = Some(audit);
        }
        Ok(self.audit.as_mut())
    }

    fn checkpoint(&mut self) {
        self.has_new_lines = false;
        let Some(audit) = &mut self.audit else { return };
        if let Err(cause) = audit.checkpoint() {
            warn!(error = with_causes(&*cause), "the audit log has no new checkpoint");
            self.mark_new_lines();
        }
    }

    /// Logs a failure, once a minute.
    fn report(&mut self, cause: &Cause) {
        let is_due = self.reported.is_none_or(|reported| reported.elapsed() >= REPORT_INTERVAL);
        if is_due {
            self.reported = Some(Instant::now());
            error!(
                error = with_causes(&**cause),
                "records cannot be written; the gateway tries again"
            );
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
