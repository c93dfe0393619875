//! Metrics of the records.

use std::{
    sync::atomic::AtomicU64,
    time::{SystemTime, UNIX_EPOCH},
};

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
    counted: Family<LogLabel, Counter>,
    lost: Family<LogLabel, Counter>,
    failures: Family<LogLabel, Counter>,
    waiting: Family<LogLabel, Gauge>,
    /// Calls with effects that ran although a log could not be written.
    pub(crate) unrecorded: Counter,
    /// Calls that were refused because a log could not be written.
    pub(crate) refused: Counter,
    pub(crate) checkpoints: CheckpointMetrics,
}

/// Metrics of the checkpoints of the audit log. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckpointMetrics {
    /// Checkpoints that could not be written.
    pub(crate) failed: Counter,
    signed: Counter,
    /// Lines that no checkpoint covers.
    pub(crate) unsigned: Gauge,
    /// Time of the last one, in seconds since 1970; 0 if there is none.
    last_signed: Gauge<f64, AtomicU64>,
}

impl CheckpointMetrics {
    /// Notes the number of lines that no checkpoint covers.
    pub(crate) fn note_unsigned(&self, lines: u64) {
        self.unsigned.set(i64::try_from(lines).unwrap_or(i64::MAX));
    }

    /// Notes that all lines are signed at a time.
    pub(crate) fn note_signed(&self, at: SystemTime) {
        self.signed.inc();
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_signed.set(at.as_secs_f64());
    }
}

/// Metrics of one log. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogMetrics {
    /// Events that are in the log.
    pub(crate) written: Counter,
    /// Events that are only counted.
    pub(crate) counted: Counter,
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
            counted: self.counted.get_or_create_owned(&label),
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
                "airlock_records_counted",
                "Refusals, and questions to users, that are only counted because their caller has caused too many",
                &self.counted,
            ),
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
        let help = "Lines of the audit log that no signed checkpoint covers yet";
        registry.register("airlock_audit_unsigned_lines", help, self.checkpoints.unsigned.clone());
        let help = "Time of the last signed checkpoint of the audit log since the start, in seconds since 1970; 0 if there is none";
        let last_signed = self.checkpoints.last_signed.clone();
        registry.register("airlock_audit_last_checkpoint_timestamp_seconds", help, last_signed);
        let counters = [
            (
                "airlock_audit_checkpoints",
                "Signed checkpoints of the audit log",
                &self.checkpoints.signed,
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
                "airlock_records_failed_checkpoints",
                "Checkpoints of the audit log that could not be written",
                &self.checkpoints.failed,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
    }
}
