//! Waiting for something to become true. Nothing here waits a fixed time and hopes.

use std::time::{Duration, Instant};

/// How long a test waits for what should happen at once.
pub const SOON: Duration = Duration::from_secs(20);

/// Asks until the answer is there. Panics with `what` if that takes longer than [`SOON`].
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    let mut turns = tokio::time::interval(Duration::from_millis(10));
    loop {
        turns.tick().await;
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "waited {SOON:?} for {what}");
    }
}
