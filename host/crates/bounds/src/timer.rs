//! A time limit for waits that follow each other.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// A time limit that begins anew with each wait. Unlike `tokio::time::timeout`, it does not set a
/// timer for every wait and remove it afterwards, which takes a lock of the runtime twice: a stream
/// waits for each of its chunks. The timer of an earlier wait stays, and is set again if it ends
/// before the limit of the current one.
pub struct RepeatedTimeout {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
}

impl RepeatedTimeout {
    /// Creates the limit. Panics outside of a runtime.
    pub fn new(limit: Duration) -> Self {
        Self { limit, timer: Box::pin(sleep(limit)) }
    }

    /// Waits for `work`; `None` if it does not end within the limit.
    pub async fn wait<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let until = Instant::now() + self.limit;
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            while self.timer.as_mut().poll(context).is_ready() {
                if Instant::now() >= until {
                    return Poll::Ready(None);
                }
                self.timer.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const SHORTER: Duration = Duration::from_secs(9);

    #[tokio::test(start_paused = true)]
    async fn every_wait_has_the_whole_limit_whenever_the_timer_was_set() {
        let mut timeout = RepeatedTimeout::new(LIMIT);
        let started = Instant::now();
        for _ in 0..3 {
            assert_eq!(timeout.wait(sleep(SHORTER)).await, Some(()));
        }
        assert_eq!(started.elapsed().as_secs(), 27);
        // The timer ends while nothing is waited for.
        sleep(2 * LIMIT).await;
        assert_eq!(timeout.wait(sleep(SHORTER)).await, Some(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_too_long_ends_at_the_limit_each_time() {
        let mut timeout = RepeatedTimeout::new(LIMIT);
        for _ in 0..3 {
            let started = Instant::now();
            assert_eq!(timeout.wait(pending::<()>()).await, None);
            assert_eq!(started.elapsed(), LIMIT);
            timeout.wait(sleep(LIMIT / 2)).await;
        }
    }
}
