//! The measurements as a table, or as one JSON document.

use std::{fs, thread::available_parallelism, time::Duration};

use airlock_tests::latency::{Latencies, median};
use serde_json::{Value, json};

use crate::{
    Effort, Ways,
    load::{Crowd, Run, Saturated},
};

/// Aims of the project. Times are what the gateway adds, in microseconds.
const ADDED_P50: f64 = 200.0;
const ADDED_P99: f64 = 400.0;
const CHUNK: f64 = 100.0;
const PER_CORE: f64 = 15_000.0;
const STREAM_KIB: f64 = 64.0;
/// Part of a rate that counts as the rate: a run ends with its last response, not with its last
/// request.
const ACHIEVED: f64 = 0.98;

/// All measurements, by round.
pub(crate) struct Report {
    effort: Effort,
    load: String,
    /// Requests a second of `plain`.
    pub(crate) plain_rate: u32,
    /// Requests a second of `streamed`.
    pub(crate) streamed_rate: u32,
    pub(crate) plain: Vec<Ways<Run>>,
    pub(crate) streamed: Vec<Ways<Run>>,
    pub(crate) paced: Vec<Ways<Run>>,
    pub(crate) saturated: Vec<Ways<Saturated>>,
    pub(crate) crowds: Vec<Ways<Crowd>>,
}

/// One kind of latency, both ways, in microseconds: medians over the rounds.
struct Row {
    what: &'static str,
    direct: [f64; 2],
    through: [f64; 2],
    /// Medians of the differences of each round.
    added: [f64; 2],
    aims: [Option<f64>; 2],
}

/// A number with an aim.
struct Number {
    what: &'static str,
    unit: &'static str,
    value: f64,
    aim: Option<Aim>,
}

#[derive(Clone, Copy)]
enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Report {
    pub(crate) fn new(effort: Effort) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            effort,
            load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            plain_rate: 0,
            streamed_rate: 0,
            plain: Vec::new(),
            streamed: Vec::new(),
            paced: Vec::new(),
            saturated: Vec::new(),
            crowds: Vec::new(),
        }
    }

    /// Returns the number of requests without a complete response.
    pub(crate) fn failed(&self) -> u32 {
        let runs = [&self.plain, &self.streamed, &self.paced].into_iter().flatten();
        let runs = runs.map(|ways| ways.direct.failed + ways.through.failed);
        let saturated = self.saturated.iter().map(|it| it.direct.failed + it.through.failed);
        let crowds = self.crowds.iter().map(|it| it.direct.failed + it.through.failed);
        runs.chain(saturated).chain(crowds).sum()
    }

    fn rows(&self) -> [Row; 5] {
        let added = [Some(ADDED_P50), Some(ADDED_P99)];
        [
            Row::new("plain", &self.plain, |run| &run.whole, added),
            Row::new("streamed, to the first chunk", &self.streamed, |run| &run.first, added),
            Row::new("streamed, to the end", &self.streamed, |run| &run.whole, [None; 2]),
            Row::new("a chunk", &self.paced, |run| &run.chunks, [Some(CHUNK), None]),
            Row::new("a chunk in a crowd", &self.crowds, |crowd| &crowd.chunks, [None; 2]),
        ]
    }

    fn numbers(&self) -> [Number; 5] {
        let saturated = |value: fn(&Ways<Saturated>) -> f64| self.saturated.iter().map(value);
        [
            Number {
                what: "requests a second of the gateway's CPU time",
                unit: "",
                value: median(saturated(|ways| ways.through.per_core)),
                aim: Some(Aim::AtLeast(PER_CORE)),
            },
            Number {
                what: "requests a second of the model server's CPU time",
                unit: "",
                value: median(saturated(|ways| ways.direct.per_core)),
                aim: None,
            },
            Number {
                what: "requests a second, closed loop, through the gateway",
                unit: "",
                value: median(saturated(|ways| ways.through.per_second)),
                aim: None,
            },
            Number {
                what: "requests a second, closed loop, direct",
                unit: "",
                value: median(saturated(|ways| ways.direct.per_second)),
                aim: None,
            },
            Number {
                what: "memory of a stream in the gateway",
                unit: " KiB",
                value: median(
                    self.crowds.iter().map(|ways| ways.through.stream_kib(self.effort.crowd)),
                ),
                aim: Some(Aim::AtMost(STREAM_KIB)),
            },
        ]
    }

    /// Describes the rates of `plain` and `streamed`.
    fn rates(&self) -> [Rate; 2] {
        [
            Rate::of("plain", self.effort.per_second, self.plain_rate, &self.plain),
            Rate::of("streamed", self.effort.per_second, self.streamed_rate, &self.streamed),
        ]
    }

    pub(crate) fn print(&self) {
        let cores = available_parallelism().map_or(0, usize::from);
        println!("{cores} cores, load {}, medians of {} rounds", self.load, self.effort.rounds);
        for rate in self.rates() {
            rate.print();
        }
        println!(
            "\n{:30} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}",
            "", "direct p50", "p99", "through", "p99", "added p50", "p99", "ratio"
        );
        for row in self.rows() {
            row.print();
        }
        println!();
        for number in self.numbers() {
            number.print();
        }
        if self.failed() > 0 {
            println!("\n{} REQUESTS FAILED", self.failed());
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let cores = available_parallelism().map_or(0, usize::from);
        json!({
            "cores": cores,
            "load": self.load,
            "rounds": self.effort.rounds,
            "rates": self.rates().map(|rate| rate.to_json()),
            "latencies": self.rows().map(|row| row.to_json()),
            "numbers": self.numbers().map(|number| number.to_json()),
            "failed": self.failed(),
        })
    }
}

/// The rate of one kind of request.
struct Rate {
    what: &'static str,
    aim: u32,
    /// The rate that the client sent at.
    sent: u32,
    direct: f64,
    through: f64,
    /// Part of a core that client and model server used without the gateway.
    own_cores: f64,
}

impl Rate {
    fn of(what: &'static str, aim: u32, sent: u32, rounds: &[Ways<Run>]) -> Self {
        Self {
            what,
            aim,
            sent,
            direct: median(rounds.iter().map(|ways| ways.direct.achieved)),
            through: median(rounds.iter().map(|ways| ways.through.achieved)),
            own_cores: median(rounds.iter().map(|ways| ways.direct.own_cores)),
        }
    }

    /// Returns whether the responses kept up with the requests.
    fn is_achieved(&self) -> bool {
        self.through >= f64::from(self.sent) * ACHIEVED
    }

    fn print(&self) {
        let Self { what, aim, sent, direct, through, own_cores } = self;
        println!(
            "{what}: {sent} requests a second sent, {direct:.0} answered direct with {own_cores:.2} of a core, {through:.0} through the gateway"
        );
        if sent < aim {
            println!("  NOT {aim}: client and model server would need more than half a core");
        }
        if !self.is_achieved() {
            println!("  THE RATE IS NOT ACHIEVED: the latencies are those of an overload");
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "what": self.what, "aim": self.aim, "sent": self.sent, "answered_direct": self.direct,
            "answered_through": self.through, "own_cores": self.own_cores, "achieved": self.is_achieved(),
        })
    }
}

impl Row {
    fn new<T>(
        what: &'static str,
        rounds: &[Ways<T>],
        latencies: impl Fn(&T) -> &Latencies,
        aims: [Option<f64>; 2],
    ) -> Self {
        let at = |run: &T, percent| micros(latencies(run).percentile(percent));
        let both = |value: &dyn Fn(&Ways<T>, usize) -> f64| {
            [50, 99].map(|percent| median(rounds.iter().map(|ways| value(ways, percent))))
        };
        Self {
            what,
            direct: both(&|ways, percent| at(&ways.direct, percent)),
            through: both(&|ways, percent| at(&ways.through, percent)),
            added: both(&|ways, percent| at(&ways.through, percent) - at(&ways.direct, percent)),
            aims,
        }
    }

    fn ratio(&self) -> f64 {
        self.through[0] / self.direct[0]
    }

    fn aims(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let aims = ["p50", "p99"].into_iter().zip(self.added).zip(self.aims);
        aims.filter_map(|((name, added), aim)| Some((name, added, aim?)))
    }

    fn print(&self) {
        let [direct, direct_p99] = self.direct;
        let [through, through_p99] = self.through;
        let [added, added_p99] = self.added;
        let aims =
            self.aims().map(|(name, added, aim)| format!("{name} +{aim:.0} {}", met(added <= aim)));
        let aims: Vec<_> = aims.collect();
        let aims =
            if aims.is_empty() { String::new() } else { format!("  (aim: {})", aims.join(", ")) };
        println!(
            "{:30} {direct:>8.0}µs {direct_p99:>8.0}µs {through:>8.0}µs {through_p99:>8.0}µs {added:>8.0}µs {added_p99:>8.0}µs {:>7.2}{aims}",
            self.what,
            self.ratio()
        );
    }

    fn to_json(&self) -> Value {
        let pair = |[p50, p99]: [f64; 2]| json!({"p50_us": p50, "p99_us": p99});
        let aims = self
            .aims()
            .map(|(name, added, aim)| json!({"of": name, "at_most_us": aim, "met": added <= aim}));
        json!({
            "what": self.what, "direct": pair(self.direct), "through": pair(self.through), "added": pair(self.added),
            "ratio": self.ratio(), "aims": aims.collect::<Vec<_>>(),
        })
    }
}

impl Number {
    fn is_met(&self) -> Option<bool> {
        self.aim.map(|aim| match aim {
            Aim::AtLeast(least) => self.value >= least,
            Aim::AtMost(most) => self.value <= most,
        })
    }

    fn print(&self) {
        let aim = match (self.aim, self.is_met()) {
            (Some(Aim::AtLeast(aim)), Some(is_met)) => {
                format!("  (aim: at least {aim:.0} {})", met(is_met))
            }
            (Some(Aim::AtMost(aim)), Some(is_met)) => {
                format!("  (aim: at most {aim:.0} {})", met(is_met))
            }
            _ => String::new(),
        };
        println!("{:52} {:>8.0}{}{aim}", self.what, self.value, self.unit);
    }

    fn to_json(&self) -> Value {
        let aim = match self.aim {
            Some(Aim::AtLeast(aim)) => json!({"at_least": aim}),
            Some(Aim::AtMost(aim)) => json!({"at_most": aim}),
            None => Value::Null,
        };
        json!({"what": self.what, "unit": self.unit.trim(), "value": self.value, "aim": aim, "met": self.is_met()})
    }
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
