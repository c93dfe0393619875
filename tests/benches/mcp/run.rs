//! Times of one run of requests.

use std::time::{Duration, Instant};

use airlock_tests::latency::Latencies;

/// One in this many requests of a run, the first ones, is not measured.
const WARM_UP_PART: usize = 8;

/// Measures a run while it goes on.
pub(crate) struct Meter {
    started: Instant,
    over: Duration,
    took: Vec<Duration>,
    failed: u32,
    first_failure: Option<String>,
}

/// Measurements of one run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Time from the sending of a request to the end of its response.
    pub(crate) latencies: Latencies,
    pub(crate) per_second: f64,
    /// CPU time per request of the process that the client talks to, in microseconds.
    pub(crate) cpu_micros: f64,
    /// Requests without a successful response.
    pub(crate) failed: u32,
    /// Response to the first of them.
    pub(crate) first_failure: Option<String>,
}

impl Meter {
    pub(crate) fn start(over: Duration) -> Self {
        Self { started: Instant::now(), over, took: Vec::new(), failed: 0, first_failure: None }
    }

    /// Returns whether another request is to be sent.
    pub(crate) fn goes_on(&self) -> bool {
        self.started.elapsed() < self.over
    }

    /// Notes a successful response.
    pub(crate) fn success(&mut self, sent: Instant) {
        self.took.push(sent.elapsed());
    }

    /// Notes a failure. Only the first one is kept as text: writing all of them would take time of the
    /// run.
    pub(crate) fn failure(&mut self, text: impl FnOnce() -> String) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(text);
    }

    /// Returns the measurements, with the CPU time of the process during the run.
    pub(crate) fn end(mut self, cpu: impl FnOnce() -> Duration) -> Run {
        let seconds = self.started.elapsed().as_secs_f64();
        let count = f64::from(u32::try_from(self.took.len()).unwrap_or(u32::MAX));
        let measured = self.took.split_off(self.took.len() / WARM_UP_PART);
        Run {
            latencies: Latencies::of(measured),
            per_second: count / seconds,
            cpu_micros: cpu().as_secs_f64() * 1e6 / count.max(1.0),
            failed: self.failed,
            first_failure: self.first_failure,
        }
    }
}
