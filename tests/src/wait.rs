//! Waits for conditions by polling. Nothing here sleeps for a fixed time.

use std::time::{Duration, Instant};

/// Time limit of a test for a condition that should hold at once.
pub const SOON: Duration = Duration::from_secs(20);

/// Time limit of a test for what may compile a guest or an executor, or start a server of another project. An executor takes
/// half a minute of two idle processors, and a machine of CI may be four times slower.
pub const COMPILED: Duration = Duration::from_mins(4);

/// Polls until `ask` returns a value. Panics with `what` if that takes longer than [`SOON`].
pub async fn until<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(SOON, what, ask).await
}

/// Polls until `ask` returns a value. Panics with `what` if that takes longer than `limit`: for what a busy machine delays.
pub async fn until_within<T>(
    limit: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + limit;
    let mut turns = tokio::time::interval(Duration::from_millis(10));
    loop {
        turns.tick().await;
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "waited {limit:?} for {what}");
    }
}
