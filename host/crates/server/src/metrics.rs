//! `GET /metrics`: counters of the MCP servers, in Prometheus' text format.
//!
//! The values of labels are the names of configured clients, of tools in the catalog, and of closed
//! sets, so a server cannot make more of them than it has tools.

mod text;

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::Value;

use self::text::{Kind, Text};
use super::{
    App,
    respond::{Payload, Reply},
};
use airlock_catalog::Snapshot;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counters of one MCP server at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Name of the client.
    pub client: String,
    /// Present state.
    pub state: &'static str,
    /// Time spent in each state; all states are listed.
    pub time_in: Vec<(&'static str, Duration)>,
    /// Restarts after failures.
    pub restarts: u64,
    /// Calls that have ended, by tool and outcome. The tool is `None` for calls that are not
    /// counted by tool.
    pub calls: Vec<(Option<String>, &'static str, u64)>,
    /// Durations of calls.
    pub durations: Distribution,
    /// Times for which calls waited until they could be sent.
    pub waits: Distribution,
    /// Calls that wait at present.
    pub queued: u64,
    /// Calls that run at present.
    pub in_flight: u64,
}

/// Distribution of times.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Upper bound of each bucket, and the number of times up to it. Both ascend. The bucket without
    /// a bound is left out.
    pub buckets: Vec<(Duration, u64)>,
    /// Number of times.
    pub count: u64,
    /// Sum of the times.
    pub sum: Duration,
}

/// Shows the counters. The request has passed [`operator::check`](super::operator::check).
pub(super) fn show(app: &App) -> Reply {
    let samples =
        app.hooks.upstreams.as_ref().map(|upstreams| upstreams.samples()).unwrap_or_default();
    let snapshot = app.catalog.snapshot();
    let tools = snapshot.clients().flat_map(|client| client.tools.iter());
    let known = tools.map(|tool| tool.name.as_str()).collect();
    let mut text = encode(&samples, &known);
    text.push_str(&misfits(&snapshot));
    let mut reply = Response::new(Payload::Whole(Bytes::from(text)));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    reply
}

/// Writes the results in code mode that did not fit the type observed before.
fn misfits(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    let help = "Results of a tool in code mode that did not fit the type observed before.";
    text.family("airlock_tool_result_misfits_total", Kind::Counter, help);
    for client in snapshot.clients() {
        let status = client.provider().map(|provider| provider.status()).unwrap_or_default();
        for misfit in status.get("misfits").and_then(Value::as_array).into_iter().flatten() {
            let tool = misfit["tool"].as_str().unwrap_or_default();
            let labels = [("client", client.name.as_str()), ("tool", tool)];
            text.value("", &labels, misfit["results"].as_u64().unwrap_or_default());
        }
    }
    text.finish()
}

/// Writes the samples. Calls of tools that are not `known` are left out.
fn encode(samples: &[Sample], known: &HashSet<&str>) -> String {
    let mut text = Text::default();
    calls(&mut text, samples, known);
    times(
        &mut text,
        "airlock_tool_call_duration_seconds",
        "Time from the admission of a tool call to its end. Calls refused as busy are left out.",
        samples.iter().map(|sample| (sample, &sample.durations)),
    );
    times(
        &mut text,
        "airlock_upstream_wait_seconds",
        "Time for which a tool call waited until it could be sent to its MCP server.",
        samples.iter().map(|sample| (sample, &sample.waits)),
    );
    states(&mut text, samples);
    numbers(&mut text, samples);
    text.finish()
}

fn calls(text: &mut Text, samples: &[Sample], known: &HashSet<&str>) {
    let help = "Tool calls that have ended: outcome is ok, or the code of the error.";
    text.family("airlock_tool_calls_total", Kind::Counter, help);
    for sample in samples {
        let shown = sample
            .calls
            .iter()
            .filter(|(tool, ..)| tool.as_deref().is_none_or(|tool| known.contains(tool)));
        for (tool, outcome, count) in shown {
            let mut labels = vec![("client", sample.client.as_str())];
            labels.extend(tool.as_deref().map(|tool| ("tool", tool)));
            labels.push(("outcome", outcome));
            text.value("", &labels, count);
        }
    }
}

/// Writes one histogram for each client.
fn times<'s>(
    text: &mut Text,
    name: &'static str,
    help: &str,
    distributions: impl Iterator<Item = (&'s Sample, &'s Distribution)>,
) {
    text.family(name, Kind::Histogram, help);
    for (Sample { client, .. }, distribution) in distributions {
        for (bound, count) in &distribution.buckets {
            let bound = bound.as_secs_f64().to_string();
            text.value("_bucket", &[("client", client), ("le", &bound)], count);
        }
        let Distribution { count, sum, .. } = distribution;
        text.value("_bucket", &[("client", client), ("le", "+Inf")], count);
        text.value("_sum", &[("client", client)], sum.as_secs_f64());
        text.value("_count", &[("client", client)], count);
    }
}

fn states(text: &mut Text, samples: &[Sample]) {
    let states = samples.iter().flat_map(|sample| {
        sample.time_in.iter().map(move |(state, time)| {
            let is_present = *state == sample.state;
            ([("client", sample.client.as_str()), ("state", *state)], is_present, time)
        })
    });
    let states: Vec<_> = states.collect();
    let help = "State of the connection to an MCP server: 1 for the present one.";
    text.family("airlock_upstream_state", Kind::Gauge, help);
    for (labels, is_present, _) in &states {
        text.value("", labels, u8::from(*is_present));
    }
    let help = "Time that the connection to an MCP server spent in each state.";
    text.family("airlock_upstream_state_seconds_total", Kind::Counter, help);
    for (labels, _, time) in &states {
        text.value("", labels, time.as_secs_f64());
    }
}

fn numbers(text: &mut Text, samples: &[Sample]) {
    type Read = fn(&Sample) -> u64;
    let families: [(&'static str, Kind, &str, Read); 3] = [
        (
            "airlock_upstream_restarts_total",
            Kind::Counter,
            "Restarts of the connection to an MCP server after a failure.",
            |sample| sample.restarts,
        ),
        (
            "airlock_upstream_queue",
            Kind::Gauge,
            "Tool calls that wait to be sent to an MCP server.",
            |sample| sample.queued,
        ),
        (
            "airlock_upstream_in_flight",
            Kind::Gauge,
            "Tool calls that run on an MCP server.",
            |sample| sample.in_flight,
        ),
    ];
    for (name, kind, help, read) in families {
        text.family(name, kind, help);
        for sample in samples {
            text.value("", &[("client", &sample.client)], read(sample));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(client: &str) -> Sample {
        let times = Distribution {
            buckets: vec![(Duration::from_micros(2_500), 1), (Duration::from_secs(1), 3)],
            count: 4,
            sum: Duration::from_millis(61_250),
        };
        let [echo, gone] = ["echo", "gone"].map(|name| Some(format!("{client}-{name}")));
        Sample {
            client: client.to_owned(),
            state: "ready",
            time_in: vec![("stopped", Duration::ZERO), ("ready", Duration::from_millis(1_500))],
            restarts: 2,
            calls: vec![(None, "ok", 9), (echo, "ok", 3), (gone, "ok", 7)],
            durations: times.clone(),
            waits: times,
            queued: 1,
            in_flight: 5,
        }
    }

    #[test]
    fn counters_of_known_tools_are_written_in_the_text_format() {
        let text = encode(&[sample("up")], &["up-echo"].into());
        let shown: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with("airlock_upstream_wait_seconds"))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        # HELP airlock_tool_calls_total Tool calls that have ended: outcome is ok, or the code of the error.
        # TYPE airlock_tool_calls_total counter
        airlock_tool_calls_total{client="up",outcome="ok"} 9
        airlock_tool_calls_total{client="up",tool="up-echo",outcome="ok"} 3
        # HELP airlock_tool_call_duration_seconds Time from the admission of a tool call to its end. Calls refused as busy are left out.
        # TYPE airlock_tool_call_duration_seconds histogram
        airlock_tool_call_duration_seconds_bucket{client="up",le="0.0025"} 1
        airlock_tool_call_duration_seconds_bucket{client="up",le="1"} 3
        airlock_tool_call_duration_seconds_bucket{client="up",le="+Inf"} 4
        airlock_tool_call_duration_seconds_sum{client="up"} 61.25
        airlock_tool_call_duration_seconds_count{client="up"} 4
        # HELP airlock_upstream_wait_seconds Time for which a tool call waited until it could be sent to its MCP server.
        # TYPE airlock_upstream_wait_seconds histogram
        # HELP airlock_upstream_state State of the connection to an MCP server: 1 for the present one.
        # TYPE airlock_upstream_state gauge
        airlock_upstream_state{client="up",state="stopped"} 0
        airlock_upstream_state{client="up",state="ready"} 1
        # HELP airlock_upstream_state_seconds_total Time that the connection to an MCP server spent in each state.
        # TYPE airlock_upstream_state_seconds_total counter
        airlock_upstream_state_seconds_total{client="up",state="stopped"} 0
        airlock_upstream_state_seconds_total{client="up",state="ready"} 1.5
        # HELP airlock_upstream_restarts_total Restarts of the connection to an MCP server after a failure.
        # TYPE airlock_upstream_restarts_total counter
        airlock_upstream_restarts_total{client="up"} 2
        # HELP airlock_upstream_queue Tool calls that wait to be sent to an MCP server.
        # TYPE airlock_upstream_queue gauge
        airlock_upstream_queue{client="up"} 1
        # HELP airlock_upstream_in_flight Tool calls that run on an MCP server.
        # TYPE airlock_upstream_in_flight gauge
        airlock_upstream_in_flight{client="up"} 5
        "#);
    }

    #[test]
    fn a_family_is_written_once_for_all_clients() {
        let text = encode(&[sample("a"), sample("b")], &HashSet::new());
        let types = text.lines().filter(|line| line.starts_with("# TYPE"));
        let names: Vec<_> = types.filter_map(|line| line.split(' ').nth(2)).collect();
        let distinct: HashSet<_> = names.iter().collect();
        assert_eq!(names.len(), distinct.len(), "{names:?}");
        assert!(!text.contains("gone"));
        assert!(encode(&[], &HashSet::new()).ends_with('\n'));
    }
}
