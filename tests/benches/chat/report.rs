//! The measurements as a table, or as one JSON document.

use std::{fs, thread::available_parallelism, time::Duration};

use airlock_tests::latency::{Latencies, median};
use serde_json::{Value, json};

use crate::{
    Effort, Rate, Ways,
    load::{Crowd, Run, Saturated},
};

/// Aims of the project. Times are what the gateway adds, in microseconds.
const ADDED_P50: f64 = 200.0;
const ADDED_P99: f64 = 400.0;
const CHUNK: f64 = 100.0;
const PER_CORE: f64 = 15_000.0;
const STREAM_KIB: f64 = 64.0;

/// All measurements, by round.
pub(crate) struct Report {
    effort: Effort,
    load: String,
    /// Rate of `plain`.
    pub(crate) plain_rate: Rate,
    /// Rate of `streamed`.
    pub(crate) streamed_rate: Rate,
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
            plain_rate: Rate::default(),
            streamed_rate: Rate::default(),
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
    fn rates(&self) -> [Rated; 2] {
        let aim = self.effort.per_second;
        [
            Rated::of("plain", aim, self.plain_rate, &self.plain),
            Rated::of("streamed", aim, self.streamed_rate, &self.streamed),
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

/// The rate of one kind of request, and the responses at it.
struct Rated {
    what: &'static str,
    aim: u32,
    rate: Rate,
    /// Responses a second.
    direct: f64,
    through: f64,
    /// Part of a core that client and model server used without the gateway.
    own_cores: f64,
    is_achieved: bool,
}

impl Rated {
    fn of(what: &'static str, aim: u32, rate: Rate, rounds: &[Ways<Run>]) -> Self {
        Self {
            what,
            aim,
            rate,
            direct: median(rounds.iter().map(|ways| ways.direct.achieved)),
            through: median(rounds.iter().map(|ways| ways.through.achieved)),
            own_cores: median(rounds.iter().map(|ways| ways.direct.own_cores)),
            is_achieved: rounds.iter().all(|ways| ways.through.keeps_up(rate.sent)),
        }
    }

    fn print(&self) {
        let Self { what, aim, rate, direct, through, own_cores, is_achieved } = self;
        println!(
            "{what}: {} requests a second sent, {direct:.0} answered direct with {own_cores:.2} of a core, {through:.0} through the gateway",
            rate.sent
        );
        if rate.direct < *aim {
            println!("  NOT {aim}: client and model server would need more than half a core");
        }
        if rate.sent < rate.direct {
            println!(
                "  NOT {}: this machine does not carry as many with the gateway now",
                rate.direct
            );
        }
        if !is_achieved {
            println!("  NOT ACHIEVED IN EVERY ROUND: some latencies are those of an overload");
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "what": self.what, "aim": self.aim, "sent": self.rate.sent, "direct_limit": self.rate.direct,
            "answered_direct": self.direct, "answered_through": self.through, "own_cores": self.own_cores,
            "achieved": self.is_achieved,
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
