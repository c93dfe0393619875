//! The tables of the report.

use airlock_tests::bench::{
    latency::median,
    report::{Aim, Cell, Report, Table},
    run::Summary,
};

use super::{
    sessions::Memory,
    ways::{Route, Way},
};

/// Aims of the project. Times are in microseconds: what the gateway adds to a call of a server and of a plugin,
/// its CPU time of a call, and the time of a list.
const SERVER_ADDED_P50: Aim = Aim::AtMost(100.0);
const SERVER_CPU: Aim = Aim::AtMost(45.0);
const PLUGIN_ADDED_P50: Aim = Aim::AtMost(60.0);
const PLUGIN_CPU: Aim = Aim::AtMost(40.0);
const LIST_P50: Aim = Aim::AtMost(1_000.0);
const SESSION_KIB: Aim = Aim::AtMost(32.0);

/// Adds a table for each kind of call.
pub(crate) fn calls(report: &mut Report, ways: &[Way]) {
    for kind in ways.chunk_by(|one, next| one.what == next.what) {
        let mut table = Table::new(
            kind[0].what,
            &[
                "p50",
                "p99",
                "added p50",
                "added p99",
                "ratio",
                "per second",
                "many: per second",
                "many: p50",
                "many: p99",
                "many: CPU each",
            ],
        );
        for way in kind {
            let direct = direct(way, ways);
            let alone = Summary::new(&way.rounds.alone);
            let many = Summary::new(&way.rounds.at_once);
            let further = [
                Cell::Number(alone.per_second),
                Cell::Number(many.per_second),
                Cell::Time(many.p50),
                Cell::Time(many.p99),
                Cell::Time(many.cpu),
            ];
            let cells = way.rounds.cells(direct.map(|direct| &direct.rounds));
            let row = table.row(way.name(), cells.into_iter().chain(further));
            if direct.is_some() {
                let (added, cpu) = if way.is_of_plugin() {
                    (PLUGIN_ADDED_P50, PLUGIN_CPU)
                } else {
                    (SERVER_ADDED_P50, SERVER_CPU)
                };
                row.aim("added p50", added).aim("many: CPU each", cpu);
            }
            way.rounds.remark_failures(row);
        }
        report.table(table);
    }
}

/// Adds the table of the lists.
pub(crate) fn lists(report: &mut Report, ways: &[Way], tools: usize) {
    let mut table = Table::new(
        format!("tools/list of {tools} tools"),
        &["p50", "p99", "added p50", "added p99", "ratio", "CPU each", "bytes"],
    );
    for way in ways {
        let direct = direct(way, ways);
        let cpu = Summary::new(&way.rounds.alone).cpu;
        let further = [Cell::Time(cpu), Cell::Count(way.bytes as u64)];
        let cells = way.rounds.cells(direct.map(|direct| &direct.rounds));
        let row = table.row(way.name(), cells.into_iter().chain(further));
        if direct.is_some() {
            row.aim("p50", LIST_P50);
        }
        way.rounds.remark_failures(row);
    }
    report.table(table);
}

/// Returns the same request without the gateway; `None` for that itself.
fn direct<'a>(way: &Way, ways: &'a [Way]) -> Option<&'a Way> {
    (way.route != Route::Direct).then(|| &ways[way.direct])
}

/// Adds the table of the memory of `count` sessions.
pub(crate) fn memory(report: &mut Report, rounds: &[Memory], count: u32) {
    let mut table = Table::new(format!("memory, {count} sessions"), &["each"]);
    let each = [0, 1, 2].map(|at| median(rounds.iter().map(|memory| memory.of_each(count)[at])));
    let kept = median(rounds.iter().map(|memory| memory.kept(count)));
    table.row("an idle session, opened first", [Cell::Kib(each[0])]).aim("each", SESSION_KIB);
    table.row("kept after all were closed, by session", [Cell::Kib(kept)]);
    table.row("an idle session, opened again", [Cell::Kib(each[1])]).aim("each", SESSION_KIB);
    table
        .row("the same, with its stream and connection", [Cell::Kib(each[2])])
        .aim("each", SESSION_KIB);
    report.table(table);
}
