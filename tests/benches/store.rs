//! Cost of the store to requests: the same requests to gateways whose store is a file, a server of
//! `PostgreSQL` on the same machine, and the same server behind a network with a round trip of one
//! millisecond; and of a request that another gateway forwards.
//!
//! `make bench BENCH=store` runs it; `--json` prints one document instead of tables. `store.md`
//! describes the rows.

mod place;
mod requests;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use airlock_tests::bench::{
    self,
    latency::{Latencies, median},
    report::{Cell, Report, Table},
};

use self::{
    place::Place,
    requests::{KINDS, Kind},
};

/// Round trip of the distant server.
const ROUND_TRIP: Duration = Duration::from_millis(1);

pub(super) fn main() -> ExitCode {
    let effort = if bench::is_full() { Effort::FULL } else { Effort::LITTLE };
    bench::runtime_of_one_thread().block_on(measure(effort)).finish()
}

/// Extent of the measurements.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// Requests of each kind and place in a round.
    requests: usize,
}

impl Effort {
    const FULL: Self = Self { rounds: 15, requests: 40 };
    const LITTLE: Self = Self { rounds: 1, requests: 2 };
}

/// Times of the requests of one kind at one place, by round.
type Rounds = Vec<Latencies>;

async fn measure(effort: Effort) -> Report {
    let Effort { rounds, requests } = effort;
    let mut report = Report::new(format!(
        "medians of {rounds} rounds of {requests} requests, one after the other"
    ));
    let places = Place::all(ROUND_TRIP).await;
    let mut measured: Vec<Vec<Rounds>> =
        places.iter().map(|_| KINDS.iter().map(|_| Rounds::new()).collect()).collect();
    for round in 0..rounds {
        for index in 0..places.len() {
            // The order changes from round to round.
            let at = (index + round) % places.len();
            for (kind, rounds) in KINDS.iter().zip(&mut measured[at]) {
                rounds.push(times(&places[at], *kind, requests).await);
            }
        }
    }
    for (at, kind) in KINDS.iter().enumerate() {
        let mut table = Table::new(kind.title(), &["p50", "p99", "of the file"]);
        let of_file = percentile(&measured[0][at], 50);
        for (place, rounds) in places.iter().zip(&measured) {
            let p50 = percentile(&rounds[at], 50);
            let ratio = if of_file == 0.0 { 0.0 } else { p50 / of_file };
            let p99 = percentile(&rounds[at], 99);
            table.row(place.name, [Cell::Time(p50), Cell::Time(p99), Cell::Ratio(ratio)]);
        }
        report.table(table);
    }
    if places.len() == 1 {
        report.note("PostgreSQL is not installed, so only the file was measured");
    }
    report
}

/// Returns the median of a percentile of all rounds, in microseconds.
fn percentile(rounds: &Rounds, percent: usize) -> f64 {
    median(rounds.iter().map(|round| round.micros(percent)))
}

async fn times(place: &Place, kind: Kind, requests: usize) -> Latencies {
    let mut times = Vec::with_capacity(requests);
    for _ in 0..requests {
        let request = kind.request(place);
        let began = Instant::now();
        let response = request.send().await.expect("a response");
        let status = response.status();
        let text = response.text().await.expect("a whole response");
        times.push(began.elapsed());
        assert!(status.is_success(), "{}: {status} {text}", kind.title());
    }
    Latencies::new(times)
}
