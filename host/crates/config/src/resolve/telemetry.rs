//! `telemetry`, with the standard variables of OpenTelemetry, over which the file wins.

mod variables;

use http::{HeaderName, HeaderValue, Uri};

use self::variables::OtelVariables;
use super::{endpoint, file_env::FileEnv, resolved::Resolved};
use airlock_config_file::{env_text::EnvText, file, refused::InvalidValue};
use airlock_telemetry::settings::{Collector, OtlpSettings, TelemetrySettings};

/// Headers that the export itself sets.
const RESERVED: [&str; 6] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
];

/// One kind of telemetry.
#[derive(Debug, Clone, Copy)]
struct Signal {
    /// Its key in the file, and the end of its path.
    key: &'static str,
    /// Its part of the names of variables.
    variable: &'static str,
}

const TRACES: Signal = Signal { key: "traces", variable: "TRACES" };
const METRICS: Signal = Signal { key: "metrics", variable: "METRICS" };
const LOGS: Signal = Signal { key: "logs", variable: "LOGS" };

/// The collector as the file has it.
struct WrittenCollector {
    base: Option<String>,
    headers: Option<Vec<(HeaderName, HeaderValue)>>,
}

/// Resolves telemetry.
pub(super) fn resolve(file: file::Telemetry, env: FileEnv<'_>) -> Resolved<TelemetrySettings> {
    Resolved::new(|problems| TelemetrySettings {
        otlp: problems.take("otlp", otlp(file.otlp, env)),
    })
}

/// Resolves the export; `None` if nothing is exported.
fn otlp(file: file::Otlp, env: FileEnv<'_>) -> Resolved<Option<OtlpSettings>> {
    let variables = OtelVariables(env);
    Resolved::new(|problems| {
        let file::Otlp { endpoint, headers, traces, metrics, logs, trust_callers } = file;
        if endpoint.is_none() && variables.are_disabled() {
            return None;
        }
        let base = match endpoint {
            Some(text) => Some(problems.accept("endpoint", base(text, env))?),
            None => None,
        };
        let headers = headers.map(|headers| {
            let headers = endpoint::headers(headers, |name| RESERVED.contains(&name.as_str()), env);
            problems.take("headers", headers)
        });
        let headers = headers.map(|headers| {
            let parsed = headers.iter().filter_map(|(name, value)| {
                Some((
                    name.parse::<HeaderName>().ok()?,
                    HeaderValue::from_str(value.expose()).ok()?,
                ))
            });
            parsed.map(sensitive).collect()
        });
        let written = WrittenCollector { base, headers };
        let traces = problems.take(TRACES.key, collector(TRACES, traces, &written, variables));
        let metrics = problems.take(METRICS.key, collector(METRICS, metrics, &written, variables));
        let logs = problems.take(LOGS.key, collector(LOGS, logs, &written, variables));
        if traces.is_none() && metrics.is_none() && logs.is_none() {
            return None;
        }
        let resource = problems.accept_whole(variables.resource())?;
        Some(OtlpSettings {
            traces,
            metrics,
            logs,
            trust_callers,
            sampler: problems.accept_whole(variables.sampler())?,
            service_name: variables.service_name(&resource),
            resource,
            trace_interval: problems
                .accept_whole(variables.interval("OTEL_BSP_SCHEDULE_DELAY", 5_000))?,
            log_interval: problems
                .accept_whole(variables.interval("OTEL_BLRP_SCHEDULE_DELAY", 1_000))?,
            metric_interval: problems
                .accept_whole(variables.interval("OTEL_METRIC_EXPORT_INTERVAL", 60_000))?,
        })
    })
}

/// Resolves the collector of one kind of telemetry; `None` if it is not exported.
fn collector(
    signal: Signal,
    wanted: Option<bool>,
    written: &WrittenCollector,
    variables: OtelVariables<'_>,
) -> Resolved<Option<Collector>> {
    Resolved::new(|problems| {
        if wanted == Some(false) {
            return None;
        }
        let Some(url) = problems.accept_whole(url(signal, written, variables))? else {
            if wanted == Some(true) {
                problems.refuse_whole(
                    "needs an `endpoint` beside it, or the environment variable OTEL_EXPORTER_OTLP_ENDPOINT",
                );
            }
            return None;
        };
        if wanted.is_none() && !problems.accept_whole(variables.exports(signal))? {
            return None;
        }
        problems.accept_whole(variables.check_protocol(signal))?;
        let headers = match &written.headers {
            Some(headers) => headers.clone(),
            None => problems.accept_whole(variables.headers(signal))?,
        };
        let timeout = problems.accept_whole(variables.timeout(signal))?;
        Some(Collector { url, headers, timeout })
    })
}

/// Returns the URL of a collector, to which the paths of the kinds of telemetry are added.
fn base(text: EnvText, env: FileEnv<'_>) -> Result<String, InvalidValue> {
    let url = endpoint::url(text, env)?;
    if url.contains(['?', '#']) {
        return Err("expected a URL without a query: a path is added to it".into());
    }
    Ok(url)
}

/// Returns the whole URL for one kind of telemetry; `None` if there is none.
fn url(
    signal: Signal,
    written: &WrittenCollector,
    variables: OtelVariables<'_>,
) -> Result<Option<Uri>, String> {
    match &written.base {
        Some(base) => Ok(below(base, signal)),
        None => variables.url(signal),
    }
}

/// Returns the URL of one kind of telemetry below that of a collector; `None` if that is not possible.
fn below(base: &str, signal: Signal) -> Option<Uri> {
    let base = Some(base).filter(|base| !base.contains(['?', '#']))?;
    format!("{}/v1/{}", base.trim_end_matches('/'), signal.key).parse().ok()
}

/// Keeps the value of a header out of logs.
fn sensitive((name, mut value): (HeaderName, HeaderValue)) -> (HeaderName, HeaderValue) {
    value.set_sensitive(true);
    (name, value)
}
