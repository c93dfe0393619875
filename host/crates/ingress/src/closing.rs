//! The end of a connection that the gateway closes: the wait for a reason, and the time that is left to it then.

use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, CloseReason, ConnectionTimeouts};

/// Time for a graceful shutdown of a connection without a running request. Over HTTP/2 the shutdown
/// needs the client.
const GOODBYE: Duration = Duration::from_millis(100);

/// Cause of the end of an open connection.
pub(super) enum Closing {
    /// The connection itself.
    Reason(CloseReason),
    /// The gateway drains.
    Draining,
}

/// Waits until the gateway closes a connection. The wait is polled only when it was woken: a connection is polled several
/// times for each request, and timers and notifications take locks each time.
pub(super) fn wait<'a>(
    activity: &'a Activity,
    waits: &'a ConnectionTimeouts,
    draining: &'a CancellationToken,
) -> FuturesUnordered<impl Future<Output = Closing> + Send + 'a> {
    let waiting = async move {
        tokio::select! {
            biased;
            reason = activity.end(waits) => Closing::Reason(reason),
            () = draining.cancelled() => Closing::Draining,
        }
    };
    FuturesUnordered::from_iter([waiting])
}

/// Completes when a connection that is being closed has used up its time.
pub(super) async fn goodbye(
    reason: CloseReason,
    activity: &Activity,
    write_timeout: Duration,
    drain_timeout: Duration,
) {
    match reason {
        CloseReason::Silent | CloseReason::Idle | CloseReason::Evicted => sleep(GOODBYE).await,
        // Other requests on the same connection still get their responses.
        CloseReason::Unread => {
            let _ = timeout(drain_timeout, activity.answered(write_timeout)).await;
        }
        CloseReason::BrokenOff => {}
    }
}
