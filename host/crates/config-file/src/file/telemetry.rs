//! `telemetry`, as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::env_text::EnvText;

/// Telemetry: the data that the gateway exports to other programs.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The export of traces, metrics and log records.
    pub otlp: Otlp,
}

/// The export over OTLP/HTTP, in protobuf. Keys that are not written have the values of OpenTelemetry's standard
/// variables in the environment of the gateway.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Otlp {
    /// URL of the collector, as in `http://127.0.0.1:4318`; may be `env.NAME`. `/v1/traces`, `/v1/metrics` and
    /// `/v1/logs` are added. Default: those of the environment; without any, nothing is exported.
    pub endpoint: Option<EnvText>,
    /// Headers of each request to the collector; values may be `env.NAME`. Default: those of the environment.
    pub headers: Option<BTreeMap<String, EnvText>>,
    /// True to export traces. Default: true if there is a URL for them, unless `OTEL_TRACES_EXPORTER` is `none`.
    pub traces: Option<bool>,
    /// True to export metrics. Default: true if there is a URL for them, unless `OTEL_METRICS_EXPORTER` is `none`.
    pub metrics: Option<bool>,
    /// True to export log records. Default: true if there is a URL for them, unless `OTEL_LOGS_EXPORTER` is `none`.
    pub logs: Option<bool>,
    /// True to continue the trace of a caller with a virtual key: it then decides which of its requests are
    /// recorded. False to begin a trace of the gateway's own, with a link to that of the caller.
    pub trust_callers: bool,
}
