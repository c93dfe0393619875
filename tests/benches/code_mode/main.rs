//! Cost of a script: the sandbox, its calls, its tools, its journal, and the stop for an approval. Each
//! row is measured once a round in both languages, so that other load of the machine affects all alike.
//!
//! `make bench` runs it; `--json` prints one document instead of a table, `--only TEXT` measures the rows
//! with this text in their names. Without the program for native scripts (`NATIVE_SCRIPT`) that column
//! stays empty. `code_mode.md` describes the rows.

mod native;
mod report;
mod stage;
mod work;

use std::{
    env,
    time::{Duration, Instant},
};

use airlock_tests::Setup;

use self::{
    report::Report,
    stage::Stage,
    work::{Kind, ROWS, Row},
};

const LANGUAGES: [&str; 2] = ["starlark", "python"];

fn main() {
    // `cargo test` runs benchmarks too, to check that they work; it passes no `--bench`.
    let is_bench = env::args().any(|argument| argument == "--bench");
    let as_json = env::args().any(|argument| argument == "--json");
    let rounds = if is_bench { 400 } else { 2 };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut arguments = env::args();
    let only = arguments.find(|argument| argument == "--only").and_then(|_| arguments.next());
    let report = runtime.block_on(measure(rounds, &only.unwrap_or_default()));
    if as_json {
        println!("{:#}", report.to_json());
    } else {
        report.print();
    }
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
    let rows: Vec<_> = ROWS.iter().filter(|row| row.name.contains(only)).collect();
    let mut columns: Vec<[Column; 2]> = rows.iter().map(|_| Default::default()).collect();
    let measured = rows.clone();
    let directory = Setup::new();
    let native = rows.iter().map(|row| {
        let script = || native::script(&directory, row.source, (rounds / row.every).max(1));
        row.has_native().then(script).flatten()
    });
    let native = native.collect();
    let (mut stages, mut kept) = (Vec::new(), Vec::new());
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
    Report::new(rounds, rows, columns, native)
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
