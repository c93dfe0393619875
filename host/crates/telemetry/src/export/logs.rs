//! Log records on their way to a collector: the same events as on standard error, after the same filter.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use opentelemetry::{
    InstrumentationScope,
    logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity},
};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, RetryPolicy, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    logs::{
        BatchConfigBuilder, BatchLogProcessor, LogBatch, LogExporter, LogProcessor, SdkLogRecord,
        SdkLogger, SdkLoggerProvider,
    },
};
use parking_lot::RwLock;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use super::{
    client::CollectorClient,
    queue::{BATCH, QUEUE, QueueRoom},
};
use crate::{
    Span,
    settings::{Collector, OtlpSettings},
    value::{MAX_ELEMENTS, MAX_TEXT, cut},
};

/// Crates whose events are not exported: an export that fails would make the next one.
const OWN: [&str; 7] =
    ["airlock_telemetry", "h2", "hyper", "hyper_util", "opentelemetry", "rustls", "tokio"];

static IS_ON: AtomicBool = AtomicBool::new(false);
static LOGGER: RwLock<Option<SdkLogger>> = RwLock::new(None);

/// Begins the export of log records; ends it with `None`.
pub(super) fn log_to(provider: Option<&SdkLoggerProvider>) {
    *LOGGER.write() = provider.map(|provider| provider.logger("airlock"));
    IS_ON.store(provider.is_some(), Ordering::Relaxed);
}

/// Makes what exports log records.
pub(super) fn provider(
    settings: &OtlpSettings,
    collector: &Collector,
    client: CollectorClient,
    room: Arc<QueueRoom>,
    resource: Resource,
) -> Result<SdkLoggerProvider, ExporterBuildError> {
    let exporter = opentelemetry_otlp::LogExporter::builder()
        .with_http()
        .with_endpoint(collector.url.to_string())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(collector.timeout)
        .with_http_client(client)
        .with_retry_policy(RetryPolicy::recommended())
        .build()?;
    let exporter = CountedExporter { exporter, room: room.clone() };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(settings.log_interval)
        .build();
    let batches = BatchLogProcessor::builder(exporter).with_batch_config(batches).build();
    Ok(SdkLoggerProvider::builder()
        .with_log_processor(BoundedLogs { batches, room })
        .with_resource(resource)
        .build())
}

/// The part of the process's subscriber that exports events, with the ids of the current span. It does nothing until
/// the export of log records starts.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogLayer;

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !IS_ON.load(Ordering::Relaxed) || is_own(event.metadata().target()) {
            return;
        }
        let Some(logger) = LOGGER.read().clone() else { return };
        let metadata = event.metadata();
        let mut record = logger.create_log_record();
        record.set_timestamp(SystemTime::now());
        record.set_target(metadata.target());
        record.set_severity_number(severity(*metadata.level()));
        record.set_severity_text(metadata.level().as_str());
        event.record(&mut RecordedFields { record: &mut record, fields: 0 });
        let span = Span::current();
        if let Some(recorded) = span.recorded() {
            let context = recorded.context();
            let flags = Some(context.trace_flags());
            record.set_trace_context(context.trace_id(), context.span_id(), flags);
        }
        logger.emit(record);
    }
}

/// Returns whether a target is that of a crate whose events are not exported.
fn is_own(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    OWN.contains(&name) || name.starts_with("opentelemetry")
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warn,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        Level::TRACE => Severity::Trace,
    }
}

/// Takes the fields of an event, each within the bound of an attribute.
struct RecordedFields<'r> {
    record: &'r mut SdkLogRecord,
    fields: usize,
}

impl RecordedFields<'_> {
    fn add(&mut self, field: &Field, value: AnyValue) {
        if field.name() == "message" {
            self.record.set_body(value);
        } else if self.fields < MAX_ELEMENTS {
            self.fields += 1;
            self.record.add_attribute(field.name(), value);
        }
    }
}

impl Visit for RecordedFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, cut(format!("{value:?}"), MAX_TEXT).into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.chars().take(MAX_TEXT).collect::<String>().into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, i64::try_from(value).unwrap_or(i64::MAX).into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}

/// The batches of the SDK, which would drop what has no room without a count.
#[derive(Debug)]
struct BoundedLogs {
    batches: BatchLogProcessor,
    room: Arc<QueueRoom>,
}

impl LogProcessor for BoundedLogs {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if self.room.take() {
            self.batches.emit(record, scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// The exporter, which makes room in the queue.
#[derive(Debug)]
struct CountedExporter {
    exporter: opentelemetry_otlp::LogExporter,
    room: Arc<QueueRoom>,
}

impl LogExporter for CountedExporter {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let records = batch.iter().count();
        let result = self.exporter.export(batch).await;
        self.room.exported(records, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_export_itself_are_left_out() {
        for target in [
            "airlock_telemetry::export::queue",
            "hyper",
            "hyper_util::client",
            "opentelemetry_sdk",
            "rustls::client",
        ] {
            assert!(is_own(target), "{target}");
        }
        for target in ["airlock", "airlock_server::router", "hyperactive", "airlock_telemetry_not"]
        {
            assert!(!is_own(target), "{target}");
        }
    }
}
