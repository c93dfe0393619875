//! The state of a gateway at one moment, as far as it shows it.

use std::{
    collections::BTreeMap,
    time::{Instant, SystemTime},
};

use serde::Serialize;
use serde_json::Value;

use super::metrics::{Histogram, Metrics};
use crate::cli::running::RunningGateway;
use airlock_core::unix_time::unix_milliseconds;

/// Calls that wait for an approval, at most as many as are asked for.
const APPROVALS: &str = "/v1/approvals?limit=50";
/// Outcome of a call that has not failed, in the metrics.
const GOOD: &str = "ok";
/// Names of metrics.
const CALLS: &str = "airlock_tool_calls_total";
const TOOL_TIMES: &str = "gen_ai_execute_tool_duration_seconds";
const CLIENT_TIMES: &str = "airlock_tool_call_duration_seconds";

/// The state of a gateway at one moment. `None` and empty lists are of what it does not show.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    pub(super) gateway: GatewayState,
    pub(super) requests_in_flight: Option<u64>,
    /// Calls that have ended since the start.
    pub(super) calls: Option<u64>,
    /// `None` for the first sample.
    pub(super) calls_per_second: Option<f64>,
    /// Calls by the decision about them: `allowed`, `asked`, `refused`.
    pub(super) decisions: BTreeMap<String, u64>,
    pub(super) approvals: Option<WaitingApprovals>,
    pub(super) tools: Vec<ToolState>,
    pub(super) servers: Vec<ServerState>,
    /// The calls that run, the longest first.
    pub(super) live_calls: Option<Vec<LiveCall>>,
    /// Parts that the gateway does not have, or does not show to this operator.
    pub(super) missing: Vec<&'static str>,
    #[serde(skip)]
    taken: Option<Instant>,
}

/// The gateway itself.
#[derive(Debug, Serialize)]
pub(super) struct GatewayState {
    /// The address that the user has named.
    pub(super) address: Option<String>,
    pub(super) version: Option<String>,
    pub(super) uptime_seconds: Option<u64>,
}

/// Calls that wait for an approval.
#[derive(Debug, Serialize)]
pub(super) struct WaitingApprovals {
    pub(super) waiting: usize,
    /// True if there may be more.
    pub(super) has_more: bool,
}

/// A tool.
#[derive(Debug, Default, Serialize)]
pub(super) struct ToolState {
    pub(super) tool: String,
    pub(super) in_flight: usize,
    pub(super) calls: u64,
    pub(super) errors: u64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
}

/// An MCP server.
#[derive(Debug, Serialize)]
pub(super) struct ServerState {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) in_flight: u64,
    pub(super) queue: u64,
    pub(super) restarts: u64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
    pub(super) reason: Option<String>,
}

/// A call that runs.
#[derive(Debug, Serialize)]
pub(super) struct LiveCall {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) key: Option<String>,
    pub(super) origin: String,
    pub(super) age_ms: u64,
}

impl Sample {
    /// Asks a gateway. Fails if none responds.
    pub(super) async fn take(gateway: &RunningGateway) -> anyhow::Result<Self> {
        let health = gateway.get_shown("/health").await?;
        let metrics = gateway.metrics().await?;
        let clients = gateway.servers_shown().await?;
        let calls = gateway.get_shown("/api/calls").await?;
        let approvals = gateway.get_shown(APPROVALS).await?;
        let missing = [
            ("metrics", metrics.is_none()),
            ("servers", clients.is_none()),
            ("live calls", calls.is_none()),
            ("approvals", approvals.is_none()),
        ];
        let missing = missing.into_iter().filter(|(_, is_missing)| *is_missing);
        let missing = missing.map(|(name, _)| name).collect();
        let now = SystemTime::now();
        let metrics = Metrics::parse(&metrics.unwrap_or_default());
        let live_calls = calls.map(|listed| live_calls(&listed, now));
        let address = gateway.url().map(ToString::to_string);
        Ok(Self {
            gateway: gateway_state(address, &health.unwrap_or_default(), &metrics, now),
            requests_in_flight: metrics.sum("http_server_active_requests").map(whole),
            calls: ended_calls(&metrics),
            calls_per_second: None,
            decisions: decisions(&metrics),
            approvals: approvals.map(|listed| waiting(&listed)),
            tools: tools(&metrics, live_calls.as_deref().unwrap_or_default()),
            servers: servers(&clients.unwrap_or_default(), &metrics),
            live_calls,
            missing,
            taken: Some(Instant::now()),
        })
    }

    /// Returns the sample with the calls in a second since an earlier one of the same gateway.
    pub(super) fn after(self, earlier: &Self) -> Self {
        let time = self.taken.zip(earlier.taken).map(|(now, before)| now - before);
        // A gateway that was restarted begins at 0.
        let calls = self.calls.zip(earlier.calls).and_then(|(now, before)| now.checked_sub(before));
        let rate = calls.zip(time).map(|(calls, time)| real(calls) / time.as_secs_f64().max(0.001));
        Self { calls_per_second: rate, ..self }
    }
}

fn gateway_state(
    address: Option<String>,
    health: &Value,
    metrics: &Metrics,
    now: SystemTime,
) -> GatewayState {
    let started = metrics.sum("process_start_time_seconds").map(whole);
    let now = whole_seconds(now);
    GatewayState {
        address,
        version: health["version"].as_str().map(str::to_owned),
        uptime_seconds: started.map(|started| now.saturating_sub(started)),
    }
}

fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the calls that have ended: of all tools if the gateway times them, else of servers.
fn ended_calls(metrics: &Metrics) -> Option<u64> {
    let timed = metrics.sum(&format!("{TOOL_TIMES}_count"));
    timed.or_else(|| metrics.sum(CALLS)).map(whole)
}

fn decisions(metrics: &Metrics) -> BTreeMap<String, u64> {
    let mut decisions = BTreeMap::new();
    for series in metrics.named("airlock_decisions_total") {
        *decisions.entry(series.label("decision").to_owned()).or_default() += whole(series.value());
    }
    decisions
}

fn waiting(listed: &Value) -> WaitingApprovals {
    let calls = listed["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    WaitingApprovals {
        waiting: calls.iter().filter(|call| call["state"] == "pending").count(),
        has_more: listed["has_more"] == true,
    }
}

fn live_calls(listed: &Value, now: SystemTime) -> Vec<LiveCall> {
    let now_ms = unix_milliseconds(now);
    let calls = listed["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut calls: Vec<_> = calls.iter().map(|call| live_call(call, now_ms)).collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.age_ms));
    calls
}

fn live_call(call: &Value, now_ms: i64) -> LiveCall {
    let started_ms = call["started_at_ms"].as_i64().unwrap_or(now_ms);
    LiveCall {
        id: text(&call["id"]),
        tool: text(&call["tool"]),
        key: call["key"].as_str().map(str::to_owned),
        origin: text(&call["origin"]),
        age_ms: u64::try_from(now_ms.saturating_sub(started_ms)).unwrap_or_default(),
    }
}

/// Returns the tools that were called or are called now, the busiest first.
fn tools(metrics: &Metrics, live: &[LiveCall]) -> Vec<ToolState> {
    let mut tools = BTreeMap::<String, ToolState>::new();
    for series in metrics.named(CALLS).filter(|series| !series.label("tool").is_empty()) {
        let tool = tools.entry(series.label("tool").to_owned()).or_default();
        let calls = whole(series.value());
        tool.calls += calls;
        tool.errors += if series.label("outcome") == GOOD { 0 } else { calls };
    }
    for (name, times) in metrics.histograms(TOOL_TIMES, "gen_ai_tool_name") {
        let tool = tools.entry(name).or_default();
        tool.calls = tool.calls.max(whole(times.count()));
        tool.p50_ms = milliseconds(&times, 0.5);
        tool.p95_ms = milliseconds(&times, 0.95);
    }
    for call in live {
        tools.entry(call.tool.clone()).or_default().in_flight += 1;
    }
    let named = tools.into_iter().map(|(tool, state)| ToolState { tool, ..state });
    let mut tools: Vec<_> = named.collect();
    tools.sort_by_key(|tool| std::cmp::Reverse((tool.in_flight, tool.calls)));
    tools
}

/// Returns the MCP servers in the order of the gateway.
fn servers(clients: &[Value], metrics: &Metrics) -> Vec<ServerState> {
    let times = metrics.histograms(CLIENT_TIMES, "client");
    clients
        .iter()
        .map(|client| {
            let name = text(&client["config"]["name"]);
            let times = times.get(&name);
            ServerState {
                // The holder of a key does not see the phase.
                state: text(client.get("phase").unwrap_or(&client["state"])),
                in_flight: of_client(metrics, "airlock_upstream_in_flight", &name),
                queue: of_client(metrics, "airlock_upstream_queue", &name),
                restarts: client["restarts"].as_u64().unwrap_or_default(),
                p50_ms: times.and_then(|times| milliseconds(times, 0.5)),
                p95_ms: times.and_then(|times| milliseconds(times, 0.95)),
                reason: client["reason"].as_str().map(str::to_owned),
                name,
            }
        })
        .collect()
}

/// Returns the sum of a metric over the instances of a client.
fn of_client(metrics: &Metrics, metric: &str, client: &str) -> u64 {
    let series = metrics.named(metric).filter(|series| series.label("client") == client);
    series.map(|series| whole(series.value())).sum()
}

fn milliseconds(times: &Histogram, quantile: f64) -> Option<f64> {
    times.quantile(quantile).map(|seconds| (seconds * 1_000.0).round())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a value of a metric that is a whole number and not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, and the values are whole"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[expect(clippy::cast_precision_loss, reason = "the numbers are shown with two digits")]
fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
impl Sample {
    /// Creates a sample of a gateway that shows nothing else.
    pub(super) fn of_test(
        gateway: GatewayState,
        decisions: BTreeMap<String, u64>,
        approvals: WaitingApprovals,
        tools: Vec<ToolState>,
        live_calls: Vec<LiveCall>,
    ) -> Self {
        Self {
            gateway,
            requests_in_flight: None,
            calls: None,
            calls_per_second: None,
            decisions,
            approvals: Some(approvals),
            tools,
            servers: Vec::new(),
            live_calls: Some(live_calls),
            missing: Vec::new(),
            taken: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const METRICS: &str = "airlock_tool_calls_total{client=\"up\",outcome=\"busy\"} 2\n\
        airlock_tool_calls_total{client=\"up\",tool=\"up-a\",outcome=\"ok\"} 5\n\
        airlock_tool_calls_total{client=\"up\",tool=\"up-a\",outcome=\"deadline\"} 1\n\
        airlock_tool_calls_total{client=\"up\",tool=\"up-b\",outcome=\"ok\"} 9\n\
        airlock_upstream_in_flight{client=\"up\",instance=\"0\"} 1\n\
        airlock_upstream_in_flight{client=\"up\",instance=\"1\"} 2\n\
        airlock_decisions_total{decision=\"allowed\",reason=\"auto\"} 4\n\
        airlock_decisions_total{decision=\"allowed\",reason=\"approved\"} 1\n";

    #[test]
    fn tools_are_counted_and_those_with_live_calls_come_first() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let listed = json!({"data": [
            {"id": "call_1", "tool": "up-a", "key": null, "origin": "model", "started_at_ms": 99_000},
            {"id": "call_2", "tool": "up-c", "key": "ann", "origin": "mcp", "started_at_ms": 40_000},
        ]});
        let live = live_calls(&listed, now);
        let ages: Vec<_> = live.iter().map(|call| (&*call.id, call.age_ms)).collect();
        assert_eq!(ages, [("call_2", 60_000), ("call_1", 1_000)]);
        let tools = tools(&Metrics::parse(METRICS), &live);
        let found: Vec<_> = tools
            .iter()
            .map(|tool| (&*tool.tool, tool.in_flight, tool.calls, tool.errors))
            .collect();
        assert_eq!(found, [("up-a", 1, 6, 1), ("up-c", 1, 0, 0), ("up-b", 0, 9, 0)]);
    }

    #[test]
    fn the_instances_of_a_server_and_the_reasons_of_decisions_are_added_up() {
        let metrics = Metrics::parse(METRICS);
        let clients = [json!({"config": {"name": "up"}, "phase": "ready", "restarts": 3})];
        let servers = servers(&clients, &metrics);
        let ServerState { state, in_flight, restarts, .. } = &servers[0];
        assert_eq!((state.as_str(), *in_flight, *restarts), ("ready", 3, 3));
        assert_eq!(decisions(&metrics), BTreeMap::from([("allowed".to_owned(), 5)]));
        assert_eq!(ended_calls(&metrics), Some(17));
    }
}
