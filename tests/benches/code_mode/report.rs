//! The tables of the report.

use std::time::Duration;

use airlock_tests::bench::{
    latency::{median, median_added, median_micros},
    micros,
    report::{Aim, Cell, Report, Table},
};

use super::{
    Column, LANGUAGES,
    work::{Kind, Row},
};

/// Aim of the project for what 500 tools add to a script, in microseconds.
const ADDED: Aim = Aim::AtMost(50.0);

/// Adds all tables. `native` are times of the scripts without a sandbox, in Starlark.
pub(crate) fn fill(
    report: &mut Report,
    rows: &[&'static Row],
    columns: &[[Column; 2]],
    native: &[Option<Duration>],
) {
    report.table(scripts(rows, columns, native));
    let tools = [("a tool", "bench-read"), ("a plugin", "noop-ok")];
    let mut table = Table::new("called without a script", &["p50"]);
    for (name, tool) in tools {
        let row = rows.iter().position(|row| row.compared_with_tool() == Some(tool));
        if let Some(row) = row {
            table.row(name, [Cell::Time(median_micros(&columns[row][0].tool))]);
        }
    }
    report.table(table);
    let mut table = Table::new("500 tools instead of 10", &["added p50"]);
    for (at, language) in LANGUAGES.into_iter().enumerate() {
        if let Some(added) = added(rows, columns, at) {
            table.row(language, [Cell::Added(added)]).aim("added p50", ADDED);
        }
    }
    report.table(table);
}

fn scripts(rows: &[&'static Row], columns: &[[Column; 2]], native: &[Option<Duration>]) -> Table {
    let [starlark, python] = LANGUAGES;
    let titles = [starlark, "native", "ratio", "starlark fuel", python, "python fuel"];
    let mut table = Table::new("", &titles);
    for ((row, [starlark, python]), native) in rows.iter().zip(columns).zip(native) {
        let value_in_starlark = value(row, starlark);
        let native = native.map(micros);
        let shown = table.row(
            row.name,
            [
                Cell::Time(value_in_starlark),
                native.map_or(Cell::Empty, Cell::Time),
                native.map_or(Cell::Empty, |native| Cell::Ratio(value_in_starlark / native)),
                Cell::Count(starlark.fuel),
                Cell::Time(value(row, python)),
                Cell::Count(python.fuel),
            ],
        );
        if let Some(aim) = row.aim {
            shown.aim(LANGUAGES[0], Aim::AtMost(aim)).aim(LANGUAGES[1], Aim::AtMost(aim));
        }
    }
    table
}

/// Returns the time that 500 tools add to a script of a language, in microseconds; `None` if it was
/// not measured.
fn added(rows: &[&'static Row], columns: &[[Column; 2]], language: usize) -> Option<f64> {
    let scripts = |tools| {
        let row = rows.iter().position(|row| row.is_bound_to(tools))?;
        Some(&columns[row][language].script)
    };
    Some(median_added(scripts(500)?, scripts(10)?))
}

/// Returns the value that a row shows, in microseconds: a median of the rounds.
fn value(row: &Row, column: &Column) -> f64 {
    match row.kind {
        Kind::Whole | Kind::Approved => median_micros(&column.script),
        Kind::Calls(calls, _) => {
            let rounds = column.script.iter().zip(&column.one_call).zip(&column.tool);
            median(rounds.map(|((all, first), tool)| {
                (micros(*all) - micros(*first)) / f64::from(calls - 1) - micros(*tool)
            }))
        }
    }
}
