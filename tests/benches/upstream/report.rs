//! The rows of the report.

use airlock_tests::bench::{
    report::{Aim, Cell, Report, Table},
    run::Summary,
};

use super::ways::{Route, Transport, Way};

/// Aim of the project for the time that the gateway adds to a call, in microseconds.
const ADDED_P50: Aim = Aim::AtMost(200.0);

const COLUMNS: [&str; 9] = [
    "p50",
    "p99",
    "added p50",
    "added p99",
    "ratio",
    "many: per second",
    "many: ratio",
    "many: p50",
    "many: p99",
];

/// Adds a table for each transport, and the check that no call failed.
pub(crate) fn fill(report: &mut Report, ways: &[Way]) {
    for transport in [Transport::Stdio, Transport::Http] {
        let mut table = Table::new(transport.name(), &COLUMNS);
        let ways: Vec<_> = ways.iter().filter(|way| way.transport == transport).collect();
        let direct = ways.iter().find(|way| way.route == Route::Direct);
        let direct = direct.expect("each transport has a direct way");
        for way in &ways {
            add(&mut table, way, direct);
        }
        report.table(table);
    }
    let failed: u32 = ways.iter().map(|way| way.rounds.failed()).sum();
    report.check(format!("every call succeeded ({failed} failed)"), failed == 0);
}

fn add(table: &mut Table, way: &Way, direct: &Way) {
    let direct = (way.route != Route::Direct).then_some(&direct.rounds);
    let Summary { p50, p99, per_second, .. } = Summary::new(&way.rounds.at_once);
    let throughput = direct.map_or(Cell::Empty, |direct| {
        Cell::Ratio(per_second / Summary::new(&direct.at_once).per_second)
    });
    let many = [Cell::Number(per_second), throughput, Cell::Time(p50), Cell::Time(p99)];
    let row = table.row(way.route.name(), way.rounds.cells(direct).into_iter().chain(many));
    if direct.is_some() {
        row.aim("added p50", ADDED_P50);
    }
    way.rounds.remark_failures(row);
}
