//! Runs attacks on a model that obeys every order that it reads, against the real gateway with real MCP servers, and
//! counts which of them the gateway stops, by class of attack and by configuration. What is not stopped comes first.
//!
//! `make lab` runs it; `--json` prints one document instead of tables, and `--case NAME` runs one case and prints what
//! its servers have received. It can serve as a check: the exit code is 1 if a case ends otherwise than its file says.
//!
//! A case is a file of `cases`; `docs/attack-lab.md` describes its members. A configuration is an entry of
//! `configurations.rs`, and a column of the tables.

mod configurations;
mod report;
mod stage;
mod user;

use std::process::ExitCode;

use airlock_tests::{
    bench::{self, report::Report},
    lab::Case,
};
use futures_util::{StreamExt as _, stream};

use self::{
    configurations::{ALL, Configuration},
    report::Outcome,
};

/// Runs at once: each is mostly the start of a gateway and of its servers.
const AT_ONCE: usize = 4;
/// One of so many cases is run without `--bench`.
const FEW: usize = 12;

pub(super) fn main() -> ExitCode {
    let mut cases = Case::read_all();
    if let Some(name) = bench::option("--case") {
        cases.retain(|case| case.name == name);
    } else if !bench::is_full() {
        cases = cases.into_iter().step_by(FEW).collect();
    }
    bench::runtime().block_on(run(&cases)).finish()
}

/// Runs all cases under all configurations.
async fn run(cases: &[Case]) -> Report {
    let runs = cases.iter().flat_map(|case| ALL.iter().map(move |column| (case, column)));
    let outcomes = stream::iter(runs.collect::<Vec<_>>()).map(outcome).buffered(AT_ONCE);
    let outcomes: Vec<_> = outcomes.collect().await;
    report::fill(cases, &outcomes)
}

/// Runs one case under one configuration.
async fn outcome((case, configuration): (&Case, &'static Configuration)) -> Outcome {
    let played = Box::pin(stage::play(case, configuration)).await;
    Outcome {
        configuration: configuration.name,
        is_reached: case.goal.is_reached(&played.received),
        is_task_done: report::is_task_done(case, &played.received),
        received: played.received,
        refused: played.refused,
        trouble: played.trouble,
    }
}
