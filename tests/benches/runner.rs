//! Cost of a script in a program, without a gateway: a fresh sandbox, calls of functions of the program, and computing.
//! Each row is measured once a round in both languages, so that other load of the machine affects all alike.
//!
//! `make bench BENCH=runner` runs it; `--json` prints one document instead of a table. `runner.md` describes the rows.

use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use airlock::runner::{
    Function, Functions, RunRequest, RunState, Runner, RunnerSettings, ScriptLanguage,
};
use airlock_tests::bench::{
    self,
    latency::Latencies,
    micros,
    report::{Aim, Cell, Report, Table},
};
use serde_json::json;

/// A row.
struct Row {
    name: &'static str,
    /// The script, which both languages run.
    code: &'static str,
    /// Calls of the function that it makes.
    calls: u32,
    /// Measured in every such round.
    every: usize,
    /// Aim of the project for the median, in microseconds.
    aim: Option<f64>,
}

const ROWS: [Row; 4] = [
    Row { name: "empty script", code: "", calls: 0, every: 1, aim: Some(40.0) },
    Row { name: "script with one call", code: "add(1, 2)", calls: 1, every: 1, aim: None },
    Row {
        name: "script with 10 calls",
        code: "for n in range(10):\n    add(n, 1)",
        calls: 10,
        every: 1,
        aim: Some(140.0),
    },
    Row {
        name: "100,000 additions",
        code: "total = 0\nfor n in range(100000):\n    total = total + n\ntotal",
        calls: 0,
        every: 20,
        aim: Some(10_000.0),
    },
];

/// Aim of the project for each further call, in microseconds.
const CALL_AIM: f64 = 10.0;

pub(super) fn main() -> ExitCode {
    let rounds = if bench::is_full() { 2_000 } else { 2 };
    bench::runtime().block_on(measure(rounds)).finish()
}

async fn measure(rounds: usize) -> Report {
    let mut report = Report::new(format!("medians of {rounds} rounds"));
    let runner = Runner::new(RunnerSettings::default()).expect("a sandbox");
    let mut loads = Table::new("load an executor from the cache", &["time"]);
    for language in ScriptLanguage::ALL {
        // The first one compiles it.
        runner.load(language).await.expect("it is built in");
        let cached = Runner::new(RunnerSettings::default()).expect("a sandbox");
        let began = Instant::now();
        cached.load(language).await.expect("it is built in");
        loads.row(language.name(), [Cell::Time(micros(began.elapsed()))]);
    }
    // On a worker, as the tasks of a program are.
    let measured = tokio::spawn(rounds_of(runner, rounds)).await.expect("no panic in it");
    let mut table = Table::new("", &["starlark p50", "starlark p99", "python p50", "python p99"]);
    for (row, times) in ROWS.iter().zip(&measured) {
        let cells = times.iter().flat_map(|times| [50, 99].map(|at| Cell::Time(times.micros(at))));
        let filled = table.row(row.name, cells);
        if let Some(aim) = row.aim {
            filled.aim("starlark p50", Aim::AtMost(aim)).aim("python p50", Aim::AtMost(aim));
        }
    }
    let [_, one, ten, _] = &measured;
    let mut calls = Table::new("each further call of a function", &["p50"]);
    for (at, language) in ScriptLanguage::ALL.into_iter().enumerate() {
        let each = (ten[at].micros(50) - one[at].micros(50)) / 9.0;
        calls.row(language.name(), [Cell::Time(each)]).aim("p50", Aim::AtMost(CALL_AIM));
    }
    report.table(table);
    report.table(calls);
    report.table(loads);
    report
}

/// Measures each row in each language.
async fn rounds_of(runner: Runner, rounds: usize) -> [[Latencies; 2]; ROWS.len()] {
    let schema = json!({
        "properties": {"one": {"type": "integer"}, "other": {"type": "integer"}},
        "required": ["one", "other"],
    });
    let add = Function::new("add", "Adds.", schema, async |call| {
        let arguments = call.arguments();
        let sum = arguments["one"].as_i64().zip(arguments["other"].as_i64());
        Ok(json!(sum.map(|(one, other)| one + other)))
    });
    let functions = Functions::new([add]).expect("a function");
    let mut times: [[Vec<Duration>; 2]; ROWS.len()] = Default::default();
    for round in 0..rounds {
        for (row, times) in ROWS.iter().zip(&mut times) {
            if round % row.every > 0 {
                continue;
            }
            for (language, times) in ScriptLanguage::ALL.into_iter().zip(times) {
                // Leaves the code and the memory of the executor warm.
                run(&runner, language, "", 0, &functions).await;
                times.push(run(&runner, language, row.code, row.calls, &functions).await);
            }
        }
    }
    times.map(|languages| languages.map(Latencies::new))
}

/// Returns the time of a script.
async fn run(
    runner: &Runner,
    language: ScriptLanguage,
    code: &str,
    calls: u32,
    functions: &Functions,
) -> Duration {
    let request = RunRequest::new(language, code).with_functions(functions.clone());
    let began = Instant::now();
    let ended = runner.run(request).await;
    let took = began.elapsed();
    match black_box(ended) {
        Ok(RunState::Finished(run)) => assert_eq!(run.calls, calls, "{code}"),
        other => panic!("{code}: {other:?}"),
    }
    took
}
