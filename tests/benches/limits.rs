//! Cost of limits and records to calls of tools: the same calls of a plugin that does nothing, with nothing
//! on, with a limit, with the call log, with both logs, and with all of it, on a store in a file and on a server of
//! `PostgreSQL` behind a network with a round trip of one millisecond, in alternating rounds.
//!
//! Rows have the CPU time of a call too, which is what the project has aims for.
//!
//! `make bench BENCH=limits` runs it; `--json` prints one document instead of tables. `limits.md` describes
//! the rows.

mod stage;

use std::{process::ExitCode, time::Duration};

use airlock_tests::bench::{
    self,
    report::{Aim, Cell, Report, Table},
    run::{Summary, added_cpu},
};

use self::stage::{Feature, IN_FLIGHT, Stage};

/// Round trip of the distant server.
const ROUND_TRIP: Duration = Duration::from_millis(1);

pub(super) fn main() -> ExitCode {
    let effort = if bench::is_full() { Effort::FULL } else { Effort::LITTLE };
    bench::runtime().block_on(measure(effort)).finish()
}

/// Extent of the measurements.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// Time of a run with one number of calls in flight. Each call of a run is finished.
    over: Duration,
}

impl Effort {
    const FULL: Self = Self { rounds: 15, over: Duration::from_millis(200) };
    const LITTLE: Self = Self { rounds: 1, over: Duration::ZERO };
}

async fn measure(effort: Effort) -> Report {
    let Effort { rounds, over } = effort;
    let mut report = Report::new(format!("medians of {rounds} rounds of {} ms", over.as_millis()));
    let mut stages = Stage::all(ROUND_TRIP).await;
    for round in 0..rounds {
        for index in 0..stages.len() {
            // The order changes from round to round.
            let at = (index + round) % stages.len();
            stages[at].run(over).await;
        }
    }
    let mut ratios = Table::new("ratios to nothing on", &RATIOS);
    for place in stages.chunks(Feature::ALL.len()) {
        for (at, in_flight) in IN_FLIGHT.into_iter().enumerate() {
            report.table(times(place, at, in_flight));
        }
        for stage in place {
            let name = format!("{}: {}", stage.place, stage.feature.name());
            ratios.row(name, cells(stage, &place[0]));
        }
    }
    report.table(ratios);
    if stages.len() == Feature::ALL.len() {
        report.note("PostgreSQL is not installed, so only the file was measured");
    }
    for stage in stages {
        Box::pin(stage.stop()).await;
    }
    report
}

/// Column with the CPU time of a call beyond that with nothing on.
const ADDED_CPU: &str = "added CPU";

/// Columns of the ratios: each measurement with each number of calls in flight.
const RATIOS: [&str; 9] = [
    "/s at 1",
    "at 16",
    "at 256",
    "p50 at 1",
    "p50 at 16",
    "p50 at 256",
    "p99 at 1",
    "p99 at 16",
    "p99 at 256",
];

/// Returns the measurements of one place with one number of calls in flight.
fn times(place: &[Stage], at: usize, in_flight: usize) -> Table {
    let title = format!("{}, {in_flight} in flight", place[0].place);
    let mut table = Table::new(title, &["per second", "p50", "p99", "CPU", ADDED_CPU]);
    for stage in place {
        let Summary { per_second, p50, p99, cpu } = Summary::new(&stage.runs[at]);
        let aim = stage.feature.added_cpu_aim();
        let added = aim.map(|_| added_cpu(&stage.runs[at], &place[0].runs[at]));
        let row = table.row(
            stage.feature.name(),
            [
                Cell::Number(per_second),
                Cell::Time(p50),
                Cell::Time(p99),
                Cell::Time(cpu),
                added.map_or(Cell::Empty, Cell::Added),
            ],
        );
        if let Some(micros) = aim {
            row.aim(ADDED_CPU, Aim::AtMost(micros));
        }
    }
    table
}

/// Returns the ratios of a stage to the one with nothing on at the same place.
fn cells(stage: &Stage, nothing: &Stage) -> Vec<Cell> {
    let measurements: [fn(&Summary) -> f64; 3] =
        [|summary| summary.per_second, |summary| summary.p50, |summary| summary.p99];
    let ratios = measurements.iter().flat_map(|measurement| {
        let pairs = stage.runs.iter().zip(&nothing.runs);
        pairs.map(move |(runs, base)| {
            Cell::Ratio(measurement(&Summary::new(runs)) / measurement(&Summary::new(base)))
        })
    });
    ratios.collect()
}
