//! Metrics of the records.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// Numbers of events. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordMetrics {
    /// Events that are in every log.
    pub(crate) written: Counter,
    /// Events that had no room.
    pub(crate) lost: Counter,
    /// Calls with effects that ran although a log could not be written.
    pub(crate) unrecorded: Counter,
    /// Calls that were refused because a log could not be written.
    pub(crate) refused: Counter,
    /// Attempts to write a batch that have failed.
    pub(crate) failures: Counter,
    /// Events that wait to be written.
    pub(crate) waiting: Gauge,
}

impl RecordMetrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let counters = [
            ("airlock_records_written", "Events that were written to every log", &self.written),
            (
                "airlock_records_lost",
                "Events that were dropped because a log could not be written for too long",
                &self.lost,
            ),
            (
                "airlock_records_unrecorded_calls",
                "Calls with effects that ran although their record could not be written",
                &self.unrecorded,
            ),
            (
                "airlock_records_refused_calls",
                "Calls that were refused because their record could not be written",
                &self.refused,
            ),
            (
                "airlock_records_write_failures",
                "Attempts to write a batch of events that have failed",
                &self.failures,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let help = "Events that wait to be written";
        registry.register("airlock_records_waiting", help, self.waiting.clone());
    }
}
