//! The tables of the report.

use airlock_tests::bench::{
    latency::{Latencies, median},
    report::{Aim, Cell, Report, Table},
};

use crate::{
    Effort, Measured, Rate, Ways,
    load::{Run, Saturated},
};

/// Aims of the project. Times are what the gateway adds, in microseconds.
const ADDED_P50: Aim = Aim::AtMost(200.0);
const ADDED_P99: Aim = Aim::AtMost(400.0);
const CHUNK: Aim = Aim::AtMost(100.0);
const PER_CORE: Aim = Aim::AtLeast(15_000.0);
const STREAM_KIB: Aim = Aim::AtMost(64.0);

/// Adds all tables, and the check that each request got a complete response.
pub(crate) fn fill(report: &mut Report, measured: &Measured, effort: Effort) {
    report.table(rates(measured, effort.per_second));
    report.table(latencies(measured));
    report.table(numbers(measured, effort.crowd));
    let failed = measured.failed();
    report.check(format!("every request got a complete response ({failed} failed)"), failed == 0);
}

impl Measured {
    /// Returns the number of requests without a complete response.
    fn failed(&self) -> u32 {
        let runs = [&self.plain, &self.streamed, &self.paced].into_iter().flatten();
        let runs = runs.map(|ways| ways.direct.failed + ways.through.failed);
        let saturated = self.saturated.iter().map(|ways| ways.direct.failed + ways.through.failed);
        let crowds = self.crowds.iter().map(|ways| ways.direct.failed + ways.through.failed);
        runs.chain(saturated).chain(crowds).sum()
    }
}

/// Returns the rates of `plain` and `streamed`, and the responses at them.
fn rates(measured: &Measured, aim: u32) -> Table {
    let columns = ["sent", "direct", "of a core", "through"];
    let mut table = Table::new("requests a second", &columns);
    add_rate(&mut table, "plain", measured.plain_rate, &measured.plain, aim);
    add_rate(&mut table, "streamed", measured.streamed_rate, &measured.streamed, aim);
    table
}

fn add_rate(table: &mut Table, name: &str, rate: Rate, rounds: &[Ways<Run>], aim: u32) {
    let cells = [
        Cell::Count(rate.sent.into()),
        Cell::Number(median(rounds.iter().map(|ways| ways.direct.achieved))),
        Cell::Ratio(median(rounds.iter().map(|ways| ways.direct.own_cores))),
        Cell::Number(median(rounds.iter().map(|ways| ways.through.achieved))),
    ];
    let row = table.row(name, cells);
    if rate.direct < aim {
        row.remark(format!("NOT {aim}: client and model server would need more than half a core"));
    }
    if rate.sent < rate.direct {
        let direct = rate.direct;
        row.remark(format!(
            "NOT {direct}: this machine does not carry as many with the gateway now"
        ));
    }
    if !rounds.iter().all(|ways| ways.through.keeps_up(rate.sent)) {
        row.remark("NOT ACHIEVED IN EVERY ROUND: some latencies are those of an overload");
    }
}

/// Returns each kind of latency, both ways.
fn latencies(measured: &Measured) -> Table {
    let columns = [
        "direct p50",
        "direct p99",
        "through p50",
        "through p99",
        "added p50",
        "added p99",
        "ratio",
    ];
    let mut table = Table::new("", &columns);
    let added = [Some(ADDED_P50), Some(ADDED_P99)];
    add(&mut table, "plain", &measured.plain, |run| &run.whole, added);
    add(&mut table, "streamed, to the first chunk", &measured.streamed, |run| &run.first, added);
    add(&mut table, "streamed, to the end", &measured.streamed, |run| &run.whole, [None; 2]);
    add(&mut table, "a chunk", &measured.paced, |run| &run.chunks, [Some(CHUNK), None]);
    add(&mut table, "a chunk in a crowd", &measured.crowds, |crowd| &crowd.chunks, [None; 2]);
    table
}

/// Adds one kind of latency: medians over the rounds.
fn add<T>(
    table: &mut Table,
    name: &str,
    rounds: &[Ways<T>],
    latencies: impl Fn(&T) -> &Latencies,
    aims: [Option<Aim>; 2],
) {
    let both = |value: &dyn Fn(&Latencies, &Latencies, usize) -> f64| {
        [50, 99].map(|percent| {
            median(
                rounds
                    .iter()
                    .map(|ways| value(latencies(&ways.direct), latencies(&ways.through), percent)),
            )
        })
    };
    let direct = both(&|direct, _, percent| direct.micros(percent));
    let through = both(&|_, through, percent| through.micros(percent));
    let added = both(&|direct, through, percent| through.micros(percent) - direct.micros(percent));
    let times = [direct, through].into_iter().flatten().map(Cell::Time);
    let ratio = Cell::Ratio(through[0] / direct[0]);
    let row = table.row(name, times.chain(added.map(Cell::Added)).chain([ratio]));
    for (column, aim) in ["added p50", "added p99"].into_iter().zip(aims) {
        if let Some(aim) = aim {
            row.aim(column, aim);
        }
    }
}

/// Returns what one connection after the other carries, and the memory of one of `crowd` streams.
fn numbers(measured: &Measured, crowd: u32) -> Table {
    let saturated =
        |value: fn(&Ways<Saturated>) -> f64| median(measured.saturated.iter().map(value));
    let mut table = Table::new("", &["value"]);
    table
        .row(
            "requests a second of the gateway's CPU time",
            [Cell::Number(saturated(|ways| ways.through.per_core))],
        )
        .aim("value", PER_CORE);
    table.row(
        "requests a second of the model server's CPU time",
        [Cell::Number(saturated(|ways| ways.direct.per_core))],
    );
    table.row(
        "requests a second, closed loop, through the gateway",
        [Cell::Number(saturated(|ways| ways.through.per_second))],
    );
    table.row(
        "requests a second, closed loop, direct",
        [Cell::Number(saturated(|ways| ways.direct.per_second))],
    );
    let stream = median(measured.crowds.iter().map(|ways| ways.through.stream_kib(crowd)));
    table.row("memory of a stream in the gateway", [Cell::Kib(stream)]).aim("value", STREAM_KIB);
    table
}
