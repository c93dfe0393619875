//! The well-behaved neighbour of the guests, and what its calls took.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use airlock::{
    door::{Admitted, Caller, Origin},
    tool::CallError,
};
use airlock_tests::{BUDGET, Embedded, bench::latency::Latencies};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle};

/// A caller that counts words again and again, on the same runtime.
pub(crate) struct Neighbour {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    seen: AtomicUsize,
    /// Number of calls that `answers` waits for; it is notified exactly when they are reached.
    awaited: AtomicUsize,
    reached: Notify,
    failed: AtomicUsize,
    took: Mutex<Vec<Duration>>,
}

impl Neighbour {
    pub(crate) fn start(gateway: &Embedded) -> Self {
        let shared = Arc::new(Shared::default());
        let view = gateway.gateway().caller(Origin::Caller).view().clone();
        let task = tokio::spawn({
            let shared = shared.clone();
            async move {
                while !shared.over.load(Ordering::Relaxed) {
                    let caller = Caller::new(view.clone(), Origin::Caller, BUDGET);
                    let began = Instant::now();
                    let (code, _) =
                        ended(caller.admit("good-word_count", r#"{"text":"good morning"}"#)).await;
                    shared.took.lock().push(began.elapsed());
                    shared.failed.fetch_add(usize::from(code != "ok"), Ordering::Relaxed);
                    if shared.seen.fetch_add(1, Ordering::Relaxed) + 1
                        == shared.awaited.load(Ordering::Relaxed)
                    {
                        shared.reached.notify_one();
                    }
                }
            }
        });
        Self { shared, task }
    }

    pub(crate) fn seen(&self) -> usize {
        self.shared.seen.load(Ordering::Relaxed)
    }

    /// Waits until `count` calls have ended, for `at_most` this long.
    pub(crate) async fn answers(&self, count: usize, at_most: Duration) {
        self.shared.awaited.store(count, Ordering::Relaxed);
        let answered = async {
            while self.seen() < count {
                self.shared.reached.notified().await;
            }
        };
        // The number of calls that ended in time does not matter.
        let _ = tokio::time::timeout(at_most, answered).await;
    }

    /// Returns and resets the measurements.
    pub(crate) fn take(&self) -> Fared {
        self.shared.seen.store(0, Ordering::Relaxed);
        let failed = self.shared.failed.swap(0, Ordering::Relaxed);
        let mut took = self.shared.took.lock();
        Fared { latencies: Latencies::new(std::mem::take(&mut *took)), failed }
    }

    pub(crate) async fn stop(self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.task.await.expect("no panic in it");
    }
}

/// Latencies and failures of the neighbour.
#[derive(Default)]
pub(crate) struct Fared {
    pub(crate) latencies: Latencies,
    pub(crate) failed: usize,
}

/// Runs a call in its own task, as requests are. Returns the code of its error, or `ok`, and the
/// time that it took.
pub(crate) async fn ended(call: Result<Admitted, CallError>) -> (String, Duration) {
    let began = Instant::now();
    let answer = match call {
        Ok(call) => tokio::spawn(call.run()).await.expect("no panic in it"),
        Err(error) => Err(error),
    };
    (
        answer.map_or_else(|error| error.code().as_str().to_owned(), |_| "ok".to_owned()),
        began.elapsed(),
    )
}
