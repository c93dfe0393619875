//! Load on a server: at a given rate, or as much as it carries.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use airlock_tests::bench::{
    latency::{Latencies, Schedule},
    process::{Process, kib_each},
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::JoinSet};

use super::client::{Client, Exchange, Form};

/// One in this many requests of a run, the first ones, is not measured.
const WARM_UP_PART: u32 = 8;
/// Time over which many streams are opened.
const OPENING: Duration = Duration::from_secs(1);
/// Part of a rate that counts as the rate: a run ends with its last response, not with its last
/// request.
const ACHIEVED: f64 = 0.98;

/// Measurements of one run at a given rate.
#[derive(Debug)]
pub(crate) struct Run {
    /// Time from the moment at which a request was due to the first byte of its response's body.
    pub(crate) first: Latencies,
    /// Time to the last byte.
    pub(crate) whole: Latencies,
    /// Time from the writing of a chunk to its receipt.
    pub(crate) chunks: Latencies,
    /// Responses a second.
    pub(crate) achieved: f64,
    /// Part of a core that client and model server used.
    pub(crate) own_cores: f64,
    pub(crate) failed: u32,
}

/// Sends requests when they are due, also while earlier ones are not answered: a server that stalls
/// does not stall the requests, and what they wait counts (Tene's *coordinated omission*).
pub(crate) async fn at_rate(client: &Client, form: Form, schedule: Schedule) -> Run {
    let body = client.body(form);
    let cpu = Process::own().cpu();
    let started = Instant::now();
    let mut due = pace_of(schedule);
    let mut running = JoinSet::new();
    while let Some(due) = due.recv().await {
        let client = client.clone();
        let body = body.clone();
        running.spawn(async move { client.exchange(body, form, due).await });
    }
    let mut ended = Vec::new();
    let warm_up = schedule.count() / WARM_UP_PART;
    let mut failed = 0;
    while let Some(exchange) = running.join_next().await {
        match exchange.expect("no panic in it") {
            Ok(exchange) => ended.push(exchange),
            Err(error) => {
                eprintln!("a request failed: {error:#}");
                failed += 1;
            }
        }
    }
    let took = started.elapsed().as_secs_f64();
    let own_cores = Process::own().cpu().saturating_sub(cpu).as_secs_f64() / took;
    let achieved = f64::from(schedule.count() - failed) / took;
    let measured = ended.split_off((warm_up as usize).min(ended.len()));
    Run::new(measured, achieved, own_cores, failed)
}

impl Run {
    /// Returns whether the responses kept up with this many requests a second.
    pub(crate) fn keeps_up(&self, per_second: u32) -> bool {
        self.achieved >= f64::from(per_second) * ACHIEVED
    }

    fn new(exchanges: Vec<Exchange>, achieved: f64, own_cores: f64, failed: u32) -> Self {
        let first = exchanges.iter().map(|exchange| exchange.first).collect();
        let whole = exchanges.iter().map(|exchange| exchange.whole).collect();
        let chunks = exchanges.into_iter().flat_map(|exchange| exchange.chunks).collect();
        Self {
            first: Latencies::new(first),
            whole: Latencies::new(whole),
            chunks: Latencies::new(chunks),
            achieved,
            own_cores,
            failed,
        }
    }
}

/// Sends one request after the other.
pub(crate) async fn alone(client: &Client, form: Form, over: Duration) -> Latencies {
    let body = client.body(form);
    let started = Instant::now();
    let mut times = Vec::new();
    while started.elapsed() < over {
        let exchange = client.exchange(body.clone(), form, Instant::now()).await;
        times.push(exchange.expect("a request alone is answered").whole);
    }
    let warm_up = times.len() / WARM_UP_PART as usize;
    Latencies::new(times.split_off(warm_up))
}

/// Sends each due time when it has come. A thread of its own, because the runtime's timers are
/// milliseconds apart.
fn pace_of(schedule: Schedule) -> mpsc::UnboundedReceiver<Instant> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::spawn(move || {
        let started = Instant::now();
        for index in 0..schedule.count() {
            let due = started + schedule.due(index);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if sender.send(due).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Measurements of a server that gets as much as it carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saturated {
    pub(crate) answered: f64,
    /// CPU time of the measured process, in seconds.
    pub(crate) cpu: f64,
    pub(crate) per_second: f64,
    /// Responses per second of CPU time of the measured process.
    pub(crate) per_core: f64,
    pub(crate) failed: u32,
}

/// Sends requests on `lanes` connections, on each one after the other, and measures the CPU time of
/// `process`.
pub(crate) async fn saturate(
    client: &Client,
    form: Form,
    process: &Process,
    lanes: usize,
    over: Duration,
) -> Saturated {
    let body = client.body(form);
    let answered = Arc::new(AtomicU32::new(0));
    let failed = Arc::new(AtomicU32::new(0));
    let cpu = process.cpu();
    let started = Instant::now();
    let lanes = (0..lanes).map(|_| {
        let client = client.clone();
        let body = body.clone();
        let answered = answered.clone();
        let failed = failed.clone();
        tokio::spawn(async move {
            while started.elapsed() < over {
                let ended = client.exchange(body.clone(), form, Instant::now()).await;
                let count = if ended.is_ok() { &answered } else { &failed };
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    join_all(lanes).await;
    let took = started.elapsed().as_secs_f64();
    let cpu = process.cpu().saturating_sub(cpu).as_secs_f64();
    let answered = f64::from(answered.load(Ordering::Relaxed));
    Saturated {
        answered,
        cpu,
        per_second: answered / took,
        per_core: answered / cpu,
        failed: failed.load(Ordering::Relaxed),
    }
}

/// Measurements of many streams at once.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Time from the writing of a chunk to its receipt.
    pub(crate) chunks: Latencies,
    /// Memory of the measured process before the streams.
    pub(crate) before_bytes: u64,
    /// Memory while all streams are open.
    pub(crate) with_bytes: u64,
    pub(crate) failed: u32,
}

/// Opens `count` streams of `texts` chunks each, evenly over a second, and measures the memory of
/// `process` while all of them are open.
pub(crate) async fn crowd(
    client: &Client,
    process: &Process,
    count: u32,
    pace: Duration,
    texts: u32,
) -> Crowd {
    let form = Form::Streamed { texts, pace };
    let before_bytes = process.resident();
    let body = client.body(form);
    let ages = Arc::new(Mutex::new(Vec::new()));
    let mut running = JoinSet::new();
    let mut due = pace_of(Schedule::new(count, OPENING));
    while let Some(due) = due.recv().await {
        let client = client.clone();
        let body = body.clone();
        let ages = ages.clone();
        running.spawn(async move {
            let exchange = client.exchange(body, form, due).await;
            exchange.map(|exchange| {
                // The first ones came while other streams were being opened.
                let opening = OPENING.as_micros().div_ceil(pace.as_micros().max(1));
                let opening = usize::try_from(opening).unwrap_or(usize::MAX);
                let chunks = exchange.chunks.into_iter().skip(opening);
                ages.lock().extend(chunks);
            })
        });
    }
    tokio::time::sleep((pace * texts).saturating_sub(OPENING) / 2).await;
    let with_bytes = process.resident();
    let mut failed = 0;
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended.expect("no panic in it") {
            eprintln!("a stream failed: {error:#}");
            failed += 1;
        }
    }
    let chunks = std::mem::take(&mut *ages.lock());
    Crowd { chunks: Latencies::new(chunks), before_bytes, with_bytes, failed }
}

impl Crowd {
    /// Returns the memory of one of `count` streams, in KiB.
    pub(crate) fn stream_kib(&self, count: u32) -> f64 {
        kib_each(self.with_bytes, self.before_bytes, count)
    }
}
