//! Gateways in the process of the benchmark, one for each feature and place of a store.

use std::{convert::Infallible, rc::Rc, time::Duration};

use airlock_test_postgres::TestServer;
use airlock_tests::{
    Client, Embedded, Setup,
    bench::{
        far,
        run::{Run, closed_loop},
    },
    component, guests,
};
use serde_json::json;

/// Numbers of calls in flight.
pub(crate) const IN_FLIGHT: [usize; 3] = [1, 16, 256];

/// Name of the tool.
const TOOL: &str = "noop-ok";

/// What a gateway has for its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    Nothing,
    /// A limit that is never reached.
    Limit,
    /// The call log, in which each call has its admission before it runs.
    CallLog,
    /// The audit log too.
    BothLogs,
}

impl Feature {
    pub(crate) const ALL: [Self; 4] = [Self::Nothing, Self::Limit, Self::CallLog, Self::BothLogs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing on",
            Self::Limit => "a limit",
            Self::CallLog => "call log",
            Self::BothLogs => "call log and audit log",
        }
    }

    /// Returns the configuration of a gateway with this plugin and the store at this URL, or with one in a file.
    fn setup(self, store: Option<&str>, plugin: &[u8]) -> Setup {
        let setup = Setup::new();
        let file = setup.directory().join("airlock.db").display().to_string();
        let store = store.map_or(file, str::to_owned);
        let noop = Client::wasm("noop", setup.file("noop.wasm", plugin));
        let noop = match self {
            Self::Limit => noop.set(
                "/rate_limit",
                json!({"tool_call_max_limit": 1_000_000_000, "tool_call_reset_duration": "1h"}),
            ),
            Self::Nothing | Self::CallLog | Self::BothLogs => noop,
        };
        let has_call_log = matches!(self, Self::CallLog | Self::BothLogs);
        setup
            .client(noop)
            .set("/store", store)
            .set("/server/require_virtual_key", false)
            .set("/records/call_log/enabled", has_call_log)
            .set("/records/audit/enabled", self == Self::BothLogs)
            // A run then leaves nothing to write to the next one.
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
        let plugin = component::with_tools(guests::NOOP, |tools| {
            tools[0]["annotations"]["readOnlyHint"] = false.into();
        });
        let plugin = plugin.await;
        let mut stages = Vec::new();
        for feature in Feature::ALL {
            stages.push(Self::start("file", feature, None, &plugin, None).await);
        }
        let Some(server) = TestServer::start_tcp(None).map(Rc::new) else { return stages };
        let port = far::delayed(server.port(), round_trip);
        for (number, feature) in Feature::ALL.into_iter().enumerate() {
            server.execute(&format!("CREATE DATABASE limits_{number}"));
            let store =
                format!("postgres://airlock@127.0.0.1:{port}/limits_{number}?sslmode=disable");
            let server = Some(server.clone());
            let place = "PostgreSQL, 1 ms away";
            stages.push(Self::start(place, feature, Some(&store), &plugin, server).await);
        }
        stages
    }

    async fn start(
        place: &'static str,
        feature: Feature,
        store: Option<&str>,
        plugin: &[u8],
        server: Option<Rc<TestServer>>,
    ) -> Self {
        let gateway = Embedded::start(feature.setup(store, plugin)).await;
        let runs = [const { Vec::new() }; IN_FLIGHT.len()];
        let stage = Self { place, feature, runs, gateway, _server: server };
        // It opens the store.
        stage.call().await;
        stage
    }

    /// Calls for some time, with each number of calls in flight.
    pub(crate) async fn run(&mut self, over: Duration) {
        for (at, in_flight) in IN_FLIGHT.into_iter().enumerate() {
            let stage = &*self;
            let meter = closed_loop(in_flight, over, async || {
                stage.call().await;
                Ok::<(), Infallible>(())
            });
            let run = meter.await.end(|| Duration::ZERO);
            self.runs[at].push(run);
        }
    }

    async fn call(&self) {
        let ended = self.gateway.call(TOOL, "{}").await;
        assert_eq!(ended.text(), "ok", "{}, {}", self.place, self.feature.name());
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
    }
}
