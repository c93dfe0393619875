//! Cost of the gateway to a tool call: the same call made by `rmcp` straight to an MCP server and
//! through the gateway, with servers over stdio and HTTP, in alternating rounds.
//!
//! `make bench` runs it; `--json` prints one document instead of tables. Times count as differences
//! between the ways, and as ratios: all share the machine. `upstream.md` describes the rows.

mod http_server;
#[path = "../mcp/message.rs"]
#[expect(dead_code, reason = "the benchmark of MCP clients uses the rest")]
mod message;
#[path = "../chat/process.rs"]
#[expect(dead_code, reason = "the benchmark of chats uses the rest")]
mod process;
mod report;
#[path = "../mcp/run.rs"]
#[expect(dead_code, reason = "the benchmark of MCP clients uses the rest")]
mod run;
#[path = "../mcp/sdk.rs"]
mod sdk;
#[path = "../mcp/server.rs"]
mod server;
mod ways;

use std::{env, process::ExitCode, time::Duration};

use self::{report::Report, ways::Bench};

fn main() -> ExitCode {
    if let Some(tools) = server::requested() {
        current_thread().block_on(server::serve(tools));
        return ExitCode::SUCCESS;
    }
    if env::args().any(|argument| argument == http_server::SERVE) {
        current_thread().block_on(http_server::serve());
        return ExitCode::SUCCESS;
    }
    // `cargo test` runs benchmarks too, to check that they work; it passes no `--bench`.
    let is_bench = env::args().any(|argument| argument == "--bench");
    let as_json = env::args().any(|argument| argument == "--json");
    let effort = if is_bench { Effort::FULL } else { Effort::LITTLE };
    // The gateway that is embedded needs the threads that an embedding program gives it.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
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
    /// Time of each run. Short, so that load of the machine that lasts longer affects every way of a
    /// round.
    over: Duration,
    /// Calls in flight of the second run of each way.
    in_flight: usize,
}

impl Effort {
    const FULL: Self = Self { rounds: 31, over: Duration::from_millis(150), in_flight: 32 };
    const LITTLE: Self = Self { rounds: 1, over: Duration::from_millis(20), in_flight: 4 };
}

async fn measure(effort: Effort) -> Report {
    let mut bench = Bench::start().await;
    for round in 0..effort.rounds {
        bench.round(round, effort.over, effort.in_flight).await;
    }
    Report::new(effort, bench.end())
}

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
