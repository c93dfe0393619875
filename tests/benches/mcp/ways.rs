//! The ways to a tool, and the rounds in which all are measured.

use std::time::Duration;

use airlock_tests::{
    Client as Source, Gateway, Setup,
    bench::{
        address,
        message::{Era, Work},
        process::Process,
        run::{Rounds, Run},
        sdk::Sdk,
        server,
    },
    binary, guests,
};
use tokio::process::Command;

use super::{http::Http, lines::Lines};

/// Tool of the server, under its own name and under that of the gateway.
const DIRECT: Work = Work::Call(server::FIRST);
const THROUGH: Work = Work::Call("server-ok_000");
/// Tool of the plugin.
const PLUGIN_TOOL: &str = "noop-ok";
const PLUGIN: Work = Work::Call(PLUGIN_TOOL);

/// A client with its connection.
enum Client {
    Lines(Lines),
    Http(Http),
    Sdk(Sdk),
}

impl Client {
    /// Sends one request. Returns the bytes of its response; 0 if the client hides them.
    async fn one(&mut self, work: Work, tools: usize) -> usize {
        let response = match self {
            Self::Lines(lines) => lines.one(work).await,
            Self::Http(http) => http.one(work).await,
            Self::Sdk(sdk) => {
                sdk.one(work).await.expect("it succeeds");
                return 0;
            }
        };
        work.check(&response, tools);
        response.len()
    }

    async fn run(&mut self, work: Work, in_flight: usize, over: Duration) -> Run {
        match self {
            Self::Lines(lines) => lines.run(work, in_flight, over).await,
            Self::Http(http) => http.run(work, in_flight, over).await,
            Self::Sdk(sdk) => sdk.run(work, in_flight, over).await,
        }
    }
}

/// Destination of the requests of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the MCP server, over stdio.
    Direct,
    /// To the gateway, over HTTP.
    Http,
    /// To `airlock mcp`, over stdio.
    Stdio,
}

impl Route {
    const ALL: [Self; 3] = [Self::Direct, Self::Http, Self::Stdio];

    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Http => "/mcp",
            Self::Stdio => "airlock mcp",
        }
    }
}

/// One way of sending one request.
pub(crate) struct Way {
    /// Kind of the request, and the client if it is not the benchmark's own.
    pub(crate) what: &'static str,
    pub(crate) route: Route,
    era: Era,
    /// Index of the same request without the gateway; that of the way itself if it is direct.
    pub(crate) direct: usize,
    /// Bytes of the response.
    pub(crate) bytes: usize,
    pub(crate) rounds: Rounds,
    work: Work,
    client: usize,
}

impl Way {
    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.route.name(), self.era.name())
    }

    /// Returns whether it calls the tool of the plugin.
    pub(crate) fn is_of_plugin(&self) -> bool {
        matches!(self.work, Work::Call(PLUGIN_TOOL))
    }
}

/// All ways of some requests, with what they need.
pub(crate) struct Bench {
    ways: Vec<Way>,
    clients: Vec<Client>,
    /// Tools of the server.
    tools: usize,
    gateway: Gateway,
    /// One for each `airlock mcp`.
    setups: Vec<Setup>,
}

impl Bench {
    /// Prepares `tools/call` of a tool of a server and of a plugin.
    pub(crate) async fn of_calls() -> Self {
        let mut ways = Self::start(1, true).await;
        let own = ways.connect(Kind::Own).await;
        let sdk = ways.connect(Kind::Sdk).await;
        ways.add("a tool of an MCP server", own, &Route::ALL, |route| match route {
            Route::Direct => DIRECT,
            _ => THROUGH,
        });
        // The plugin stands in for the server, so that the same way without the gateway compares.
        ways.add("a tool of a plugin", own, &Route::ALL[1..], |_| PLUGIN);
        ways.add("a tool of an MCP server, rmcp's client", sdk, &Route::ALL, |route| match route {
            Route::Direct => DIRECT,
            _ => THROUGH,
        });
        ways
    }

    /// Prepares `tools/list` of a server with `tools` tools.
    pub(crate) async fn of_lists(tools: usize) -> Self {
        let mut ways = Self::start(tools, false).await;
        let own = ways.connect(Kind::Own).await;
        ways.add("tools/list", own, &Route::ALL, |_| Work::List);
        ways
    }

    async fn start(tools: usize, with_plugin: bool) -> Self {
        let gateway = setup(tools, with_plugin).serve_connected().await;
        let setups = (0..4).map(|_| setup(tools, with_plugin)).collect();
        Self { ways: Vec::new(), clients: Vec::new(), tools, gateway, setups }
    }

    /// Connects a client of each era by each route. Returns the index of the first; the eras of a
    /// route follow each other.
    async fn connect(&mut self, kind: Kind) -> usize {
        let first = self.clients.len();
        let process = Process::new(self.gateway.pid());
        for route in Route::ALL {
            for era in Era::ALL {
                let command = match route {
                    Route::Direct => server::command(self.tools),
                    _ => airlock_mcp(&self.setups[kind as usize * 2 + era as usize]),
                };
                let client = match (kind, route) {
                    (Kind::Own, Route::Http) => Client::Http(
                        Http::connect(address(&self.gateway), process.clone(), era).await,
                    ),
                    (Kind::Own, _) => Client::Lines(Lines::start(command, era).await),
                    (Kind::Sdk, Route::Http) => Client::Sdk(
                        Sdk::connect(self.gateway.address(), process.clone(), era).await,
                    ),
                    (Kind::Sdk, _) => Client::Sdk(Sdk::start(command, era).await),
                };
                self.clients.push(client);
            }
        }
        first
    }

    /// Adds the ways of one kind of request. The direct ones are those of the clients from `first` on.
    fn add(
        &mut self,
        what: &'static str,
        first: usize,
        routes: &[Route],
        work: impl Fn(Route) -> Work,
    ) {
        for &route in routes {
            for era in Era::ALL {
                let client = first + route as usize * 2 + era as usize;
                let direct = first + era as usize;
                let found = self.ways.iter().position(|way| way.client == direct);
                self.ways.push(Way {
                    what,
                    route,
                    era,
                    direct: found.unwrap_or(self.ways.len()),
                    bytes: 0,
                    rounds: Rounds::default(),
                    work: work(route),
                    client,
                });
            }
        }
    }

    /// Ends all processes. Returns the measurements.
    pub(crate) fn end(self) -> Vec<Way> {
        self.ways
    }

    /// Sends one request by each way, and checks its response.
    pub(crate) async fn check(&mut self) {
        for way in &mut self.ways {
            way.bytes = self.clients[way.client].one(way.work, self.tools).await;
        }
    }

    /// Measures each way once, in an order that changes from round to round.
    pub(crate) async fn round(
        &mut self,
        round: usize,
        over: Duration,
        at_once: Option<(usize, Duration)>,
    ) {
        let count = self.ways.len();
        for index in 0..count {
            // 5 and the numbers of ways have no common divisor, so that each way has every place.
            let way = &mut self.ways[(index + round * 5) % count];
            let client = &mut self.clients[way.client];
            way.rounds.alone.push(client.run(way.work, 1, over).await);
            if let Some((in_flight, over)) = at_once {
                way.rounds.at_once.push(client.run(way.work, in_flight, over).await);
            }
        }
    }
}

/// Kind of client.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// The benchmark's own.
    Own,
    /// That of `rmcp`.
    Sdk,
}

fn setup(tools: usize, with_plugin: bool) -> Setup {
    let setup = Setup::new().client(server::source("server", tools));
    if with_plugin { setup.client(Source::wasm("noop", guests::NOOP).auto(&["*"])) } else { setup }
}

fn airlock_mcp(setup: &Setup) -> Command {
    let mut command = Command::new(binary("airlock-under-test"));
    command.args(["mcp", "--config"]).arg(setup.write());
    command.stderr(std::process::Stdio::null());
    command
}
