//! The tables of the report.

use airlock_tests::bench::{
    latency::{Latencies, median},
    report::{Aim, Cell, Report, Row, Table},
};

use super::{
    Effort, Measured, Rate, Ways,
    load::{Run, Saturated},
};

/// Aims of the project. Times are what the gateway adds, in microseconds.
const ALONE_P50: Aim = Aim::AtMost(80.0);
const ALONE_P99: Aim = Aim::AtMost(200.0);
const ADDED_P50: Aim = Aim::AtMost(150.0);
const ADDED_P99: Aim = Aim::AtMost(400.0);
const CHUNK: Aim = Aim::AtMost(60.0);
const PER_CORE: Aim = Aim::AtLeast(25_000.0);
/// CPU time as a multiple of that of the bare proxy.
const OF_BARE: Aim = Aim::AtMost(1.6);
const STREAM_KIB: Aim = Aim::AtMost(40.0);

/// Adds all tables, and the check that each request got a complete response.
pub(crate) fn fill(report: &mut Report, measured: &Measured, effort: Effort) {
    report.table(rates(measured, effort.per_second));
    report.table(latencies(measured));
    report.table(numbers(measured, effort));
    let failed = measured.failed();
    report.check(format!("every request got a complete response ({failed} failed)"), failed == 0);
}

impl Measured {
    /// Returns the number of requests without a complete response.
    fn failed(&self) -> u32 {
        let runs = [&self.plain, &self.streamed, &self.paced].into_iter().flatten();
        let runs = runs.map(|ways| ways.sum(|run| run.failed));
        let saturated = self.saturated.iter().chain(&self.streaming);
        let saturated = saturated.map(|ways| ways.sum(|saturated| saturated.failed));
        let crowds = self.crowds.iter().map(|ways| ways.sum(|crowd| crowd.failed));
        runs.chain(saturated).chain(crowds).sum()
    }
}

impl<T> Ways<T> {
    fn sum(&self, count: impl Fn(&T) -> u32) -> u32 {
        [&self.direct, &self.bare, &self.through].into_iter().map(count).sum()
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
        "bare p50",
        "bare p99",
        "through p50",
        "through p99",
        "added p50",
        "added p99",
    ];
    let mut table = Table::new("", &columns);
    let added = [Some(ADDED_P50), Some(ADDED_P99)];
    let alone = [Some(ALONE_P50), Some(ALONE_P99)];
    add(&mut table, "plain, one in flight", &measured.alone, |times| times, alone);
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
    let bare = [50, 99]
        .map(|percent| median(rounds.iter().map(|ways| latencies(&ways.bare).micros(percent))));
    let added = both(&|direct, through, percent| through.micros(percent) - direct.micros(percent));
    let times = [direct, bare, through].into_iter().flatten().map(Cell::Time);
    let row = table.row(name, times.chain(added.map(Cell::Added)));
    for (column, aim) in ["added p50", "added p99"].into_iter().zip(aims) {
        if let Some(aim) = aim {
            row.aim(column, aim);
        }
    }
}

/// Returns the CPU time of a request and of a chunk, the rates in a closed loop, and the memory of one
/// of `crowd` streams.
fn numbers(measured: &Measured, effort: Effort) -> Table {
    let columns = ["model server", "bare proxy", "gateway", "of the proxy's"];
    let mut table = Table::new("", &columns);
    let row = add_cpu(&mut table, "CPU time of a plain request", &measured.saturated, 1);
    row.aim("of the proxy's", OF_BARE);
    // Texts, the role and the end.
    let chunks = effort.crowd_chunks + 2;
    let row = add_cpu(&mut table, "CPU time of a chunk", &measured.streaming, chunks);
    row.aim("of the proxy's", OF_BARE);
    let rates = each(&measured.saturated, |saturated| saturated.per_core);
    let ratio = Cell::Ratio(rates[2] / rates[1]);
    let cells = rates.map(Cell::Number).into_iter().chain([ratio]);
    table.row("requests a second of CPU time", cells).aim("gateway", PER_CORE);
    let rates = each(&measured.saturated, |saturated| saturated.per_second);
    let ratio = Cell::Ratio(rates[2] / rates[1]);
    let cells = rates.map(Cell::Number).into_iter().chain([ratio]);
    table.row("requests a second, closed loop", cells);
    let memory = each(&measured.crowds, |crowd| crowd.stream_kib(effort.crowd));
    let ratio = Cell::Ratio(memory[2] / memory[1]);
    let cells = memory.map(Cell::Kib).into_iter().chain([ratio]);
    table.row("memory of a stream", cells).aim("gateway", STREAM_KIB);
    table
}

/// Adds the CPU time of each of the `parts` of a response.
fn add_cpu<'t>(
    table: &'t mut Table,
    name: &str,
    rounds: &[Ways<Saturated>],
    parts: u32,
) -> &'t mut Row {
    let times = each(rounds, |saturated| 1e6 / saturated.per_core / f64::from(parts));
    let ratio = Cell::Ratio(times[2] / times[1]);
    table.row(name, times.map(Cell::Time).into_iter().chain([ratio]))
}

/// Returns the medians of a number: direct, through the bare proxy, and through the gateway.
fn each<T>(rounds: &[Ways<T>], number: impl Fn(&T) -> f64) -> [f64; 3] {
    let ways: [fn(&Ways<T>) -> &T; 3] =
        [|ways| &ways.direct, |ways| &ways.bare, |ways| &ways.through];
    ways.map(|way| median(rounds.iter().map(|ways| number(way(ways)))))
}
