//! Metrics of the operations on the database. Labels are lanes and kinds of errors, which are closed sets.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{
        MetricType,
        counter::Counter,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
};

use crate::error::Unavailable;

/// Upper bounds of the buckets of times, in seconds. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 12] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
/// Kinds of errors, in the order of their counters.
const ERRORS: [&str; 8] =
    ["busy", "locked", "disk_full", "gone", "failed", "unreachable", "sealed", "lost"];

/// Metrics of a database, of all its lanes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StoreMetrics(Arc<[LaneMetrics; 3]>);

/// Kind of a lane.
#[derive(Debug, Clone, Copy)]
pub enum LaneKind {
    /// Of changes.
    Write,
    /// Of reads.
    Read,
    /// Of long reads of the call log.
    Log,
}

/// Metrics of one lane. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LaneMetrics {
    name: &'static str,
    durations: Histogram,
    waiting: Gauge,
    errors: [Counter; ERRORS.len()],
    /// False if the last operation of any lane has failed because the database cannot be used.
    is_reachable: Arc<AtomicBool>,
}

/// An operation that is being observed. It is not timed if the value is dropped.
pub(crate) struct ObservedOperation<'m> {
    lane: &'m LaneMetrics,
    began: Instant,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        let is_reachable = Arc::new(AtomicBool::new(true));
        let lanes = ["write", "read", "log"].map(|name| LaneMetrics::new(name, &is_reachable));
        Self(Arc::new(lanes))
    }
}

impl StoreMetrics {
    /// Returns the metrics of a lane.
    pub fn lane(&self, kind: LaneKind) -> LaneMetrics {
        self.0[kind as usize].clone()
    }

    /// Notes whether the database could be opened.
    pub fn note_opened(&self, is_open: bool) {
        self.0[0].is_reachable.store(is_open, Ordering::Relaxed);
    }
}

impl LaneMetrics {
    fn new(name: &'static str, is_reachable: &Arc<AtomicBool>) -> Self {
        Self {
            name,
            durations: Histogram::new(BOUNDS_SECONDS),
            waiting: Gauge::default(),
            errors: ERRORS.map(|_| Counter::default()),
            is_reachable: is_reachable.clone(),
        }
    }

    /// Begins to observe an operation, which waits for its turn first.
    pub(crate) fn begin(&self) -> ObservedOperation<'_> {
        self.waiting.inc();
        ObservedOperation { lane: self, began: Instant::now() }
    }
}

impl ObservedOperation<'_> {
    /// Counts the operation with its error.
    pub(crate) fn end(self, error: Option<&Unavailable>) {
        let lane = self.lane;
        lane.durations.observe(self.began.elapsed().as_secs_f64());
        let Some(error) = error else {
            lane.is_reachable.store(true, Ordering::Relaxed);
            return;
        };
        lane.errors[error_index(error)].inc();
        let is_away = matches!(
            error,
            Unavailable::Unreachable
                | Unavailable::Gone
                | Unavailable::DiskFull
                | Unavailable::Failed(_)
        );
        if is_away {
            lane.is_reachable.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for ObservedOperation<'_> {
    fn drop(&mut self) {
        self.lane.waiting.dec();
    }
}

/// Returns the place of an error in [`ERRORS`].
fn error_index(error: &Unavailable) -> usize {
    match error {
        Unavailable::Busy => 0,
        Unavailable::Locked => 1,
        Unavailable::DiskFull => 2,
        Unavailable::Gone => 3,
        Unavailable::Failed(_) => 4,
        Unavailable::Unreachable => 5,
        Unavailable::Sealed(_) => 6,
        Unavailable::Lost => 7,
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let lanes = &*self.0;
        let name = "airlock_store_operation_duration_seconds";
        let help = "Time of an operation on the store, with its wait for a connection.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for lane in lanes {
            lane.durations.encode(family.encode_family(&[("lane", lane.name)])?)?;
        }
        let name = "airlock_store_operations_pending";
        let help = "Operations on the store that wait or run.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for lane in lanes {
            lane.waiting.encode(family.encode_family(&[("lane", lane.name)])?)?;
        }
        let name = "airlock_store_errors";
        let help = "Operations on the store that were not carried out, by the reason.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for lane in lanes {
            for (error, counter) in ERRORS.iter().zip(&lane.errors) {
                let labels = [("lane", lane.name), ("error_type", *error)];
                counter.encode(family.encode_family(&labels)?)?;
            }
        }
        let name = "airlock_store_reachable";
        let help = "0 if the store could not be used at the last attempt, else 1.";
        let is_reachable = lanes[0].is_reachable.load(Ordering::Relaxed);
        let value = ConstGauge::new(i64::from(is_reachable));
        value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::prometheus_text, registry::Registry};

    use super::*;

    fn shown(metrics: &StoreMetrics) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics.clone()));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).expect("text");
        text
    }

    fn has(metrics: &StoreMetrics, line: &str) -> bool {
        shown(metrics).lines().any(|shown| shown == line)
    }

    #[test]
    fn an_operation_counts_in_its_lane_and_an_error_by_its_kind() {
        let metrics = StoreMetrics::default();
        let lane = metrics.lane(LaneKind::Read);
        let running = lane.begin();
        assert!(has(&metrics, "airlock_store_operations_pending{lane=\"read\"} 1"));
        running.end(Some(&Unavailable::Unreachable));
        for line in [
            "airlock_store_operations_pending{lane=\"read\"} 0",
            "airlock_store_operation_duration_seconds_count{lane=\"read\"} 1",
            "airlock_store_errors_total{lane=\"read\",error_type=\"unreachable\"} 1",
            "airlock_store_errors_total{lane=\"write\",error_type=\"unreachable\"} 0",
            "airlock_store_reachable 0",
        ] {
            assert!(has(&metrics, line), "{line} in {}", shown(&metrics));
        }
        lane.begin().end(Some(&Unavailable::Busy));
        assert!(has(&metrics, "airlock_store_reachable 0"), "a busy lane tells nothing");
        lane.begin().end(None);
        assert!(has(&metrics, "airlock_store_reachable 1"));
        drop(lane.begin());
        assert!(has(&metrics, "airlock_store_operation_duration_seconds_count{lane=\"read\"} 3"));
    }
}
