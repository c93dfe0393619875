//! The ways to a tool, and the rounds in which all are measured.

use std::time::Duration;

use airlock_tests::{
    Client as Source, Embedded, Gateway, Setup,
    bench::{
        message::{Era, Work},
        process::Process,
        run::{Rounds, Run, closed_loop},
        sdk::Sdk,
        server,
    },
    wait,
};
use rustix::process::Pid;

use super::http_server::HttpServer;

/// Tool of the server, under its own name and under that of the gateway.
const DIRECT: Work = Work::Call(server::FIRST);
const THROUGH: Work = Work::Call(NAME);
const NAME: &str = "server-ok_000";

/// Transport of the MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "an MCP server over stdio",
            Self::Http => "an MCP server over streamable HTTP",
        }
    }
}

/// Destination of the calls of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the MCP server, by `rmcp`.
    Direct,
    /// To a gateway in the same process.
    Embedded,
    /// To `/mcp` of a gateway, by `rmcp`.
    Mcp,
}

impl Route {
    const ALL: [Self; 3] = [Self::Direct, Self::Embedded, Self::Mcp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "rmcp, direct",
            Self::Embedded => "embedded gateway",
            Self::Mcp => "rmcp, through /mcp",
        }
    }
}

enum Client {
    Sdk(Box<Sdk>, Work),
    Embedded(Box<Embedded>),
}

impl Client {
    /// Calls for some time, with `in_flight` calls at any time.
    async fn run(&mut self, in_flight: usize, over: Duration) -> Run {
        match self {
            Self::Sdk(sdk, work) => sdk.run(*work, in_flight, over).await,
            Self::Embedded(gateway) => embedded(gateway, in_flight, over).await,
        }
    }
}

async fn embedded(gateway: &Embedded, in_flight: usize, over: Duration) -> Run {
    let meter = closed_loop(in_flight, over, async || {
        let ended = gateway.call(NAME, "{}").await;
        match ended.text() {
            "ok" => Ok(()),
            other => Err(other.to_owned()),
        }
    });
    meter.await.end(|| Duration::ZERO)
}

/// One way of calling the tool of one server.
pub(crate) struct Way {
    pub(crate) transport: Transport,
    pub(crate) route: Route,
    pub(crate) rounds: Rounds,
    client: Client,
}

/// All ways, with the processes that they need. The ways of one transport follow each other, the
/// direct one first.
pub(crate) struct Bench {
    ways: Vec<Way>,
    gateways: Vec<Gateway>,
    server: HttpServer,
}

impl Bench {
    /// Starts all servers and gateways, and connects to them.
    pub(crate) async fn start() -> Self {
        let server = HttpServer::start().await;
        let mut bench = Self { ways: Vec::new(), gateways: Vec::new(), server };
        for transport in [Transport::Stdio, Transport::Http] {
            let gateway = bench.setup(transport).serve_connected().await;
            for route in Route::ALL {
                let client = bench.client(transport, route, &gateway).await;
                bench.ways.push(Way { transport, route, rounds: Rounds::default(), client });
            }
            bench.gateways.push(gateway);
        }
        bench
    }

    async fn client(&self, transport: Transport, route: Route, gateway: &Gateway) -> Client {
        let sdk = match (route, transport) {
            (Route::Embedded, _) => {
                let embedded = Embedded::start(self.setup(transport)).await;
                wait::until("the embedded gateway to be connected", async || {
                    embedded.caller().admit(NAME, "{}").is_ok().then_some(())
                })
                .await;
                return Client::Embedded(Box::new(embedded));
            }
            (Route::Direct, Transport::Stdio) => {
                return Client::Sdk(
                    Box::new(Sdk::start(server::command(1), Era::Modern).await),
                    DIRECT,
                );
            }
            (Route::Direct, Transport::Http) => {
                let id = self.server.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
                let process = Process::new(id.expect("it lives"));
                let sdk = Sdk::connect(self.server.address(), process, Era::Modern).await;
                return Client::Sdk(Box::new(sdk), DIRECT);
            }
            (Route::Mcp, _) => {
                Sdk::connect(gateway.address(), Process::new(gateway.pid()), Era::Modern).await
            }
        };
        Client::Sdk(Box::new(sdk), THROUGH)
    }

    fn setup(&self, transport: Transport) -> Setup {
        let source = match transport {
            Transport::Stdio => server::source("server", 1),
            Transport::Http => {
                Source::http("server", &format!("{}/mcp", self.server.address())).auto(&["*"])
            }
        };
        Setup::new().client(source)
    }

    /// Measures each way once, in an order that changes from round to round.
    pub(crate) async fn round(&mut self, round: usize, over: Duration, in_flight: usize) {
        let count = self.ways.len();
        for index in 0..count {
            // 5 and the number of ways have no common divisor, so that each way has every place.
            let way = &mut self.ways[(index + round * 5) % count];
            way.rounds.alone.push(way.client.run(1, over).await);
            way.rounds.at_once.push(way.client.run(in_flight, over).await);
        }
    }

    /// Ends all processes. Returns the measurements.
    pub(crate) fn end(self) -> Vec<Way> {
        self.ways
    }
}
