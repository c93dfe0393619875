//! `/metrics`: a strict reader of the text format, and the numbers in it.

#![allow(clippy::float_cmp, reason = "counters are whole numbers")]

use std::collections::{BTreeMap, HashSet};

use airlock_tests::{Gateway, Setup, misbehaving, wait};
use reqwest::Method;
use serde_json::json;

/// The metrics: the name with sorted labels, and the value.
type Metrics = BTreeMap<String, f64>;

async fn metrics(gateway: &Gateway) -> Metrics {
    parse(&gateway.metrics().await)
}

/// Reads the text format. Panics at anything that Prometheus would refuse, and at a family that is
/// not contiguous or has no help.
fn parse(text: &str) -> Metrics {
    assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
    let mut values = Metrics::new();
    let mut families = HashSet::new();
    let mut helped = "";
    let mut family = "";
    let mut kind = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split_once(' ').expect("a text after the name").0;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').expect("a kind after the name");
            assert_eq!(helped, family, "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(families.insert(family), "{family} is there twice");
        } else {
            let (name, labels, value) = metric(line);
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("outside: {line}"));
            let suffixes: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line}");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
            assert!(value >= 0.0 && value.is_finite(), "{line}");
            let known = values.insert(format!("{name}{{{}}}", labels.join(",")), value);
            assert!(known.is_none(), "twice: {line}");
        }
    }
    values
}

/// Reads one line: name, sorted labels, value.
fn metric(line: &str) -> (&str, Vec<String>, f64) {
    let (metric, value) = line.rsplit_once(' ').expect("a value");
    let (name, labels) = metric.split_once('{').unwrap_or((metric, "}"));
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    assert!(is_name(name), "{line}");
    let labels = labels.strip_suffix('}').expect("a closing brace");
    let mut read: Vec<String> = labels
        .split(',')
        .filter(|label| !label.is_empty())
        .map(|label| {
            let (name, value) = label.split_once('=').expect("a value");
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            let value = value.unwrap_or_else(|| panic!("no quotes: {line}"));
            assert!(is_name(name) && !value.contains(['"', '\\', '\n']), "{line}");
            format!("{name}={value}")
        })
        .collect();
    read.sort();
    (name, read, value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
}

/// Asserts that the buckets of every histogram ascend and that the last one is the count.
fn check_histogram(metrics: &Metrics, name: &str, client: &str) -> f64 {
    let prefix = format!("{name}_bucket{{client={client},le=");
    let bound = |key: &str| -> f64 {
        let bound = key[prefix.len()..].trim_end_matches('}');
        if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a number") }
    };
    let buckets = metrics.iter().filter(|(key, _)| key.starts_with(&prefix));
    let mut buckets: Vec<_> = buckets.map(|(key, value)| (bound(key), *value)).collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert!(buckets.is_sorted_by(|one, other| one.1 <= other.1), "{buckets:?}");
    let (last, all) = buckets.last().expect("buckets");
    assert!(last.is_infinite());
    let count = metrics[&format!("{name}_count{{client={client}}}")];
    assert!((all - count).abs() < 0.5);
    count
}

fn calls(metrics: &Metrics, tool: &str, outcome: &str) -> Option<f64> {
    let key = format!("airlock_tool_calls_total{{client=server,outcome={outcome},tool={tool}}}");
    metrics.get(&key).copied()
}

#[tokio::test]
async fn calls_are_counted_by_tool_and_outcome_and_timed() {
    let gateway = Setup::new()
        .set("/mcp/tool_manager_config/tool_execution_timeout", "3s")
        .client(misbehaving("server", []))
        .client(misbehaving("other", []))
        .serve_connected()
        .await;
    for _ in 0..2 {
        let reply = gateway.execute("server-echo", &json!({"text": "a-secret-argument"})).await;
        assert_eq!(reply.content(), "a-secret-argument");
    }
    for tool in ["server-fail", "server-hang", "server-no_such_tool"] {
        gateway.execute(tool, &json!({})).await;
    }
    let reply = gateway.get("/metrics").await;
    assert!(!reply.text.contains("a-secret-argument") && !reply.text.contains("no_such_tool"));
    let shown = parse(&reply.text);
    assert_eq!(calls(&shown, "server-echo", "ok"), Some(2.0));
    assert_eq!(calls(&shown, "server-fail", "tool_error"), Some(1.0));
    assert_eq!(calls(&shown, "server-hang", "deadline"), Some(1.0));
    let counted = shown.keys().filter(|key| key.starts_with("airlock_tool_calls_total"));
    assert_eq!(counted.count(), 3);
    let durations = "airlock_tool_call_duration_seconds";
    assert_eq!(check_histogram(&shown, durations, "server"), 4.0);
    assert_eq!(check_histogram(&shown, durations, "other"), 0.0);
    assert!(shown[&format!("{durations}_sum{{client=server}}")] >= 3.0);
    assert_eq!(check_histogram(&shown, "airlock_upstream_wait_seconds", "server"), 4.0);
    // A call that is given up ends a moment later than its caller learns of it.
    wait::until("the requests to be counted", async || {
        let metrics = metrics(&gateway).await;
        let operations = "mcp_client_operation_duration_seconds_count";
        let counts = ["", "error_type=tool_error,", "error_type=cancelled,"].map(|error| {
            let asked = format!("{operations}{{client=server,{error}mcp_method_name=tools/call}}");
            metrics.get(&asked).copied().unwrap_or_default()
        });
        (counts == [2.0, 1.0, 1.0]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn states_restarts_and_calls_in_flight_are_shown() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let state = |state: &str| format!("airlock_upstream_state{{client=server,state={state}}}");
    let before = metrics(&gateway).await;
    assert_eq!((before[&state("ready")], before[&state("failed")]), (1.0, 0.0));
    assert_eq!(before.keys().filter(|key| key.starts_with("airlock_upstream_state{")).count(), 8);
    let ready = "airlock_upstream_state_seconds_total{client=server,state=ready}";
    wait::until("time to pass", async || {
        (metrics(&gateway).await[ready] > before[ready]).then_some(())
    })
    .await;

    let flag = gateway.directory().join("flag");
    let arguments = json!({"file": flag});
    let waiting = gateway.execute("server-wait_for", &arguments);
    let watching = async {
        wait::until("the call to run", async || {
            let metrics = metrics(&gateway).await;
            assert_eq!(metrics["airlock_upstream_queue{client=server}"], 0.0);
            (metrics["airlock_upstream_in_flight{client=server}"] == 1.0).then_some(())
        })
        .await;
        std::fs::write(&flag, "").expect("a file");
    };
    let (reply, ()) = tokio::join!(waiting, watching);
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(metrics(&gateway).await["airlock_upstream_in_flight{client=server}"], 0.0);

    assert_eq!(gateway.execute("server-die", &json!({})).await.code(), "unavailable");
    wait::until("the restart to be counted", async || {
        let metrics = metrics(&gateway).await;
        (metrics["airlock_upstream_restarts_total{client=server}"] == 1.0).then_some(())
    })
    .await;
    assert_eq!(calls(&metrics(&gateway).await, "server-die", "unavailable"), Some(1.0));
}

#[tokio::test]
async fn a_gateway_without_servers_has_metrics_of_the_right_type() {
    let gateway = Setup::new().serve().await;
    let response = gateway.request(Method::GET, "/metrics").send().await.expect("a response");
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let metrics = parse(&response.text().await.expect("a text"));
    assert!(metrics.contains_key("process_start_time_seconds{}"), "{metrics:?}");
    assert!(!metrics.keys().any(|key| key.contains("client=")), "{metrics:?}");
}
