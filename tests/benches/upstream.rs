//! Cost of the gateway to a tool call: the same call made by `rmcp` straight to an MCP server and
//! through the gateway, with servers over stdio and HTTP, in alternating rounds.
//!
//! `make bench` runs it; `--json` prints one document instead of tables. Times count as differences
//! between the ways, and as ratios: all share the machine. `upstream.md` describes the rows.

mod http_server;
mod report;
mod ways;

use std::{process::ExitCode, time::Duration};

use airlock_tests::bench::{self, has_option, report::Report};

use self::ways::Bench;

/// Serves over HTTP until it is killed if a run has started this program for it; returns false if none has.
pub(super) fn is_server() -> bool {
    let is_asked = has_option(http_server::SERVE);
    if is_asked {
        bench::runtime_of_one_thread().block_on(http_server::serve());
    }
    is_asked
}

pub(super) fn main() -> ExitCode {
    let effort = if bench::is_full() { Effort::FULL } else { Effort::LITTLE };
    // The gateway that is embedded needs the threads that an embedding program gives it.
    bench::runtime().block_on(measure(effort)).finish()
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
    let Effort { rounds, over, in_flight } = effort;
    let heading = format!(
        "medians of {rounds} rounds of {} ms, with 1 call in flight and with many: {in_flight}",
        over.as_millis()
    );
    let mut report = Report::new(heading);
    let mut bench = Bench::start().await;
    for round in 0..rounds {
        bench.round(round, over, in_flight).await;
    }
    report::fill(&mut report, &bench.end());
    report
}
