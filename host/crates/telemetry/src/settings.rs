//! Signals that are exported, and their destinations. The defaults are those of the OpenTelemetry specification.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

/// Settings of telemetry.
#[derive(Debug, Clone, Default)]
pub struct TelemetrySettings {
    /// The export over OTLP; `None` to export nothing.
    pub otlp: Option<OtlpSettings>,
}

/// Settings of the export over OTLP/HTTP.
#[derive(Debug, Clone)]
pub struct OtlpSettings {
    /// Collector of traces; `None` to record none.
    pub traces: Option<Collector>,
    /// Collector of metrics; `None` to send none.
    pub metrics: Option<Collector>,
    /// Collector of log records; `None` to send none.
    pub logs: Option<Collector>,
    /// True to continue the trace of a caller with a key. Otherwise its position is only a link.
    pub trust_callers: bool,
    /// Choice of the traces that are recorded.
    pub sampler: Sampler,
    /// `service.name` of the resource.
    pub service_name: String,
    /// Further attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// Time between two exports of spans.
    pub trace_interval: Duration,
    /// Time between two exports of log records.
    pub log_interval: Duration,
    /// Time between two exports of metrics.
    pub metric_interval: Duration,
}

/// A collector of one kind of telemetry.
#[derive(Debug, Clone)]
pub struct Collector {
    /// The whole URL, such as `http://127.0.0.1:4318/v1/traces`.
    pub url: Uri,
    /// Headers of each request. Their values are secret.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Time for one export, retries included.
    pub timeout: Duration,
}

/// Choice of the traces that are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Part of the traces that is recorded, from 0 to 1.
    pub ratio: f64,
    /// True if the decision of a parent counts.
    pub is_parent_based: bool,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { ratio: 1.0, is_parent_based: true }
    }
}
