//! Waits for conditions by polling. Nothing here sleeps for a fixed time.

use std::time::{Duration, Instant};

/// Time limit of a test for a condition that should hold at once.
pub const SOON: Duration = Duration::from_secs(20);

/// Polls until `ask` returns a value. Panics with `what` if that takes longer than [`SOON`].
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
