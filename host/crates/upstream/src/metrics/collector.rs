//! The metrics of all servers, for `GET /metrics`.
//!
//! The values of labels are the names of configured clients, of tools that were called, of which each server has only
//! so many, and of closed sets. The series of a tool stays when the server renames the tool: its failures still count.

use std::{collections::BTreeMap, fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{TypedMetric, counter::ConstCounter, gauge::ConstGauge},
};

use super::{
    super::{control::Control, server::Instance, status::ServerPhase},
    Metrics,
    processes::{Processes, UsageByProcess},
};
use airlock_core::tool::ClientName;
use airlock_mcp_client::ProcessUsage;

/// Servers by their names; `None` for those that the configuration disables.
type Servers = BTreeMap<ClientName, Option<Control>>;

/// Metrics of all MCP servers, to be registered once.
pub struct UpstreamMetrics {
    servers: Box<dyn Fn() -> Servers + Send + Sync>,
    /// Metrics of a server that is disabled.
    zero: Metrics,
    processes: Processes,
}

/// One server at the moment of a scrape.
struct ServerRow<'s> {
    client: &'s str,
    metrics: &'s Metrics,
    instances: Vec<InstanceRow>,
    quarantined: usize,
}

/// One instance of a server at the moment of a scrape.
struct InstanceRow {
    /// Its number, if there are others.
    number: Option<String>,
    phase: ServerPhase,
    restarts: u64,
    replacements: u64,
    time_in: Vec<(ServerPhase, Duration)>,
    in_flight: i64,
    process: Option<u32>,
}

impl InstanceRow {
    fn new(instance: &Instance, is_sole: bool, metrics: &Metrics) -> Self {
        let status = instance.status();
        let (restarts, time_in) = status.totals();
        // Calls of users, which have connections of their own, are not those of the instance.
        let in_flight = if is_sole {
            metrics.in_flight.get()
        } else {
            i64::try_from(instance.in_flight()).unwrap_or(i64::MAX)
        };
        Self {
            number: (!is_sole).then(|| instance.number().to_string()),
            phase: status.phase(),
            restarts,
            replacements: status.replacements(),
            time_in,
            in_flight,
            process: instance.process(),
        }
    }

    fn disabled() -> Self {
        Self {
            number: None,
            phase: ServerPhase::Disabled,
            restarts: 0,
            replacements: 0,
            time_in: ServerPhase::ALL.map(|phase| (phase, Duration::ZERO)).to_vec(),
            in_flight: 0,
            process: None,
        }
    }
}

/// Labels of a metric.
type Labels<'s> = Vec<(&'static str, &'s str)>;

impl UpstreamMetrics {
    /// Creates the metrics of the servers that `servers` returns at each scrape, `None` for those that
    /// the configuration disables.
    pub fn new(
        servers: impl Fn() -> BTreeMap<ClientName, Option<Control>> + Send + Sync + 'static,
    ) -> Self {
        let zero = Metrics::new();
        Self { servers: Box::new(servers), zero, processes: Processes::default() }
    }

    fn rows<'s>(&'s self, servers: &'s Servers) -> Vec<ServerRow<'s>> {
        let rows = servers.iter().map(|(client, control)| {
            let client = client.as_str();
            let Some(server) = control.as_ref().map(Control::server) else {
                let instances = vec![InstanceRow::disabled()];
                return ServerRow { client, metrics: &self.zero, instances, quarantined: 0 };
            };
            let instances = server.instances();
            let is_sole = instances.len() == 1;
            let metrics = server.metrics();
            let rows =
                instances.iter().map(|instance| InstanceRow::new(instance, is_sole, metrics));
            let quarantined = server.quarantine().len();
            ServerRow { client, metrics, instances: rows.collect(), quarantined }
        });
        rows.collect()
    }
}

fn encode_calls(encoder: &mut DescriptorEncoder<'_>, rows: &[ServerRow<'_>]) -> fmt::Result {
    let name = "airlock_tool_calls";
    let help = "Tool calls that have ended: outcome is ok, or the code of the error.";
    let calls = rows.iter().flat_map(|row| {
        row.metrics
            .calls()
            .into_iter()
            .map(move |(tool, outcome, calls)| (row.client, tool, outcome.name(), calls))
    });
    let calls: Vec<_> = calls.collect();
    let calls = calls.iter().map(|(client, tool, outcome, calls)| {
        let tool = tool.as_ref().map(|tool| ("tool", tool.as_str()));
        let labels = [("client", *client)].into_iter().chain(tool);
        (labels.chain([("outcome", *outcome)]).collect::<Vec<_>>(), calls.clone())
    });
    encode_family(encoder, name, help, calls)
}

fn encode_operations(encoder: &mut DescriptorEncoder<'_>, rows: &[ServerRow<'_>]) -> fmt::Result {
    let name = "mcp_client_operation_duration_seconds";
    let help = "Time of a request to an MCP server, from its sending to its response or failure.";
    let times = rows.iter().flat_map(|row| {
        let times = row.metrics.operations.times().into_iter();
        times.map(move |((method, error_type), times)| {
            let labels = [("client", row.client), ("mcp_method_name", method)];
            (with_error(labels, error_type), times)
        })
    });
    encode_family(encoder, name, help, times)?;
    let name = "mcp_client_session_duration_seconds";
    let help = "Time of a connection to an MCP server that has ended, with its start.";
    let times = rows.iter().flat_map(|row| {
        let times = row.metrics.operations.session_times().into_iter();
        times.map(move |(error_type, times)| (with_error(row.labels(), error_type), times))
    });
    encode_family(encoder, name, help, times)
}

/// Adds the error to labels, if there is one.
fn with_error<'s, const N: usize>(
    labels: [(&'static str, &'s str); N],
    error_type: Option<&'static str>,
) -> Labels<'s> {
    labels.into_iter().chain(error_type.map(|error| ("error_type", error))).collect()
}

fn encode_quarantine(encoder: &mut DescriptorEncoder<'_>, rows: &[ServerRow<'_>]) -> fmt::Result {
    encode_family(
        encoder,
        "airlock_upstream_quarantined_tools",
        "Tools whose present definitions the operator has not accepted.",
        rows.iter().map(|row| {
            let tools = i64::try_from(row.quarantined).unwrap_or(i64::MAX);
            (row.labels(), ConstGauge::new(tools))
        }),
    )?;
    encode_family(
        encoder,
        "airlock_upstream_drifts",
        "Tools that came into quarantine, because their definitions are not the accepted ones.",
        rows.iter().map(|row| (row.labels(), row.metrics.drifts.clone())),
    )
}

impl UpstreamMetrics {
    fn encode_processes(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        rows: &[ServerRow<'_>],
    ) -> fmt::Result {
        let running = rows.iter().flat_map(|row| &row.instances);
        let running: Vec<_> = running.filter_map(|instance| instance.process).collect();
        let usage = self.processes.usage(&running);
        encode_family(
            encoder,
            "airlock_upstream_process_memory_bytes",
            "Resident memory of the process of an MCP server and of its descendants.",
            rows.iter().flat_map(|row| row.by_process(&usage)).map(|(labels, usage)| {
                let bytes = i64::try_from(usage.memory_bytes).unwrap_or(i64::MAX);
                (labels, ConstGauge::new(bytes))
            }),
        )?;
        encode_family(
            encoder,
            "airlock_upstream_process_cpu_seconds",
            "CPU time of the process of an MCP server and of its descendants.",
            rows.iter()
                .flat_map(|row| row.by_process(&usage))
                .map(|(labels, usage)| (labels, ConstCounter::new(usage.cpu.as_secs_f64()))),
        )
    }
}

impl ServerRow<'_> {
    fn labels(&self) -> [(&'static str, &str); 1] {
        [("client", self.client)]
    }

    /// Iterates over the instances with their labels.
    fn by_instance(&self) -> impl Iterator<Item = (Labels<'_>, &InstanceRow)> + Clone {
        self.instances.iter().map(|instance| {
            let number = instance.number.as_deref().map(|number| ("instance", number));
            (self.labels().into_iter().chain(number).collect(), instance)
        })
    }

    /// Iterates over the instances whose processes are known, with their labels and what the processes use.
    fn by_process(
        &self,
        usage: &UsageByProcess,
    ) -> impl Iterator<Item = (Labels<'_>, ProcessUsage)> {
        self.by_instance()
            .filter_map(move |(labels, instance)| Some((labels, *usage.get(&instance.process?)?)))
    }

    /// Iterates over the states of the instances with their labels.
    fn by_state(
        &self,
    ) -> impl Iterator<Item = (Labels<'_>, &InstanceRow, ServerPhase, Duration)> + Clone {
        self.by_instance().flat_map(|(labels, instance)| {
            instance.time_in.iter().map(move |(phase, time)| {
                let mut labels = labels.clone();
                labels.push(("state", phase.name()));
                (labels, instance, *phase, *time)
            })
        })
    }
}

impl Collector for UpstreamMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let servers = (self.servers)();
        let rows = self.rows(&servers);
        encode_calls(encoder, &rows)?;
        encode_family(
            encoder,
            "airlock_tool_call_duration_seconds",
            "Time from the admission of a tool call to its end. Calls refused as busy are left out.",
            rows.iter().map(|row| (row.labels(), row.metrics.durations.clone())),
        )?;
        encode_family(
            encoder,
            "airlock_upstream_wait_seconds",
            "Time for which a tool call waited until it could be sent to its MCP server.",
            rows.iter().map(|row| (row.labels(), row.metrics.waits.clone())),
        )?;
        let states = rows.iter().flat_map(ServerRow::by_state);
        let instances = rows.iter().flat_map(ServerRow::by_instance);
        encode_family(
            encoder,
            "airlock_upstream_state",
            "State of the connection to an MCP server: 1 for the present one.",
            states.clone().map(|(labels, instance, phase, _)| {
                (labels, ConstGauge::new(i64::from(phase == instance.phase)))
            }),
        )?;
        encode_family(
            encoder,
            "airlock_upstream_state_seconds",
            "Time that the connection to an MCP server spent in each state.",
            states.map(|(labels, _, _, time)| (labels, ConstCounter::new(time.as_secs_f64()))),
        )?;
        encode_family(
            encoder,
            "airlock_upstream_restarts",
            "Restarts of the connection to an MCP server after a failure.",
            instances.clone().map(|(labels, row)| (labels, ConstCounter::new(row.restarts))),
        )?;
        encode_family(
            encoder,
            "airlock_upstream_replacements",
            "Processes of an MCP server that were replaced while they served.",
            instances.clone().map(|(labels, row)| (labels, ConstCounter::new(row.replacements))),
        )?;
        encode_family(
            encoder,
            "airlock_upstream_queue",
            "Tool calls that wait to be sent to an MCP server.",
            rows.iter().map(|row| (row.labels(), row.metrics.queued.clone())),
        )?;
        encode_family(
            encoder,
            "airlock_upstream_in_flight",
            "Tool calls that run on an MCP server.",
            instances.map(|(labels, row)| (labels, ConstGauge::new(row.in_flight))),
        )?;
        encode_operations(encoder, &rows)?;
        encode_quarantine(encoder, &rows)?;
        self.encode_processes(encoder, &rows)
    }
}

airlock_strings::debug_fields!(UpstreamMetrics {});

/// Writes a family of metrics, for collectors that read what they count when it is shown. The encoder adds `_total` to
/// the name of a counter.
pub fn encode_family<L: EncodeLabelSet, M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metrics: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, metric) in metrics {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::prometheus_text, registry::Registry};
    use tokio::runtime::Handle;
    use tokio_util::sync::CancellationToken;

    use super::{super::CallOutcome, *};
    use crate::server::Server;
    use airlock_core::tool::{HostCode, ToolName};
    use airlock_mcp_client::{Process, Settings};

    fn client(name: &str) -> ClientName {
        ClientName::parse(name).expect("a good name")
    }

    /// Returns the text of a scrape: of the clients `up`, and `off`, which is disabled.
    fn scraped(count: impl FnOnce(&Metrics)) -> String {
        let up = client("up");
        let settings = Settings::new(up.clone(), Process::default());
        let server = Server::new(&settings, Handle::current(), None, None);
        count(server.metrics());
        let (control, _commands) =
            Control::new(server, CancellationToken::new(), Handle::current());
        let servers = BTreeMap::from([(up, Some(control)), (client("off"), None)]);
        let metrics = UpstreamMetrics::new(move || servers.clone());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).expect("text");
        text
    }

    #[tokio::test]
    async fn counters_are_written_in_the_text_format_and_those_of_tools_stay() {
        let text = scraped(|metrics| {
            for (tool, calls) in [("echo", 3), ("gone", 7)] {
                let tool = ToolName::new(&client("up"), tool);
                (0..calls).for_each(|_| metrics.count(&tool, CallOutcome::Ok));
            }
            metrics.other.add(CallOutcome::Failed(HostCode::Busy));
            metrics.durations.observe(0.25);
            metrics.durations.observe(61.0);
        });
        let is_shown = |line: &&str| {
            let is_bound = line.contains("le=") && !line.contains("le=\"0.25\"");
            let is_state = line.contains("state=") && !line.contains("\"disabled\"");
            !is_bound && !is_state && !line.contains("wait_seconds")
        };
        let shown: Vec<_> = text.lines().filter(is_shown).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        # HELP airlock_tool_calls_total Tool calls that have ended: outcome is ok, or the code of the error.
        # TYPE airlock_tool_calls_total counter
        airlock_tool_calls_total{client="up",outcome="busy"} 1
        airlock_tool_calls_total{client="up",tool="up-echo",outcome="ok"} 3
        airlock_tool_calls_total{client="up",tool="up-gone",outcome="ok"} 7
        # HELP airlock_tool_call_duration_seconds Time from the admission of a tool call to its end. Calls refused as busy are left out.
        # TYPE airlock_tool_call_duration_seconds histogram
        airlock_tool_call_duration_seconds_bucket{client="off",le="0.25"} 0
        airlock_tool_call_duration_seconds_sum{client="off"} 0.0
        airlock_tool_call_duration_seconds_count{client="off"} 0
        airlock_tool_call_duration_seconds_bucket{client="up",le="0.25"} 1
        airlock_tool_call_duration_seconds_sum{client="up"} 61.25
        airlock_tool_call_duration_seconds_count{client="up"} 2
        # HELP airlock_upstream_state State of the connection to an MCP server: 1 for the present one.
        # TYPE airlock_upstream_state gauge
        airlock_upstream_state{client="off",state="disabled"} 1
        airlock_upstream_state{client="up",state="disabled"} 0
        # HELP airlock_upstream_state_seconds_total Time that the connection to an MCP server spent in each state.
        # TYPE airlock_upstream_state_seconds_total counter
        airlock_upstream_state_seconds_total{client="off",state="disabled"} 0.0
        airlock_upstream_state_seconds_total{client="up",state="disabled"} 0.0
        # HELP airlock_upstream_restarts_total Restarts of the connection to an MCP server after a failure.
        # TYPE airlock_upstream_restarts_total counter
        airlock_upstream_restarts_total{client="off"} 0
        airlock_upstream_restarts_total{client="up"} 0
        # HELP airlock_upstream_replacements_total Processes of an MCP server that were replaced while they served.
        # TYPE airlock_upstream_replacements_total counter
        airlock_upstream_replacements_total{client="off"} 0
        airlock_upstream_replacements_total{client="up"} 0
        # HELP airlock_upstream_queue Tool calls that wait to be sent to an MCP server.
        # TYPE airlock_upstream_queue gauge
        airlock_upstream_queue{client="off"} 0
        airlock_upstream_queue{client="up"} 0
        # HELP airlock_upstream_in_flight Tool calls that run on an MCP server.
        # TYPE airlock_upstream_in_flight gauge
        airlock_upstream_in_flight{client="off"} 0
        airlock_upstream_in_flight{client="up"} 0
        # HELP mcp_client_operation_duration_seconds Time of a request to an MCP server, from its sending to its response or failure.
        # TYPE mcp_client_operation_duration_seconds histogram
        # HELP mcp_client_session_duration_seconds Time of a connection to an MCP server that has ended, with its start.
        # TYPE mcp_client_session_duration_seconds histogram
        # HELP airlock_upstream_quarantined_tools Tools whose present definitions the operator has not accepted.
        # TYPE airlock_upstream_quarantined_tools gauge
        airlock_upstream_quarantined_tools{client="off"} 0
        airlock_upstream_quarantined_tools{client="up"} 0
        # HELP airlock_upstream_drifts_total Tools that came into quarantine, because their definitions are not the accepted ones.
        # TYPE airlock_upstream_drifts_total counter
        airlock_upstream_drifts_total{client="off"} 0
        airlock_upstream_drifts_total{client="up"} 0
        # HELP airlock_upstream_process_memory_bytes Resident memory of the process of an MCP server and of its descendants.
        # TYPE airlock_upstream_process_memory_bytes gauge
        # HELP airlock_upstream_process_cpu_seconds_total CPU time of the process of an MCP server and of its descendants.
        # TYPE airlock_upstream_process_cpu_seconds_total counter
        "#);
    }
}
