//! Cost of a script: the sandbox, its calls, its tools, its journal, the stop for an approval, rules about
//! arguments and manifests. Each row is measured once a round in both languages, so that other load of the
//! machine affects all alike.
//!
//! `make bench` runs it; `--json` prints one document instead of a table, `--only TEXT` measures the rows
//! with this text in their names. Without the program for native scripts (`NATIVE_SCRIPT`) that column
//! stays empty. `code_mode.md` describes the rows.

mod compared;
mod native;
mod report;
mod stage;
mod work;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use airlock_tests::{
    Setup,
    bench::{self, report::Report},
};

use self::{
    compared::ScriptComparison,
    stage::Stage,
    work::{Kind, ROWS, Row},
};

const LANGUAGES: [&str; 2] = ["starlark", "python"];

pub(super) fn main() -> ExitCode {
    let rounds = if bench::is_full() { 400 } else { 2 };
    let only = bench::option("--only").unwrap_or_default();
    bench::runtime().block_on(measure(rounds, &only)).finish()
}

/// Times of one row in one language, by round.
#[derive(Default)]
struct Column {
    script: Vec<Duration>,
    /// The script of the row with one call, in the same rounds.
    one_call: Vec<Duration>,
    /// The tool of the row called without a script, in the same rounds.
    tool: Vec<Duration>,
    fuel: u64,
}

async fn measure(rounds: usize, only: &str) -> Report {
    let mut report = Report::new(format!("medians of {rounds} rounds"));
    let rows: Vec<_> = ROWS.iter().filter(|row| row.name.contains(only)).collect();
    let mut columns: Vec<[Column; 2]> = rows.iter().map(|_| Default::default()).collect();
    let measured = rows.clone();
    let directory = Setup::new();
    let native: Vec<_> = rows
        .iter()
        .map(|row| {
            let times = (rounds / row.every).max(1);
            row.has_native().then(|| native::script(&directory, row.source, times)).flatten()
        })
        .collect();
    let mut stages = Vec::new();
    let mut kept = Vec::new();
    for language in LANGUAGES {
        let (stage, gateways) = Stage::start(language).await;
        stages.push(stage);
        kept.extend(gateways);
    }
    // On a worker, as requests are.
    let measured = tokio::spawn(async move {
        for round in 0..rounds {
            for (row, columns) in measured.iter().zip(&mut columns) {
                if round % row.every == 0 {
                    for (stage, column) in stages.iter().zip(columns) {
                        step(stage, row, column).await;
                    }
                }
            }
        }
        columns
    });
    let columns = measured.await.expect("no panic in it");
    for gateway in kept {
        gateway.stop().await;
    }
    report::fill(&mut report, &rows, &columns, &native);
    for comparison in [ScriptComparison::ArgumentRules, ScriptComparison::Manifests] {
        if let Some(table) = comparison.measure(rounds, only).await {
            report.table(table);
        }
    }
    report
}

/// Measures one row once, after a script that leaves the code and the memory of its executor warm.
async fn step(stage: &Stage, row: &Row, column: &mut Column) {
    stage.run(row, "pass").await;
    let (took, fuel) = match row.kind {
        Kind::Approved => (stage.suspended_and_resumed(row).await, 0),
        _ => stage.run(row, row.source).await,
    };
    column.script.push(took);
    column.fuel = fuel;
    if let Some(tool) = row.compared_with_tool() {
        column.one_call.push(stage.run(row, &row.with_one_call()).await.0);
        stage.tool(tool).await;
        column.tool.push(stage.tool(tool).await);
    }
}

/// Returns the time of a future, and its output.
async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let began = Instant::now();
    let output = work.await;
    (began.elapsed(), output)
}
