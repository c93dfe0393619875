//! Metrics and log records of real gateways at a collector, and collectors that do not behave.

use std::time::{Duration, Instant};

use airlock_tests::{
    Client, Collector, OPERATOR, Service, Setup,
    collector::{PROMPT, Reaction, attributes},
    guests, misbehaving, service, wait,
};
use opentelemetry_proto::tonic::metrics::v1::{
    Metric, metric::Data, number_data_point::Value as Number,
};
use reqwest::StatusCode;
use serde_json::json;

/// Time in which a gateway stops whatever its collector does: the time for the last export, and that of the gateway
/// itself on a busy machine.
const STOPPED: Duration = Duration::from_secs(10);
/// A credential that is only in the headers of the export.
const TOKEN: &str = "otlp-token-of-the-tests";

fn named<'m>(metrics: &'m [Metric], name: &str) -> Option<&'m Metric> {
    metrics.iter().find(|metric| metric.name == name)
}

/// Returns the number of the line of `GET /metrics` with this name and these labels, in any order.
fn number(page: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = labels.iter().map(|(label, value)| format!("{label}=\"{value}\""));
    let labels: Vec<_> = labels.collect();
    let lines = page.lines().filter(|line| line.split('{').next() == Some(name));
    let mut lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    let line = lines.next().unwrap_or_else(|| panic!("{name} with {labels:?} in {page}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// Returns the telemetry of a kind that was dropped, by the page of metrics.
fn dropped(page: &str, signal: &str) -> f64 {
    number(page, "airlock_telemetry_dropped_total", &[("signal", signal)])
}

/// Returns the number of the only point of a counter or a gauge with these labels.
fn point(metric: &Metric, labels: &[(&str, &str)]) -> Option<f64> {
    let points = match metric.data.as_ref()? {
        Data::Sum(sum) => &sum.data_points,
        Data::Gauge(gauge) => &gauge.data_points,
        _ => return None,
    };
    let found = points.iter().find(|point| {
        let present = attributes(&point.attributes);
        labels.iter().all(|(name, value)| present.get(*name).is_some_and(|found| found == value))
    });
    match found?.value.as_ref()? {
        Number::AsInt(value) => Some(i32::try_from(*value).expect("a small number").into()),
        Number::AsDouble(value) => Some(*value),
    }
}

#[tokio::test]
#[allow(clippy::float_cmp, reason = "the same text has the same value")]
async fn a_collector_receives_the_metrics_of_the_page() {
    let collector = Collector::start().await;
    let setup = Setup::new().client(misbehaving("server", []));
    let gateway = setup.serve_with(&collector.variables()).await;
    gateway.connected("server").await;
    for _ in 0..3 {
        let _ = gateway.execute("server-echo", &json!({"text": "x"})).await.content();
    }
    let labels = [("client", "server"), ("tool", "server-echo"), ("outcome", "ok")];
    let exported = wait::until("three calls at the collector", async || {
        let exported: Vec<_> =
            collector.metrics().into_iter().map(|metric| metric.element).collect();
        let calls = point(named(&exported, "airlock_tool_calls")?, &labels)?;
        (calls >= 3.0).then_some(exported)
    })
    .await;
    let page = gateway.get("/metrics").await.text;

    let counter = named(&exported, "airlock_tool_calls").expect("a counter");
    let calls = number(&page, "airlock_tool_calls_total", &labels);
    assert_eq!((point(counter, &labels), calls), (Some(3.0), 3.0));
    let Some(Data::Sum(sum)) = &counter.data else { panic!("a sum") };
    assert!(sum.is_monotonic && sum.data_points[0].start_time_unix_nano > 0);

    let ready = [("client", "server"), ("state", "ready")];
    let gauge = named(&exported, "airlock_upstream_state").expect("a gauge");
    let state = number(&page, "airlock_upstream_state", &ready);
    assert_eq!((point(gauge, &ready), state), (Some(1.0), 1.0));

    let time = named(&exported, "airlock_tool_call_duration_seconds").expect("a histogram");
    assert_eq!(time.unit, "s");
    let Some(Data::Histogram(histogram)) = &time.data else { panic!("a histogram") };
    let [point] = &histogram.data_points[..] else { panic!("one client") };
    let sum = number(&page, "airlock_tool_call_duration_seconds_sum", &[("client", "server")]);
    assert_eq!((point.sum, point.count), (Some(sum), 3));
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), 3);
}

#[tokio::test]
async fn a_collector_receives_log_records_with_the_resource_the_scope_and_the_headers() {
    let collector = Collector::start().await;
    let mut variables = collector.variables();
    let headers = format!("authorization=Bearer%20{TOKEN}");
    variables.extend([
        ("OTEL_EXPORTER_OTLP_HEADERS", headers.as_str()),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=tests"),
    ]);
    let gateway = Setup::new().client(misbehaving("server", [])).serve_with(&variables).await;
    gateway.connected("server").await;
    let record = wait::until("a log record", async || collector.logs().into_iter().next()).await;
    let resource = attributes(&record.resource.attributes);
    assert_eq!(resource["service.name"], "airlock");
    assert_eq!(resource["deployment.environment.name"], "tests");
    assert!(resource.contains_key("service.instance.id"));
    assert!(resource.contains_key("service.version"));
    assert!(record.scope.name.starts_with("airlock"), "{:?}", record.scope);
    assert!(record.element.body.is_some() && record.element.severity_number > 0);
    for export in collector.exports() {
        assert_eq!(export.headers["authorization"], format!("Bearer {TOKEN}"), "{}", export.path);
        assert_eq!(export.headers["content-type"], "application/x-protobuf");
    }
    // Standard error has the same lines as without an export.
    gateway.until_said("INFO").await;
    assert!(!gateway.said().contains(TOKEN));
}

#[tokio::test]
async fn the_file_wins_over_the_environment_and_a_kind_that_is_off_is_not_sent() {
    let collector = Collector::start().await;
    let elsewhere = Collector::start().await;
    let otlp =
        json!({"endpoint": collector.endpoint(), "headers": {"x-from": "file"}, "metrics": false});
    let setup = Setup::new().client(misbehaving("server", [])).set("/telemetry/otlp", otlp);
    let mut variables = elsewhere.variables();
    variables.push(("OTEL_EXPORTER_OTLP_HEADERS", "x-from=environment,x-more=1"));
    let gateway = setup.serve_with(&variables).await;
    let export = wait::until("an export", async || collector.exports().into_iter().next()).await;
    assert_eq!(export.headers["x-from"], "file");
    assert!(!export.headers.contains_key("x-more"));
    gateway.terminate();
    gateway.ended().await;
    assert!(collector.exports().iter().all(|export| export.path != "/v1/metrics"));
    assert!(elsewhere.exports().is_empty());
}

#[tokio::test]
async fn no_secret_and_no_content_is_sent() {
    let provider = Service::saying([
        service::asking_for(&[("text-word_count", json!({"text": "a-secret-argument"}))]),
        service::text("a-secret-answer"),
    ])
    .await;
    let collector = Collector::start().await;
    let headers = format!("authorization={TOKEN}");
    let mut variables = collector.variables();
    variables.extend([
        ("OTEL_EXPORTER_OTLP_HEADERS", headers.as_str()),
        ("AIRLOCK_LOG", "airlock=debug,info,rmcp=off"),
    ]);
    let setup = Setup::new().openai("openai", provider.base_url());
    let setup = setup.client(Client::wasm("text", guests::TEXT).auto(&["*"]));
    let gateway = setup.serve_with(&variables).await;
    let reply = gateway.chat("openai/gpt-x", "a-secret-question").await.ok();
    assert!(reply.to_string().contains("a-secret-answer"));
    let _ = gateway.get("/api/mcp/clients").await.ok();
    gateway.terminate();
    gateway.ended().await;
    let exports = collector.exports();
    assert!(
        ["/v1/logs", "/v1/metrics", "/v1/traces"]
            .iter()
            .all(|path| { exports.iter().any(|export| export.path == *path) })
    );
    for export in exports {
        let body = String::from_utf8_lossy(&export.body).into_owned();
        for secret in [
            "a-secret-argument",
            "a-secret-answer",
            "a-secret-question",
            "sk-test",
            OPERATOR,
            TOKEN,
        ] {
            assert!(!body.contains(secret), "{} has {secret}", export.path);
        }
    }
}

/// Sees that a gateway with these variables responds, and stops in time.
async fn goes_on(variables: &[(&str, &str)]) {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_with(variables).await;
    gateway.connected("server").await;
    for _ in 0..20 {
        let reply = gateway.execute("server-echo", &json!({"text": "x"})).await;
        assert_eq!(reply.content(), "x");
    }
    let begun = Instant::now();
    gateway.terminate();
    gateway.ended().await;
    assert!(begun.elapsed() < STOPPED, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn with_a_collector_that_hangs_or_floods_requests_go_on_and_the_gateway_stops_in_time() {
    for reaction in [Reaction::Hangs, Reaction::Floods] {
        let collector = Collector::start_that(reaction).await;
        goes_on(&collector.variables()).await;
        assert!(!collector.exports().is_empty(), "{reaction:?}: it was asked");
    }
}

#[tokio::test]
async fn what_no_collector_has_taken_when_the_gateway_stops_is_logged() {
    let collector = Collector::start_that(Reaction::Hangs).await;
    let gateway = Setup::new().serve_with(&collector.variables()).await;
    let _ = gateway.get("/api/mcp/clients").await.ok();
    gateway.terminate();
    wait::until("the warning about traces", async || {
        let said = gateway.said();
        let mut dropped = said.lines().filter(|line| line.contains("telemetry is dropped"));
        dropped.any(|line| line.contains("signal=\"traces\"")).then_some(())
    })
    .await;
    gateway.ended().await;
}

#[tokio::test]
async fn with_a_collector_that_is_not_there_requests_go_on_and_the_gateway_stops_in_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let variables: Vec<_> = endpoint.into_iter().chain(PROMPT).collect();
    goes_on(&variables).await;
}

#[tokio::test]
async fn what_a_collector_refuses_is_counted_and_logged_once() {
    let collector = Collector::start_that(Reaction::Refuses(StatusCode::BAD_REQUEST)).await;
    let gateway =
        Setup::new().client(misbehaving("server", [])).serve_with(&collector.variables()).await;
    wait::until("dropped metrics and log records", async || {
        let page = gateway.get("/metrics").await.text;
        (dropped(&page, "metrics") > 1.0 && dropped(&page, "logs") > 0.0).then_some(())
    })
    .await;
    // It is counted before it is logged.
    let said = wait::until("the warning about metrics", async || {
        Some(gateway.said()).filter(|said| said.lines().any(says_that_metrics_are_dropped))
    })
    .await;
    let warnings = said.lines().filter(|line| says_that_metrics_are_dropped(line));
    assert_eq!(warnings.count(), 1, "{said}");
}

fn says_that_metrics_are_dropped(line: &str) -> bool {
    line.contains("telemetry is dropped") && line.contains("signal=\"metrics\"")
}

#[tokio::test]
async fn an_export_that_the_gateway_does_not_have_is_refused_before_it_serves() {
    let setup = Setup::new().set("/telemetry/otlp", json!({"endpoint": "http://127.0.0.1:4317"}));
    let check = setup.airlock("check").env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let refused = check.run().await.failed().to_string();
    assert!(refused.contains("OTEL_EXPORTER_OTLP_PROTOCOL"), "{refused}");
}
