//! Spans on their way to a collector.

use std::{sync::Arc, time::Duration};

use opentelemetry::{Context, InstrumentationScope, trace::TracerProvider as _};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, RetryPolicy, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, Sampler as SdkSampler, SdkTracer,
        SdkTracerProvider, ShouldSample, Span, SpanData, SpanExporter, SpanProcessor,
    },
};

use super::{
    client::CollectorClient,
    queue::{BATCH, QUEUE, QueueRoom},
};
use crate::settings::{Collector, OtlpSettings, Sampler};

/// Name of the part of the program that makes the spans.
const SCOPE: &str = "airlock";

/// Makes what records and exports spans.
pub(super) fn provider(
    settings: &OtlpSettings,
    collector: &Collector,
    client: CollectorClient,
    room: Arc<QueueRoom>,
    resource: Resource,
) -> Result<SdkTracerProvider, ExporterBuildError> {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
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
        .with_scheduled_delay(settings.trace_interval)
        .build();
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(BoundedSpans { batches, room })
        .with_sampler(sampler(settings.sampler))
        .with_resource(resource)
        .build())
}

/// Returns what makes the gateway's spans.
pub(super) fn tracer(provider: &SdkTracerProvider) -> SdkTracer {
    let scope = InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION"));
    provider.tracer_with_scope(scope.build())
}

fn sampler(sampler: Sampler) -> Box<dyn ShouldSample> {
    let of_roots = match sampler.ratio {
        all if all >= 1.0 => SdkSampler::AlwaysOn,
        none if none <= 0.0 => SdkSampler::AlwaysOff,
        ratio => SdkSampler::TraceIdRatioBased(ratio),
    };
    if sampler.is_parent_based {
        Box::new(SdkSampler::ParentBased(Box::new(of_roots)))
    } else {
        Box::new(of_roots)
    }
}

/// The batches of the SDK, which would drop what has no room without a count.
#[derive(Debug)]
struct BoundedSpans {
    batches: BatchSpanProcessor,
    room: Arc<QueueRoom>,
}

impl SpanProcessor for BoundedSpans {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.room.take() {
            self.batches.on_end(span);
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
    exporter: opentelemetry_otlp::SpanExporter,
    room: Arc<QueueRoom>,
}

impl SpanExporter for CountedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        self.room.exported(spans, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
