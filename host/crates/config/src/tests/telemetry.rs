//! `telemetry`, with the variables of OpenTelemetry.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use airlock_telemetry::settings::{Collector, OtlpSettings, Sampler};

fn with(file: &Value, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    Config::parse(&file.to_string(), "/etc/airlock/gateway.json", &|name| {
        variables.get(name).map(|value| (*value).to_owned())
    })
}

fn otlp(file: &Value, variables: &[(&str, &str)]) -> Option<OtlpSettings> {
    with(file, variables).expect("a good configuration").telemetry.otlp
}

fn urls(settings: &OtlpSettings) -> [Option<String>; 3] {
    let collectors = [&settings.traces, &settings.metrics, &settings.logs];
    collectors.map(|collector| collector.as_ref().map(|collector| collector.url.to_string()))
}

fn shown_headers(collector: &Collector) -> Vec<String> {
    let headers = collector.headers.iter();
    headers.map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))).collect()
}

#[test]
fn nothing_is_exported_without_an_endpoint() {
    assert!(otlp(&json!({}), &[]).is_none());
    assert!(otlp(&json!({}), &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).is_none());
    let disabled =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_SDK_DISABLED", "true")];
    assert!(otlp(&json!({}), &disabled).is_none());
    let none = ["TRACES", "METRICS", "LOGS"].map(|signal| format!("OTEL_{signal}_EXPORTER"));
    let mut variables = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")];
    variables.extend(none.iter().map(|name| (name.as_str(), "none")));
    assert!(otlp(&json!({}), &variables).is_none());
}

#[test]
fn the_variables_alone_turn_the_export_on() {
    let settings = otlp(
        &json!({}),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/in?x=1"),
            ("OTEL_LOGS_EXPORTER", "none"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,authorization=Bearer%20hunter2"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "b=2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,region=eu%20west"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
        ],
    );
    let settings = settings.expect("it is on");
    let [traces, metrics, logs] = urls(&settings);
    assert_eq!(traces.as_deref(), Some("https://t/in?x=1"));
    assert_eq!(metrics.as_deref(), Some("http://c:4318/v1/metrics"));
    assert_eq!(logs, None);
    let traces = settings.traces.as_ref().expect("a collector");
    assert_eq!(shown_headers(traces), ["a: 1", "authorization: Bearer hunter2"]);
    assert_eq!(shown_headers(settings.metrics.as_ref().expect("a collector")), ["b: 2"]);
    assert_eq!(traces.timeout, Duration::from_millis(250));
    assert_eq!(settings.sampler, Sampler { ratio: 0.25, is_parent_based: true });
    assert_eq!(settings.service_name, "other");
    assert!(settings.resource.contains(&("region".to_owned(), "eu west".to_owned())));
    assert_eq!(settings.metric_interval, Duration::from_millis(100));
    assert!(!settings.trust_callers);
    assert!(!format!("{settings:?}").contains("hunter2"), "a secret is shown");
}

#[test]
fn the_file_wins_over_the_variables() {
    let file = json!({"telemetry": {"otlp": {
        "endpoint": "http://file:1/base", "headers": {"x-key": "env.KEY"}, "logs": true, "metrics": false, "trust_callers": true,
    }}});
    let settings = otlp(
        &file,
        &[
            ("KEY", "hunter2"),
            ("OTEL_SDK_DISABLED", "true"),
            ("OTEL_LOGS_EXPORTER", "none"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
            ("OTEL_SERVICE_NAME", "gateway-7"),
        ],
    );
    let settings = settings.expect("it is on");
    assert_eq!(
        urls(&settings).map(Option::unwrap_or_default),
        ["http://file:1/base/v1/traces", "", "http://file:1/base/v1/logs"]
    );
    assert_eq!(shown_headers(settings.logs.as_ref().expect("a collector")), ["x-key: hunter2"]);
    assert_eq!(settings.service_name, "gateway-7");
    assert!(settings.trust_callers);
}

#[test]
fn values_that_cannot_be_are_refused_with_what_would_be_valid() {
    let on = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
    for (variable, words) in [
        (("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "http/protobuf"),
        (("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"), "http/protobuf"),
        (("OTEL_TRACES_EXPORTER", "console"), "otlp or none"),
        (("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "c:4317"), "http://"),
        (("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://u:hunter2@c"), "without a user name"),
        (("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"), "name=value"),
        (("OTEL_EXPORTER_OTLP_HEADERS", "content-type=hunter2"), "cannot be sent"),
        (("OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%0d%0ab"), "cannot be sent"),
        (("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), "milliseconds"),
        (("OTEL_TRACES_SAMPLER", "jaeger_remote"), "always_on"),
        (("OTEL_RESOURCE_ATTRIBUTES", "a"), "name=value"),
    ] {
        let error = with(&json!({}), &[on, variable]).expect_err("a bad variable").to_string();
        assert!(error.contains(variable.0) && error.contains(words), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let ratio = [on, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")];
    let error = with(&json!({}), &ratio).expect_err("a bad ratio").to_string();
    assert!(error.contains("from 0 to 1"), "{error}");
}

#[test]
fn keys_that_cannot_be_are_refused() {
    for (otlp, key, words) in [
        (json!({"traces": true}), "telemetry.otlp.traces", "`endpoint`"),
        (json!({"endpoint": "c:4318"}), "telemetry.otlp.endpoint", "http://"),
        (
            json!({"endpoint": "http://c?token=hunter2"}),
            "telemetry.otlp.endpoint",
            "without a query",
        ),
        (
            json!({"endpoint": "http://c", "headers": {"host": "x"}}),
            "telemetry.otlp.headers.host",
            "transport itself",
        ),
        (json!({"endpoint": "http://c", "protocol": "grpc"}), "telemetry.otlp.protocol", ""),
    ] {
        let problem = error(&json!({"telemetry": {"otlp": otlp}}));
        assert!(problem.starts_with(key) && problem.contains(words), "{problem}");
    }
}
