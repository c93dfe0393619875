//! Many calls at once, on one thread and on two.

use std::time::{Duration, Instant};

use airlock::door::{Caller, Origin, View};
use airlock_tests::bench::latency::Latencies;
use futures_util::{StreamExt as _, stream};
use tokio::runtime::{Builder, Handle};

use super::BUDGET;

/// Results of calls with a given number in flight.
pub(crate) struct Crowd {
    pub(crate) per_second: f64,
    pub(crate) times: Latencies,
}

/// Makes `total` calls that do nothing, with `in_flight` of them at any time.
pub(crate) async fn calls(view: &View, in_flight: usize, total: u32) -> Crowd {
    let began = Instant::now();
    let calls = stream::iter(0..total)
        .map(|_| tokio::spawn(call(view.clone())))
        .buffer_unordered(in_flight);
    let took: Vec<_> = calls.map(|ended| ended.expect("no panic in it")).collect().await;
    let per_second = f64::from(total) / began.elapsed().as_secs_f64();
    Crowd { per_second, times: Latencies::new(took) }
}

/// Makes such calls on a separate runtime with `threads` threads. Returns calls per second.
pub(crate) fn on_threads(view: &View, threads: u32, total: u32) -> f64 {
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads as usize)
        .enable_all()
        .build()
        .expect("a runtime");
    let view = view.clone();
    // Runs on a worker: the thread that waits would be an additional one.
    let work = runtime.spawn(async move {
        let began = Instant::now();
        let lanes = (0..threads * 4).map(|_| {
            let view = view.clone();
            Handle::current().spawn(async move {
                for _ in 0..total / (threads * 4) {
                    call(view.clone()).await;
                }
            })
        });
        futures_util::future::join_all(lanes).await;
        f64::from(total / (threads * 4) * threads * 4) / began.elapsed().as_secs_f64()
    });
    runtime.block_on(work).expect("no panic in it")
}

async fn call(view: View) -> Duration {
    let began = Instant::now();
    let caller = Caller::new(view, Origin::Caller, BUDGET);
    caller.admit("hostile-ok", "{}").expect("it is allowed").run().await.expect("it works");
    began.elapsed()
}
