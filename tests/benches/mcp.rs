//! Cost of the gateway to an MCP client: the same requests straight to an MCP server and through the
//! gateway, over HTTP and stdio, in both eras, in alternating rounds.
//!
//! `make bench` runs it; `--json` prints one document instead of tables, `--in-flight COUNT` sends
//! another number of requests at once than 64. The clients are one thread of this process; the
//! server, the gateway and each `airlock mcp` are processes of their own. Times count as differences
//! between the ways, and as ratios: all share the machine. `mcp.md` describes the rows.

mod http;
mod lines;
mod report;
mod sessions;
mod ways;

use std::{process::ExitCode, time::Duration};

use airlock_tests::bench::{self, report::Report};

use self::ways::Bench;

pub(super) fn main() -> ExitCode {
    let runtime = bench::runtime_of_one_thread();
    let mut effort = if bench::is_full() { Effort::FULL } else { Effort::LITTLE };
    if let Some(in_flight) = bench::option("--in-flight") {
        effort.in_flight = in_flight.parse().expect("a number of requests");
    }
    runtime.block_on(measure(effort)).finish()
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
    let Effort { rounds, over, at_once_over, in_flight, .. } = effort;
    let mut report = Report::new(format!(
        "medians of {rounds} rounds; {} ms each with 1 in flight, {} ms with many: {in_flight}",
        over.as_millis(),
        at_once_over.as_millis()
    ));
    let mut calls = Bench::of_calls().await;
    calls.check().await;
    for round in 0..rounds {
        calls.round(round, over, Some((in_flight, at_once_over))).await;
    }
    let calls = calls.end();
    let mut lists = Bench::of_lists(effort.tools).await;
    lists.check().await;
    for round in 0..rounds {
        lists.round(round, over, None).await;
    }
    let lists = lists.end();
    let mut sessions = Vec::new();
    for _ in 0..effort.session_rounds {
        sessions.push(sessions::measure(effort.sessions).await);
    }
    report::calls(&mut report, &calls);
    report::lists(&mut report, &lists, effort.tools);
    report::memory(&mut report, &sessions, effort.sessions);
    let failed: u32 = calls.iter().chain(&lists).map(|way| way.rounds.failed()).sum();
    report.check(format!("every request succeeded ({failed} failed)"), failed == 0);
    report
}
