//! The measurements as a table, or as one JSON document.

use std::{fs, thread::available_parallelism, time::Duration};

use airlock_tests::latency::median;
use serde_json::{Value, json};

use crate::{
    Column, LANGUAGES,
    work::{Kind, Row},
};

/// All measurements.
pub(crate) struct Report {
    rounds: usize,
    load: String,
    rows: Vec<&'static Row>,
    columns: Vec<[Column; 2]>,
    /// Times of the scripts of the rows without a sandbox, in Starlark.
    native: Vec<Option<Duration>>,
}

impl Report {
    pub(crate) fn new(
        rounds: usize,
        rows: Vec<&'static Row>,
        columns: Vec<[Column; 2]>,
        native: Vec<Option<Duration>>,
    ) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
        Self { rounds, load, rows, columns, native }
    }

    fn rows(&self) -> impl Iterator<Item = (&Row, &[Column; 2], Option<f64>)> {
        let measured = self.columns.iter().zip(&self.native);
        self.rows
            .iter()
            .copied()
            .zip(measured)
            .map(|(row, (columns, native))| (row, columns, native.map(us)))
    }

    pub(crate) fn print(&self) {
        let cores = available_parallelism().map_or(0, usize::from);
        println!("{cores} cores, load {}, medians of {} rounds\n", self.load, self.rounds);
        println!(
            "{:38} {:>10} {:>9} {:>6} {:>11} {:>10} {:>11}",
            "", LANGUAGES[0], "native", "ratio", "fuel", LANGUAGES[1], "fuel"
        );
        for (row, columns, native) in self.rows() {
            let [starlark, python] = columns.each_ref().map(|column| value(row, column));
            let ratio =
                native.map_or_else(String::new, |native| format!("{:.1}", starlark / native));
            let native = native.map(shown).unwrap_or_default();
            println!(
                "{:38} {:>10} {native:>9} {ratio:>6} {:>11} {:>10} {:>11}{}",
                row.name,
                shown(starlark),
                columns[0].fuel,
                shown(python),
                columns[1].fuel,
                row.aim.map(|aim| format!("  (aim: {aim:.0} µs)")).unwrap_or_default(),
            );
        }
        let tool = |name| {
            let mut rows = self.rows.iter().zip(&self.columns);
            let (_, columns) = rows.find(|(row, _)| row.compared_with_tool() == Some(name))?;
            Some(shown(median(columns[0].tool.iter().copied().map(us))))
        };
        for (what, name) in [("a tool", "bench-read"), ("a plugin", "noop-ok")] {
            if let Some(time) = tool(name) {
                println!("{what} called without a script takes {time}");
            }
        }
        for (language, at) in LANGUAGES.iter().zip(0..) {
            if let Some(added) = self.added(at) {
                println!(
                    "500 tools instead of 10 add {} to {language}  (aim: 50 µs)",
                    shown(added)
                );
            }
        }
    }

    /// Returns the time that 500 tools add to a script of a language, in microseconds; `None` if it was
    /// not measured.
    fn added(&self, language: usize) -> Option<f64> {
        let of = |tools| {
            let row = self.rows.iter().position(|row| row.is_bound_to(tools))?;
            Some(self.columns[row][language].script.iter().copied().map(us))
        };
        Some(median(of(500)?.zip(of(10)?).map(|(many, few)| many - few)))
    }

    pub(crate) fn to_json(&self) -> Value {
        let rows = self.rows().map(|(row, columns, native)| {
            let [starlark, python] = columns.each_ref().map(|column| {
                let least = column.script.iter().min().copied().map(us);
                json!({"value_us": value(row, column), "least_script_us": least, "fuel": column.fuel})
            });
            json!({
                "name": row.name, "starlark": starlark, "python": python, "native_starlark_us": native,
                "aim_us": row.aim,
            })
        });
        json!({
            "cores": available_parallelism().map_or(0, usize::from),
            "load": self.load,
            "rounds": self.rounds,
            "rows": rows.collect::<Vec<_>>(),
            "added_by_500_tools_us": {"starlark": self.added(0), "python": self.added(1)},
        })
    }
}

/// Returns the value that a row shows, in microseconds: a median of the rounds.
fn value(row: &Row, column: &Column) -> f64 {
    let script = column.script.iter().copied().map(us);
    match row.kind {
        Kind::Whole | Kind::Approved => median(script),
        Kind::Calls(calls, _) => {
            let [first, tool] =
                [&column.one_call, &column.tool].map(|times| times.iter().copied().map(us));
            let further =
                script.zip(first).map(|(all, first)| (all - first) / f64::from(calls - 1));
            median(further.zip(tool).map(|(further, tool)| further - tool))
        }
    }
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn shown(us: f64) -> String {
    if us.abs() < 1_000.0 { format!("{us:.1}µs") } else { format!("{:.1}ms", us / 1_000.0) }
}
