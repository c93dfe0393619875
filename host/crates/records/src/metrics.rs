//! Metrics of the records.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Label of the metrics of one log.
type LogLabel = [(&'static str, &'static str); 1];

/// Metrics of all logs, and of calls. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordMetrics {
    written: Family<LogLabel, Counter>,
    lost: Family<LogLabel, Counter>,
    failures: Family<LogLabel, Counter>,
    waiting: Family<LogLabel, Gauge>,
    /// Calls with effects that ran although a log could not be written.
    pub(crate) unrecorded: Counter,
    /// Calls that were refused because a log could not be written.
    pub(crate) refused: Counter,
    /// Checkpoints of the audit log that could not be written.
    pub(crate) failed_checkpoints: Counter,
}

/// Metrics of one log. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogMetrics {
    /// Events that are in the log.
    pub(crate) written: Counter,
    /// Events that had no room.
    pub(crate) lost: Counter,
    /// Attempts to write a batch that have failed.
    pub(crate) failures: Counter,
    /// Events that wait to be written.
    pub(crate) waiting: Gauge,
}

impl RecordMetrics {
    /// Returns the metrics of the log with this name.
    pub(crate) fn of_log(&self, name: &'static str) -> LogMetrics {
        let label = [("log", name)];
        LogMetrics {
            written: self.written.get_or_create_owned(&label),
            lost: self.lost.get_or_create_owned(&label),
            failures: self.failures.get_or_create_owned(&label),
            waiting: self.waiting.get_or_create_owned(&label),
        }
    }

    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let of_logs = [
            ("airlock_records_written", "Events that were written to a log", &self.written),
            (
                "airlock_records_lost",
                "Events that were dropped because a log could not be written for too long",
                &self.lost,
            ),
            (
                "airlock_records_write_failures",
                "Attempts to write a batch of events that have failed",
                &self.failures,
            ),
        ];
        for (name, help, counters) in of_logs {
            registry.register(name, help, counters.clone());
        }
        let help = "Events that wait to be written to a log";
        registry.register("airlock_records_waiting", help, self.waiting.clone());
        let counters = [
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
                "airlock_records_failed_checkpoints",
                "Checkpoints of the audit log that could not be written",
                &self.failed_checkpoints,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
    }
}
