//! The bounds of the queues, and the count of what is dropped.

use std::{
    error::Error,
    fmt::Display,
    mem,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tracing::warn;

/// Maximum elements that wait for an exporter, those that it is sending included.
pub(super) const QUEUE: usize = 2_048;
/// Maximum elements of one export.
pub(super) const BATCH: usize = 512;
/// Time between two warnings about the same kind of telemetry.
const QUIET: Duration = Duration::from_mins(1);
/// Kinds of telemetry.
const SIGNALS: [&str; 3] = ["traces", "metrics", "logs"];

/// Label of the metric.
type SignalLabel = [(&'static str, &'static str); 1];

static DROPPED: LazyLock<Family<SignalLabel, Counter>> = LazyLock::new(|| {
    let dropped: Family<SignalLabel, Counter> = Family::default();
    for signal in SIGNALS {
        dropped.get_or_create_owned(&[("signal", signal)]);
    }
    dropped
});

/// Registers the metrics of the export, which are those of the process.
pub fn register(registry: &mut Registry) {
    let help = "Spans, points of metrics and log records that no collector has taken";
    registry.register("airlock_telemetry_dropped", help, DROPPED.clone());
}

/// Counts what is dropped of one kind of telemetry, and warns at most once a minute.
#[derive(Debug)]
pub(super) struct DropCounter {
    signal: &'static str,
    pub(super) dropped: Counter,
    warning: Mutex<DropWarning>,
}

#[derive(Debug, Default)]
struct DropWarning {
    last: Option<Instant>,
    /// Elements that were dropped since then.
    unreported: u64,
    /// Reason that the last request failed.
    cause: Option<String>,
}

impl DropCounter {
    pub(super) fn new(signal: &'static str) -> Self {
        let dropped = DROPPED.get_or_create_owned(&[("signal", signal)]);
        Self { signal, dropped, warning: Mutex::default() }
    }

    /// Keeps the reason that a request failed, for the next warning.
    pub(super) fn explain(&self, error: &(dyn Error + Send + Sync)) {
        let mut causes = vec![error.to_string()];
        let mut source = error.source();
        while let Some(error) = source {
            causes.push(error.to_string());
            source = error.source();
        }
        self.warning.lock().cause = Some(causes.join(": "));
    }

    /// Counts elements that are dropped.
    pub(super) fn count(&self, elements: usize, reason: &str) {
        let warning = self.add(elements);
        if warning.last.is_none_or(|last| last.elapsed() >= QUIET) {
            self.warn(warning, reason);
        }
    }

    /// Counts the elements that are left at the end, and warns of all that no warning has had.
    fn end(&self, elements: usize, reason: &str) {
        let warning = self.add(elements);
        if warning.unreported > 0 {
            self.warn(warning, reason);
        }
    }

    fn add(&self, elements: usize) -> MutexGuard<'_, DropWarning> {
        let elements = elements as u64;
        self.dropped.inc_by(elements);
        let mut warning = self.warning.lock();
        warning.unreported += elements;
        warning
    }

    fn warn(&self, mut warning: MutexGuard<'_, DropWarning>, reason: &str) {
        let dropped = mem::take(&mut warning.unreported);
        let cause = warning.cause.take().unwrap_or_default();
        warning.last = Some(Instant::now());
        drop(warning);
        warn!(signal = self.signal, dropped, reason, cause, "telemetry is dropped");
    }
}

/// Room in the queue of an exporter.
#[derive(Debug)]
pub(super) struct QueueRoom {
    taken: Mutex<TakenBatch>,
    drops: Arc<DropCounter>,
}

#[derive(Debug, Default)]
struct TakenBatch {
    elements: usize,
    /// True once the export has ended.
    is_closed: bool,
}

impl QueueRoom {
    pub(super) fn new(drops: Arc<DropCounter>) -> Self {
        Self { taken: Mutex::default(), drops }
    }

    /// Takes the room of one element. Returns false, and counts the element, if there is none.
    pub(super) fn take(&self) -> bool {
        let mut taken = self.taken.lock();
        let has_room = taken.elements < QUEUE && !taken.is_closed;
        if has_room {
            taken.elements += 1;
            return true;
        }
        drop(taken);
        self.drops.count(1, "the queue is full");
        false
    }

    /// Returns the room of elements whose export has ended, and counts those that were not taken. After
    /// [`Self::close`] they are counted already.
    pub(super) fn exported<E: Display>(&self, elements: usize, result: &Result<(), E>) {
        let mut taken = self.taken.lock();
        if taken.is_closed {
            return;
        }
        taken.elements = taken.elements.saturating_sub(elements);
        drop(taken);
        if let Err(error) = result {
            self.drops.count(elements, &error.to_string());
        }
    }

    /// Ends the export: counts the elements that no collector has taken by now.
    pub(super) fn close(&self) {
        let mut taken = self.taken.lock();
        taken.is_closed = true;
        let left = mem::take(&mut taken.elements);
        drop(taken);
        self.drops.end(left, "the gateway has stopped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted_until_the_exporter_has_made_some() {
        let drops = Arc::new(DropCounter::new("traces"));
        let before = drops.dropped.get();
        let room = QueueRoom::new(drops.clone());
        assert!((0..QUEUE).all(|_| room.take()));
        assert!(!room.take());
        assert_eq!(drops.dropped.get(), before + 1);
        room.exported(2, &Ok::<_, String>(()));
        assert!(room.take() && room.take() && !room.take());
        room.exported(3, &Err("status 500"));
        assert_eq!(drops.dropped.get(), before + 5);
    }

    #[test]
    fn what_is_left_at_the_end_is_counted_once() {
        let drops = Arc::new(DropCounter::new("logs"));
        let before = drops.dropped.get();
        let room = QueueRoom::new(drops.clone());
        assert!((0..5).all(|_| room.take()));
        room.exported(2, &Ok::<_, String>(()));
        room.close();
        assert_eq!(drops.dropped.get(), before + 3);
        room.exported(3, &Err("too late"));
        assert_eq!(drops.dropped.get(), before + 3, "they are counted already");
        assert!(!room.take());
    }
}
