//! Gateways in the process of the benchmark, one for each feature and place of a store.

use std::{convert::Infallible, rc::Rc, time::Duration};

use airlock_test_postgres::TestServer;
use airlock_tests::{
    Client, Embedded, Setup,
    bench::{
        far,
        process::own_cpu,
        run::{Run, closed_loop},
    },
    component, guests,
};
use serde_json::json;

/// Numbers of calls in flight.
pub(crate) const IN_FLIGHT: [usize; 3] = [1, 16, 256];

/// Name of the tool that is measured.
const TOOL: &str = "noop-ok";
/// Name of the tool whose call ends a run. It has effects.
const LAST_TOOL: &str = "last-ok";

/// The plugin that does nothing, in the two forms that a record tells apart.
struct Plugins {
    /// Its tool only reads.
    reads: Vec<u8>,
    /// Its tool has effects.
    effects: Vec<u8>,
}

/// Limits and records of the calls of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    Nothing,
    /// A limit that is never reached.
    Limit,
    /// The call log, and a tool that only reads: no call waits for its record.
    CallLogReads,
    /// The call log, in which each call has its admission before it runs.
    CallLog,
    /// The audit log too.
    BothLogs,
    /// The limit and both logs.
    All,
}

impl Feature {
    pub(crate) const ALL: [Self; 6] =
        [Self::Nothing, Self::Limit, Self::CallLogReads, Self::CallLog, Self::BothLogs, Self::All];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing on",
            Self::Limit => "a limit",
            Self::CallLogReads => "call log, reads",
            Self::CallLog => "call log",
            Self::BothLogs => "call log and audit log",
            Self::All => "a limit and both logs",
        }
    }

    /// Returns the project's aim for the CPU time that it adds to a call, in microseconds; `None` without one.
    pub(crate) fn added_cpu_aim(self) -> Option<f64> {
        match self {
            Self::Nothing => None,
            Self::Limit => Some(60.0),
            Self::CallLogReads | Self::CallLog | Self::BothLogs => Some(3.0),
            Self::All => Some(63.0),
        }
    }

    /// Returns the configuration of a gateway with the store at this URL, or with one in a file.
    fn setup(self, store: Option<&str>, plugins: &Plugins) -> Setup {
        let setup = Setup::new();
        let file = setup.directory().join("airlock.db").display().to_string();
        let store = store.map_or(file, str::to_owned);
        let only_reads = self == Self::CallLogReads;
        let plugin = if only_reads { &plugins.reads } else { &plugins.effects };
        let noop = Client::wasm("noop", setup.file("noop.wasm", plugin));
        let limit = json!({"tool_call_max_limit": 1_000_000_000, "tool_call_reset_duration": "1h"});
        let has_limit = matches!(self, Self::Limit | Self::All);
        let noop = if has_limit { noop.set("/rate_limit", limit) } else { noop };
        let last = Client::wasm("last", setup.file("last.wasm", &plugins.effects));
        let has_call_log = !matches!(self, Self::Nothing | Self::Limit);
        setup
            .client(noop)
            .client(last)
            .set("/store", store)
            .set("/server/require_virtual_key", false)
            .set("/records/call_log/enabled", has_call_log)
            .set("/records/audit/enabled", matches!(self, Self::BothLogs | Self::All))
            .set("/records/on_failure", if has_call_log { "refuse" } else { "count" })
    }
}

/// A gateway with a feature at a place, and its runs.
pub(crate) struct Stage {
    pub(crate) place: &'static str,
    pub(crate) feature: Feature,
    /// By the number of calls in flight, as [`IN_FLIGHT`] has them.
    pub(crate) runs: [Vec<Run>; IN_FLIGHT.len()],
    gateway: Embedded,
    /// The server of the store; `None` for a file.
    _server: Option<Rc<TestServer>>,
}

impl Stage {
    /// Starts a gateway for each feature: on a file, and, where `PostgreSQL` is installed, on a server that is one
    /// `round_trip` away. Each has a store of its own.
    pub(crate) async fn all(round_trip: Duration) -> Vec<Self> {
        let effects = component::with_tools(guests::NOOP, |tools| {
            tools[0]["annotations"]["readOnlyHint"] = false.into();
        });
        let plugins = Plugins {
            reads: component::with_own_tools(guests::NOOP).await,
            effects: effects.await,
        };
        let mut stages = Vec::new();
        for feature in Feature::ALL {
            stages.push(Self::start("file", feature, None, &plugins, None).await);
        }
        let Some(server) = TestServer::start_tcp(None).map(Rc::new) else { return stages };
        let port = far::delayed(server.port(), round_trip);
        for (number, feature) in Feature::ALL.into_iter().enumerate() {
            server.execute(&format!("CREATE DATABASE limits_{number}"));
            let store =
                format!("postgres://airlock@127.0.0.1:{port}/limits_{number}?sslmode=disable");
            let server = Some(server.clone());
            let place = "PostgreSQL, 1 ms away";
            stages.push(Self::start(place, feature, Some(&store), &plugins, server).await);
        }
        stages
    }

    async fn start(
        place: &'static str,
        feature: Feature,
        store: Option<&str>,
        plugins: &Plugins,
        server: Option<Rc<TestServer>>,
    ) -> Self {
        let gateway = Embedded::start(feature.setup(store, plugins)).await;
        let runs = [const { Vec::new() }; IN_FLIGHT.len()];
        let stage = Self { place, feature, runs, gateway, _server: server };
        // It opens the store.
        stage.call(TOOL).await;
        stage
    }

    /// Calls for some time, with each number of calls in flight. The CPU time of a run has that of its records: its
    /// last call, which has effects, waits until they are written. The network before the server has no part in it.
    pub(crate) async fn run(&mut self, over: Duration) {
        for (at, in_flight) in IN_FLIGHT.into_iter().enumerate() {
            let stage = &*self;
            let before = cpu();
            let meter = closed_loop(in_flight, over, async || {
                stage.call(TOOL).await;
                Ok::<(), Infallible>(())
            });
            let meter = meter.await;
            stage.call(LAST_TOOL).await;
            let run = meter.end(|| cpu().saturating_sub(before));
            self.runs[at].push(run);
        }
    }

    async fn call(&self, tool: &str) {
        let ended = self.gateway.call(tool, "{}").await;
        assert_eq!(ended.text(), "ok", "{}, {}", self.place, self.feature.name());
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
    }
}

/// Returns the CPU time so far of the gateways and their caller.
fn cpu() -> Duration {
    own_cpu().saturating_sub(far::cpu())
}
