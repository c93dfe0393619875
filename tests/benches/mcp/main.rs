//! Cost of the gateway to an MCP client: the same requests straight to an MCP server and through the
//! gateway, over HTTP and stdio, in both eras, in alternating rounds.
//!
//! `make bench` runs it; `--json` prints one document instead of tables, `--in-flight COUNT` sends
//! another number of requests at once than 64. The clients are one thread of this process; the
//! server, the gateway and each `airlock mcp` are processes of their own. Times count as differences
//! between the ways, and as ratios: all share the machine. `mcp.md` describes the rows.

mod http;
mod lines;
mod message;
#[path = "../chat/process.rs"]
#[expect(dead_code, reason = "the benchmark of chats uses the rest")]
mod process;
mod report;
mod run;
mod sdk;
mod server;
mod sessions;
mod ways;

use std::{env, net::SocketAddr, process::ExitCode, time::Duration};

use airlock_tests::Gateway;

use self::{report::Report, ways::Bench};

fn main() -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if let Some(tools) = server::requested() {
        runtime.block_on(server::serve(tools));
        return ExitCode::SUCCESS;
    }
    // `cargo test` runs benchmarks too, to check that they work; it passes no `--bench`.
    let is_bench = env::args().any(|argument| argument == "--bench");
    let as_json = env::args().any(|argument| argument == "--json");
    let mut effort = if is_bench { Effort::FULL } else { Effort::LITTLE };
    if let Some(in_flight) = env::args().skip_while(|argument| argument != "--in-flight").nth(1) {
        effort.in_flight = in_flight.parse().expect("a number of requests");
    }
    let report = runtime.block_on(measure(effort));
    if as_json {
        println!("{:#}", report.to_json());
    } else {
        report.print();
    }
    if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Extent of the measurements.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// Time of each run with one request at a time. Short, so that load of the machine that lasts
    /// longer affects every way of a round.
    over: Duration,
    /// Time of each run with many. Longer, because CPU time is counted in hundredths of a second.
    at_once_over: Duration,
    /// Requests in flight of the second run of each way.
    in_flight: usize,
    /// Tools of the list.
    tools: usize,
    sessions: u32,
    session_rounds: u32,
}

impl Effort {
    const FULL: Self = Self {
        rounds: 31,
        over: Duration::from_millis(80),
        at_once_over: Duration::from_millis(200),
        in_flight: 64,
        tools: 500,
        sessions: 1_000,
        session_rounds: 3,
    };
    const LITTLE: Self = Self {
        rounds: 1,
        over: Duration::from_millis(20),
        at_once_over: Duration::from_millis(20),
        in_flight: 4,
        tools: 10,
        sessions: 8,
        session_rounds: 1,
    };
}

async fn measure(effort: Effort) -> Report {
    let mut report = Report::new(effort);
    let mut calls = Bench::of_calls().await;
    calls.check().await;
    for round in 0..effort.rounds {
        calls.round(round, effort.over, Some((effort.in_flight, effort.at_once_over))).await;
    }
    report.calls = calls.end();
    let mut lists = Bench::of_lists(effort.tools).await;
    lists.check().await;
    for round in 0..effort.rounds {
        lists.round(round, effort.over, None).await;
    }
    report.lists = lists.end();
    for _ in 0..effort.session_rounds {
        report.sessions.push(sessions::measure(effort.sessions).await);
    }
    report
}

fn address(gateway: &Gateway) -> SocketAddr {
    let address = gateway.address().strip_prefix("http://").unwrap_or_default();
    address.parse().expect("the gateway announces an address")
}
