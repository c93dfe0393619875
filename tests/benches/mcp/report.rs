//! The measurements as tables, or as one JSON document.

use std::{fs, thread::available_parallelism, time::Duration};

use airlock_tests::latency::median;
use serde_json::{Value, json};

use crate::{
    Effort,
    run::Run,
    sessions::Memory,
    ways::{Route, Way},
};

/// Aims of the project. Times are in microseconds: what the gateway adds to a call, and that of a
/// list.
const ADDED_P50: f64 = 150.0;
const LIST_P50: f64 = 1_000.0;
const SESSION_KIB: f64 = 32.0;

/// All measurements, by round.
pub(crate) struct Report {
    effort: Effort,
    load: String,
    pub(crate) calls: Vec<Way>,
    pub(crate) lists: Vec<Way>,
    pub(crate) sessions: Vec<Memory>,
}

/// One way: medians over the rounds. Times are in microseconds.
struct Row {
    what: &'static str,
    route: Route,
    era: &'static str,
    alone: Numbers,
    at_once: Numbers,
    /// Medians of the differences of each round to the same request without the gateway.
    added: Option<[f64; 2]>,
    ratio: f64,
    bytes: usize,
    /// Requests without a successful response, in all rounds.
    failed: u32,
    first_failure: Option<String>,
    aim: Option<Aim>,
}

/// Medians over runs.
struct Numbers {
    p50: f64,
    p99: f64,
    per_second: f64,
    cpu: f64,
}

/// Value that has to be at most `most`.
#[derive(Clone, Copy)]
struct Aim {
    value: f64,
    most: f64,
}

/// Memory of one session.
struct Line {
    what: &'static str,
    aim: Aim,
    has_aim: bool,
}

impl Report {
    pub(crate) fn new(effort: Effort) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            effort,
            load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            calls: Vec::new(),
            lists: Vec::new(),
            sessions: Vec::new(),
        }
    }

    /// Returns the number of requests without a successful response.
    pub(crate) fn failed(&self) -> u32 {
        self.calls.iter().chain(&self.lists).flat_map(runs).map(|run| run.failed).sum()
    }

    fn calls(&self) -> Vec<Row> {
        let row = |way| {
            let row = Row::new(way, &self.calls);
            let aim = row.added.map(|[p50, _]| Aim { value: p50, most: ADDED_P50 });
            Row { aim, ..row }
        };
        self.calls.iter().map(row).collect()
    }

    fn lists(&self) -> Vec<Row> {
        let row = |way| {
            let row = Row::new(way, &self.lists);
            let aim = row.added.map(|_| Aim { value: row.alone.p50, most: LIST_P50 });
            Row { aim, ..row }
        };
        self.lists.iter().map(row).collect()
    }

    fn memory(&self) -> [Line; 4] {
        let count = self.effort.sessions;
        let value = |of: &dyn Fn(&Memory) -> f64| median(self.sessions.iter().map(of));
        let line =
            |what, value, has_aim| Line { what, aim: Aim { value, most: SESSION_KIB }, has_aim };
        [
            line("an idle session, opened first", value(&|it| it.of_each(count)[0]), true),
            line("kept after all were closed, by session", value(&|it| it.kept(count)), false),
            line("an idle session, opened again", value(&|it| it.of_each(count)[1]), true),
            line(
                "the same, with its stream and connection",
                value(&|it| it.of_each(count)[2]),
                true,
            ),
        ]
    }

    pub(crate) fn print(&self) {
        let cores = available_parallelism().map_or(0, usize::from);
        let Effort { rounds, over, at_once_over, in_flight, tools, sessions, .. } = self.effort;
        println!(
            "{cores} cores, load {}, medians of {rounds} rounds; {} ms each with 1 in flight, {} ms with {in_flight}",
            self.load,
            over.as_millis(),
            at_once_over.as_millis()
        );
        println!(
            "\n{:42} {:^50} | {in_flight} in flight\n{:42} {:>8} {:>8} {:>10} {:>8} {:>7} {:>6} | {:>7} {:>8} {:>8} {:>8}",
            "",
            "1 in flight",
            "tools/call",
            "p50",
            "p99",
            "added p50",
            "p99",
            "ratio",
            "/s",
            "/s",
            "p50",
            "p99",
            "CPU each"
        );
        let mut what = "";
        for row in self.calls() {
            if row.what != what {
                what = row.what;
                println!("{what}");
            }
            row.print_call();
            row.print_failures();
        }
        println!(
            "\n{:42} {:>8} {:>8} {:>10} {:>8} {:>7} {:>8} {:>8}",
            format!("tools/list of {tools} tools"),
            "p50",
            "p99",
            "added p50",
            "p99",
            "ratio",
            "CPU each",
            "bytes"
        );
        for row in self.lists() {
            row.print_list();
            row.print_failures();
        }
        println!("\nmemory, {sessions} sessions");
        for line in self.memory() {
            let aim = if line.has_aim { line.aim.text(" KiB") } else { String::new() };
            println!("  {:40} {:>8.1} KiB{aim}", line.what, line.aim.value);
        }
        if self.failed() > 0 {
            println!("\n{} REQUESTS FAILED", self.failed());
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let cores = available_parallelism().map_or(0, usize::from);
        let rows = |rows: Vec<Row>| rows.iter().map(Row::to_json).collect::<Vec<_>>();
        json!({
            "cores": cores,
            "load": self.load,
            "rounds": self.effort.rounds,
            "in_flight": self.effort.in_flight,
            "tools": self.effort.tools,
            "sessions": self.effort.sessions,
            "calls": rows(self.calls()),
            "lists": rows(self.lists()),
            "memory": self.memory().map(|line| line.to_json()),
            "failed": self.failed(),
        })
    }
}

impl Row {
    fn new(way: &Way, ways: &[Way]) -> Self {
        let direct = &ways[way.direct];
        let difference = |percent| {
            let rounds = way.alone.iter().zip(&direct.alone);
            median(rounds.map(|(own, direct)| at(own, percent) - at(direct, percent)))
        };
        let is_through = way.route != Route::Direct;
        let alone = Numbers::of(&way.alone);
        Self {
            what: way.what,
            route: way.route,
            era: way.era.name(),
            ratio: alone.p50 / Numbers::of(&direct.alone).p50,
            alone,
            at_once: Numbers::of(&way.at_once),
            added: is_through.then(|| [difference(50), difference(99)]),
            bytes: way.bytes,
            failed: runs(way).map(|run| run.failed).sum(),
            first_failure: runs(way).find_map(|run| run.first_failure.clone()),
            aim: None,
        }
    }

    fn name(&self) -> String {
        format!("  {}, {}", self.route.name(), self.era)
    }

    /// Returns the times of requests one after the other.
    fn times(&self) -> String {
        let Numbers { p50, p99, .. } = self.alone;
        let added = match self.added {
            Some([p50, p99]) => {
                format!("{p50:>+8.0}µs {p99:>+6.0}µs {:>7.2}", self.ratio)
            }
            None => format!("{:27}", ""),
        };
        format!("{:42} {p50:>6.0}µs {p99:>6.0}µs {added}", self.name())
    }

    fn print_call(&self) {
        let Numbers { p50, p99, per_second, cpu } = self.at_once;
        println!(
            "{} {:>6.0} | {per_second:>7.0} {p50:>6.0}µs {p99:>6.0}µs {cpu:>6.0}µs{}",
            self.times(),
            self.alone.per_second,
            self.aim_text("added p50 ")
        );
    }

    fn print_list(&self) {
        let (cpu, bytes) = (self.alone.cpu, self.bytes);
        println!("{} {cpu:>6.0}µs {bytes:>8}{}", self.times(), self.aim_text("p50 "));
    }

    /// Prints failures below the row.
    fn print_failures(&self) {
        if let Some(first) = &self.first_failure {
            println!("    {} FAILED, the first one with {first}", self.failed);
        }
    }

    fn aim_text(&self, of: &str) -> String {
        self.aim
            .map(|aim| aim.text("µs").replace("aim: ", &format!("aim: {of}")))
            .unwrap_or_default()
    }

    fn to_json(&self) -> Value {
        let added = self.added.map(|[p50, p99]| json!({"p50_us": p50, "p99_us": p99}));
        json!({
            "what": self.what, "route": self.route.name(), "era": self.era, "bytes": self.bytes,
            "one_in_flight": self.alone.to_json(), "many_in_flight": self.at_once.to_json(),
            "added": added, "ratio": self.ratio, "failed": self.failed, "aim": self.aim.map(Aim::to_json),
        })
    }
}

impl Numbers {
    fn of(runs: &[Run]) -> Self {
        let of = |value: &dyn Fn(&Run) -> f64| median(runs.iter().map(value));
        Self {
            p50: of(&|run| at(run, 50)),
            p99: of(&|run| at(run, 99)),
            per_second: of(&|run| run.per_second),
            cpu: of(&|run| run.cpu_micros),
        }
    }

    fn to_json(&self) -> Value {
        let Self { p50, p99, per_second, cpu } = self;
        json!({"p50_us": p50, "p99_us": p99, "per_second": per_second, "cpu_us": cpu})
    }
}

impl Aim {
    fn is_met(self) -> bool {
        self.value <= self.most
    }

    fn text(self, unit: &str) -> String {
        let met = if self.is_met() { "met" } else { "MISSED" };
        format!("  (aim: at most {:.0}{unit} {met})", self.most)
    }

    fn to_json(self) -> Value {
        json!({"value": self.value, "at_most": self.most, "met": self.is_met()})
    }
}

impl Line {
    fn to_json(&self) -> Value {
        let aim = self.has_aim.then(|| self.aim.to_json());
        json!({"what": self.what, "kib": self.aim.value, "aim": aim})
    }
}

fn runs(way: &Way) -> impl Iterator<Item = &Run> {
    way.alone.iter().chain(&way.at_once)
}

fn at(run: &Run, percent: usize) -> f64 {
    micros(run.latencies.percentile(percent))
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
