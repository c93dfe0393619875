//! The export: traces, metrics and log records, each to its collector.
//!
//! Whatever a collector does, requests go on: queues are bounded, and what has no room or is not taken is counted and
//! dropped. Spans and log records are queued by the thread that makes them and sent by one thread of the SDK for each of
//! the two. Metrics are read from the gateway's registry and sent by a task.

mod client;
mod logs;
mod message;
mod metrics;
mod openmetrics;
mod queue;
mod resource;
mod traces;

use std::{error::Error, sync::Arc, thread, time::Duration};

use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::{logs::SdkLoggerProvider, trace::SdkTracerProvider};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use self::{
    client::CollectorClient,
    metrics::MetricExport,
    queue::{DropCounter, QueueRoom},
    resource::Attributes,
};
pub use self::{
    client::{MAX_RESPONSE_BYTES, OtlpTransport, Sending, TransportError},
    logs::LogLayer,
    queue::register as register_metrics,
};
use crate::{
    recorded,
    settings::{Collector, OtlpSettings},
    span,
};

/// Error of an export that cannot start.
#[derive(Debug, thiserror::Error)]
#[error("the export over OTLP cannot start")]
pub struct StartError(#[source] Box<dyn Error + Send + Sync>);

/// The export of the process. It goes on until [`shutdown`](Self::shutdown).
pub struct Telemetry {
    tracer: Option<(SdkTracerProvider, Arc<QueueRoom>)>,
    logger: Option<(SdkLoggerProvider, Arc<QueueRoom>)>,
    /// The export of metrics, until there are any.
    metrics: Option<MetricExport>,
    pushing: Option<MetricPush>,
}

/// The task that sends metrics.
struct MetricPush {
    task: JoinHandle<()>,
    /// Dropped to send the last ones.
    stop: oneshot::Sender<()>,
}

impl Telemetry {
    /// Starts the export of spans and log records. From now on spans are recorded. Must be called in a tokio runtime of
    /// several threads, on which requests to collectors are sent.
    pub fn start(
        settings: &OtlpSettings,
        transport: Arc<dyn OtlpTransport>,
    ) -> Result<Self, StartError> {
        let attributes = resource::attributes(settings);
        let exporters = Exporters { settings, transport, attributes };
        let telemetry = Self {
            tracer: exporters.traces().map_err(|error| StartError(error.into()))?,
            logger: exporters.logs().map_err(|error| StartError(error.into()))?,
            metrics: exporters.metrics(),
            pushing: None,
        };
        if let Some((tracer, _)) = &telemetry.tracer {
            recorded::trace_with(Some(traces::tracer(tracer)));
            span::switch(true, settings.trust_callers);
        }
        if let Some((logger, _)) = &telemetry.logger {
            logs::log_to(Some(logger));
        }
        Ok(telemetry)
    }

    /// Starts the export of metrics, once. `read` returns all of them in the text format of `OpenMetrics`; it may block.
    pub fn export_metrics(&mut self, read: impl Fn() -> String + Send + Sync + 'static) {
        if let Some(export) = self.metrics.take() {
            let (stop, stopped) = oneshot::channel();
            let task = tokio::spawn(export.push(Arc::new(read), stopped));
            self.pushing = Some(MetricPush { task, stop });
        }
    }

    /// Ends the recording, and sends what is left within `limit`. What could not be sent by then is dropped and
    /// counted.
    pub async fn shutdown(self, limit: Duration) {
        span::switch(false, false);
        recorded::trace_with(None);
        logs::log_to(None);
        let Self { tracer, logger, metrics: _, pushing } = self;
        let spans = async {
            if let Some((tracer, room)) = tracer {
                flush(limit, move || drop(tracer.shutdown_with_timeout(limit))).await;
                room.close();
            }
        };
        let records = async {
            if let Some((logger, room)) = logger {
                flush(limit, move || drop(logger.shutdown_with_timeout(limit))).await;
                room.close();
            }
        };
        let values = async {
            if let Some(MetricPush { mut task, stop }) = pushing {
                drop(stop);
                if timeout(limit, &mut task).await.is_err() {
                    task.abort();
                }
            }
        };
        tokio::join!(spans, records, values);
    }
}

/// Makes the exporters of the three kinds of telemetry, of those that have a collector.
struct Exporters<'s> {
    settings: &'s OtlpSettings,
    transport: Arc<dyn OtlpTransport>,
    attributes: Attributes,
}

impl Exporters<'_> {
    fn traces(&self) -> Result<Option<(SdkTracerProvider, Arc<QueueRoom>)>, ExporterBuildError> {
        let Some(collector) = &self.settings.traces else { return Ok(None) };
        let client = self.client(collector, "traces");
        let room = Arc::new(QueueRoom::new(client.drops().clone()));
        let resource = resource::of_sdk(&self.attributes);
        let provider = traces::provider(self.settings, collector, client, room.clone(), resource)?;
        Ok(Some((provider, room)))
    }

    fn logs(&self) -> Result<Option<(SdkLoggerProvider, Arc<QueueRoom>)>, ExporterBuildError> {
        let Some(collector) = &self.settings.logs else { return Ok(None) };
        let client = self.client(collector, "logs");
        let room = Arc::new(QueueRoom::new(client.drops().clone()));
        let resource = resource::of_sdk(&self.attributes);
        let provider = logs::provider(self.settings, collector, client, room.clone(), resource)?;
        Ok(Some((provider, room)))
    }

    fn metrics(&self) -> Option<MetricExport> {
        let client = self.client(self.settings.metrics.as_ref()?, "metrics");
        let resource = resource::of_protocol(&self.attributes);
        Some(MetricExport::new(client, self.settings.metric_interval, resource))
    }

    fn client(&self, collector: &Collector, signal: &'static str) -> CollectorClient {
        let drops = Arc::new(DropCounter::new(signal));
        CollectorClient::new(collector, self.transport.clone(), drops)
    }
}

/// Runs the end of an exporter, which blocks, and waits for it for at most `limit`. Its thread is none of the runtime,
/// which would wait for it without a limit.
async fn flush(limit: Duration, end: impl FnOnce() + Send + 'static) {
    let (ended, has_ended) = oneshot::channel::<()>();
    let spawned = thread::Builder::new().name("airlock-flush".to_owned()).spawn(move || {
        end();
        drop(ended);
    });
    if spawned.is_ok() {
        let _ = timeout(limit, has_ended).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_exporter_that_does_not_end_is_not_waited_for() {
        let (release, released) = std::sync::mpsc::channel::<()>();
        flush(Duration::from_millis(5), move || {
            // It fails when the test has ended.
            let _ = released.recv();
        })
        .await;
        drop(release);
    }
}
