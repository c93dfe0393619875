//! Runs of requests, in a closed loop: what one run measures, and medians over many.

use std::{
    cell::RefCell,
    fmt::Display,
    time::{Duration, Instant},
};

use futures_util::future::join_all;

use super::{
    latency::{Latencies, median},
    report::{Cell, Row},
};

/// One in this many requests of a run, the first ones, is not measured.
const WARM_UP_PART: usize = 8;

/// Measures a run while it goes on.
pub struct Meter {
    started: Instant,
    over: Duration,
    /// Time from the start to the last response; `None` until the run is closed.
    lasted: Option<Duration>,
    took: Vec<Duration>,
    failed: u32,
    first_failure: Option<String>,
}

/// Measurements of one run.
#[derive(Debug)]
pub struct Run {
    /// Time from the sending of a request to the end of its response.
    latencies: Latencies,
    per_second: f64,
    /// CPU time per request of the process that the client talks to, in microseconds.
    cpu_micros: f64,
    /// Requests without a successful response.
    failed: u32,
    /// Response to the first of them.
    first_failure: Option<String>,
}

impl Meter {
    /// Starts a run of this length.
    pub fn start(over: Duration) -> Self {
        Self {
            started: Instant::now(),
            over,
            lasted: None,
            took: Vec::new(),
            failed: 0,
            first_failure: None,
        }
    }

    /// Closes the run: time that passes from now on is not a part of it.
    fn close(&mut self) {
        self.lasted = Some(self.started.elapsed());
    }

    /// Returns whether another request is to be sent.
    pub fn goes_on(&self) -> bool {
        self.started.elapsed() < self.over
    }

    /// Notes a successful response.
    pub fn success(&mut self, sent: Instant) {
        self.took.push(sent.elapsed());
    }

    /// Notes a failure. Only the first one is kept as text: writing all of them would take time of
    /// the run.
    pub fn failure(&mut self, text: impl FnOnce() -> String) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(text);
    }

    /// Returns the measurements, with the CPU time of the process for the requests of the run.
    pub fn end(mut self, cpu: impl FnOnce() -> Duration) -> Run {
        let lasted = self.lasted.unwrap_or_else(|| self.started.elapsed());
        let seconds = lasted.as_secs_f64();
        let count = f64::from(u32::try_from(self.took.len()).unwrap_or(u32::MAX));
        let measured = self.took.split_off(self.took.len() / WARM_UP_PART);
        Run {
            latencies: Latencies::new(measured),
            per_second: count / seconds,
            cpu_micros: cpu().as_secs_f64() * 1e6 / count.max(1.0),
            failed: self.failed,
            first_failure: self.first_failure,
        }
    }
}

/// Sends requests for some time, with `in_flight` of them at any time.
pub async fn closed_loop<E: Display>(
    in_flight: usize,
    over: Duration,
    send: impl AsyncFn() -> Result<(), E>,
) -> Meter {
    let meter = RefCell::new(Meter::start(over));
    let all = &meter;
    let send = &send;
    join_all((0..in_flight).map(|_| async move {
        loop {
            let begun = Instant::now();
            let ended = send().await;
            let mut meter = all.borrow_mut();
            match ended {
                Ok(()) => meter.success(begun),
                Err(error) => meter.failure(|| error.to_string()),
            }
            if !meter.goes_on() {
                return;
            }
        }
    }))
    .await;
    let mut meter = meter.into_inner();
    meter.close();
    meter
}

/// Returns the median of the differences in CPU time of each round, per request and in microseconds.
pub fn added_cpu(runs: &[Run], direct: &[Run]) -> f64 {
    median(runs.iter().zip(direct).map(|(own, direct)| own.cpu_micros - direct.cpu_micros))
}

/// Runs of one way of sending a request, by round: with one request at a time, and with many.
#[derive(Debug, Default)]
pub struct Rounds {
    /// One request after the other.
    pub alone: Vec<Run>,
    /// Many in flight.
    pub at_once: Vec<Run>,
}

/// Medians over runs; times are in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    /// Median latency.
    pub p50: f64,
    /// Latency that one request in a hundred exceeds.
    pub p99: f64,
    /// Responses a second.
    pub per_second: f64,
    /// CPU time of a request.
    pub cpu: f64,
}

impl Summary {
    /// Summarizes runs.
    pub fn new(runs: &[Run]) -> Self {
        let median_of = |value: &dyn Fn(&Run) -> f64| median(runs.iter().map(value));
        Self {
            p50: median_of(&|run| run.latencies.micros(50)),
            p99: median_of(&|run| run.latencies.micros(99)),
            per_second: median_of(&|run| run.per_second),
            cpu: median_of(&|run| run.cpu_micros),
        }
    }
}

impl Rounds {
    /// Returns p50, p99, what each is beyond that of `direct`, and the ratio of p50, with one request
    /// at a time. Without `direct`, only the first two.
    pub fn cells(&self, direct: Option<&Self>) -> [Cell; 5] {
        let Summary { p50, p99, .. } = Summary::new(&self.alone);
        let [added_p50, added_p99, ratio] = match direct {
            None => [Cell::Empty, Cell::Empty, Cell::Empty],
            Some(direct) => [
                Cell::Added(self.added(direct, 50)),
                Cell::Added(self.added(direct, 99)),
                Cell::Ratio(p50 / Summary::new(&direct.alone).p50),
            ],
        };
        [Cell::Time(p50), Cell::Time(p99), added_p50, added_p99, ratio]
    }

    /// Returns the median of the differences of each round at a percentile, in microseconds.
    fn added(&self, direct: &Self, percent: usize) -> f64 {
        let rounds = self.alone.iter().zip(&direct.alone);
        median(
            rounds.map(|(own, direct)| {
                own.latencies.micros(percent) - direct.latencies.micros(percent)
            }),
        )
    }

    /// Returns the number of requests without a successful response.
    pub fn failed(&self) -> u32 {
        self.runs().map(|run| run.failed).sum()
    }

    /// Adds the failures to the row of this way.
    pub fn remark_failures(&self, row: &mut Row) {
        if let Some(first) = self.runs().find_map(|run| run.first_failure.as_ref()) {
            row.remark(format!("{} FAILED, the first one with {first}", self.failed()));
        }
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.alone.iter().chain(&self.at_once)
    }
}
