//! The measurements as a table, or as one JSON document.

use std::{fs, thread::available_parallelism};

use airlock_tests::latency::median;
use serde_json::{Value, json};

use crate::{
    Effort,
    run::Run,
    ways::{Route, Transport, Way},
};

/// Aim of the project for the time that the gateway adds to a call, in microseconds.
const ADDED_P50: f64 = 200.0;

/// All measurements, by round.
pub(crate) struct Report {
    effort: Effort,
    load: String,
    ways: Vec<Way>,
}

/// One way: medians over the rounds. Times are in microseconds.
struct Row<'a> {
    way: &'a Way,
    alone: Numbers,
    at_once: Numbers,
    /// Compared with the direct way of the same transport; `None` for that way itself.
    compared: Option<Compared>,
}

/// Medians over runs.
struct Numbers {
    p50: f64,
    p99: f64,
    per_second: f64,
}

/// One way compared with the direct one.
struct Compared {
    /// Medians of the differences of each round, at p50 and p99, with one call in flight.
    added: [f64; 2],
    /// Ratios of p50 with one call in flight, and of the calls a second with many.
    p50: f64,
    throughput: f64,
}

impl Report {
    pub(crate) fn new(effort: Effort, ways: Vec<Way>) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
        Self { effort, load, ways }
    }

    /// Returns the number of calls that failed.
    pub(crate) fn failed(&self) -> u32 {
        self.ways.iter().flat_map(runs).map(|run| run.failed).sum()
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.ways.iter().map(|way| {
            let direct =
                |other: &&Way| other.transport == way.transport && other.route == Route::Direct;
            let direct = self.ways.iter().find(direct).expect("each transport has a direct way");
            Row::new(way, direct)
        })
    }

    pub(crate) fn print(&self) {
        let cores = available_parallelism().map_or(0, usize::from);
        let Effort { rounds, over, in_flight } = self.effort;
        println!(
            "{cores} cores, load {}, medians of {rounds} rounds of {} ms\n",
            self.load,
            over.as_millis()
        );
        println!(
            "{:24} {:>8} {:>8} {:>10} {:>8} {:>6} | {in_flight} in flight\n{0:24} {0:>8} {0:>8} {0:>10} {0:>8} {0:>6} | {:>7} {:>6} {:>8} {:>8}",
            "", "p50", "p99", "added p50", "p99", "ratio", "/s", "ratio", "p50", "p99"
        );
        let mut transport = None;
        for row in self.rows() {
            if transport != Some(row.way.transport) {
                transport = Some(row.way.transport);
                println!("an MCP server over {}", name(row.way.transport));
            }
            row.print();
        }
        if self.failed() > 0 {
            println!("\n{} CALLS FAILED", self.failed());
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "cores": available_parallelism().map_or(0, usize::from),
            "load": self.load,
            "rounds": self.effort.rounds,
            "in_flight": self.effort.in_flight,
            "ways": self.rows().map(|row| row.to_json()).collect::<Vec<_>>(),
            "failed": self.failed(),
        })
    }
}

impl<'a> Row<'a> {
    fn new(way: &'a Way, direct: &Way) -> Self {
        let (alone, at_once) = (Numbers::of(&way.alone), Numbers::of(&way.at_once));
        let difference = |percent| {
            let rounds = way.alone.iter().zip(&direct.alone);
            median(rounds.map(|(own, direct)| at(own, percent) - at(direct, percent)))
        };
        let compared = (way.route != Route::Direct).then(|| Compared {
            added: [difference(50), difference(99)],
            p50: alone.p50 / Numbers::of(&direct.alone).p50,
            throughput: at_once.per_second / Numbers::of(&direct.at_once).per_second,
        });
        Self { way, alone, at_once, compared }
    }

    fn print(&self) {
        let Numbers { p50, p99, .. } = self.alone;
        let added = self.compared.as_ref().map_or_else(
            || format!("{:27}", ""),
            |Compared { added: [p50, p99], p50: ratio, .. }| {
                format!("{p50:>+8.0}µs {p99:>+6.0}µs {ratio:>6.2}")
            },
        );
        let throughput = self
            .compared
            .as_ref()
            .map_or_else(String::new, |compared| format!("{:.2}", compared.throughput));
        let aim = self.compared.as_ref().map_or_else(String::new, Compared::aim);
        let Numbers { p50: many_p50, p99: many_p99, per_second } = self.at_once;
        println!(
            "  {:22} {p50:>6.0}µs {p99:>6.0}µs {added:26} | {per_second:>7.0} {throughput:>6} {many_p50:>6.0}µs {many_p99:>6.0}µs{aim}",
            self.way.route.name()
        );
        let failed: u32 = runs(self.way).map(|run| run.failed).sum();
        if let Some(first) = runs(self.way).find_map(|run| run.first_failure.as_ref()) {
            println!("    {failed} FAILED, the first one with {first}");
        }
    }

    fn to_json(&self) -> Value {
        let compared = self.compared.as_ref().map(|it| {
            json!({
                "added_p50_us": it.added[0], "added_p99_us": it.added[1], "ratio_p50": it.p50,
                "ratio_throughput": it.throughput, "aim_us": ADDED_P50, "aim_met": it.meets_aim(),
            })
        });
        json!({
            "transport": name(self.way.transport), "route": self.way.route.name(),
            "one_in_flight": self.alone.to_json(), "many_in_flight": self.at_once.to_json(),
            "compared": compared, "failed": runs(self.way).map(|run| run.failed).sum::<u32>(),
        })
    }
}

impl Compared {
    fn meets_aim(&self) -> bool {
        self.added[0] <= ADDED_P50
    }

    fn aim(&self) -> String {
        let met = if self.meets_aim() { "met" } else { "MISSED" };
        format!("  (aim: added p50 at most {ADDED_P50:.0}µs {met})")
    }
}

impl Numbers {
    fn of(runs: &[Run]) -> Self {
        let of = |value: &dyn Fn(&Run) -> f64| median(runs.iter().map(value));
        Self {
            p50: of(&|run| at(run, 50)),
            p99: of(&|run| at(run, 99)),
            per_second: of(&|run| run.per_second),
        }
    }

    fn to_json(&self) -> Value {
        let Self { p50, p99, per_second } = self;
        json!({"p50_us": p50, "p99_us": p99, "per_second": per_second})
    }
}

fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Stdio => "stdio",
        Transport::Http => "streamable HTTP",
    }
}

fn runs(way: &Way) -> impl Iterator<Item = &Run> {
    way.alone.iter().chain(&way.at_once)
}

fn at(run: &Run, percent: usize) -> f64 {
    run.latencies.percentile(percent).as_secs_f64() * 1e6
}
