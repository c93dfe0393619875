//! The end of a connection that the gateway closes: the wait for a reason, and the time that is left to it then.

use std::{future::poll_fn, pin::Pin, time::Duration};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, CloseReason, ConnectionTimeouts};
use airlock_core::wake::WakeUps;

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

/// The wait until the gateway closes a connection. It is polled only when it was woken: a connection is polled several
/// times for each request, and timers and notifications take locks each time.
pub(super) struct ClosingWait<F> {
    cause: Pin<Box<F>>,
    wakes: WakeUps,
}

impl<F: Future<Output = Closing>> ClosingWait<F> {
    /// Waits for the cause. Dropping the future loses nothing.
    pub(super) async fn cause(&mut self) -> Closing {
        let Self { cause, wakes } = self;
        poll_fn(|context| wakes.poll_if_woken(context, |context| cause.as_mut().poll(context)))
            .await
    }
}

/// Begins to wait until the gateway closes a connection.
pub(super) fn wait(
    activity: &Activity,
    waits: &ConnectionTimeouts,
    draining: &CancellationToken,
) -> ClosingWait<impl Future<Output = Closing> + Send> {
    // Boxed: it is dropped before the connection is.
    let cause = Box::pin(async move {
        tokio::select! {
            biased;
            reason = activity.end(waits) => Closing::Reason(reason),
            () = draining.cancelled() => Closing::Draining,
        }
    });
    ClosingWait { cause, wakes: WakeUps::default() }
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
