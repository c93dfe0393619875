//! Timers of work that comes in parts, such as a stream.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    task::coop::unconstrained,
    time::{Instant, Sleep, sleep, sleep_until},
};

/// A timer that is polled with each part of a stream. A [`Sleep`] is registered anew by each poll, which takes 120
/// instructions; this one only if another task polls it.
pub struct StreamTimer {
    sleep: Pin<Box<Sleep>>,
    /// Waker that is registered; `None` before the first poll and after the end.
    waker: Option<Waker>,
}

impl StreamTimer {
    /// Creates a timer that ends after a time. Panics outside of a runtime.
    pub fn new(limit: Duration) -> Self {
        Self { sleep: Box::pin(sleep(limit)), waker: None }
    }

    /// Creates a timer that ends at a time. Panics outside of a runtime.
    pub fn until(deadline: Instant) -> Self {
        Self { sleep: Box::pin(sleep_until(deadline)), waker: None }
    }

    /// Returns whether it has ended. If not, it wakes the task of `context` at its end.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_registered =
            self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if is_registered && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        // A task that has done enough is not registered by a `Sleep`, only woken.
        let ended = pin!(unconstrained(self.sleep.as_mut())).poll(context);
        self.waker = ended.is_pending().then(|| context.waker().clone());
        ended
    }

    /// Waits for the end.
    pub async fn ended(&mut self) {
        poll_fn(|context| self.poll(context)).await;
    }

    /// Sets it again after its end.
    fn reset(&mut self, deadline: Instant) {
        self.sleep.as_mut().reset(deadline);
    }
}

/// A time limit that begins anew with each wait. Unlike `tokio::time::timeout`, it does not set a
/// timer for every wait and remove it afterwards, which takes a lock of the runtime twice: a stream
/// waits for each of its chunks. The timer of an earlier wait stays, and is set again if it ends
/// before the limit of the current one.
pub struct RepeatedTimeout {
    limit: Duration,
    timer: StreamTimer,
}

impl RepeatedTimeout {
    /// Creates the limit. Panics outside of a runtime.
    pub fn new(limit: Duration) -> Self {
        Self { limit, timer: StreamTimer::new(limit) }
    }

    /// Waits for `work`; `None` if it does not end within the limit.
    pub async fn wait<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let limit = self.limit;
        let mut work = pin!(work);
        // The clock is not read for work that is done at once, such as a chunk that came with the one before it.
        let mut until = None;
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            let until = *until.get_or_insert_with(|| Instant::now() + limit);
            while self.timer.poll(context).is_ready() {
                if Instant::now() >= until {
                    return Poll::Ready(None);
                }
                self.timer.reset(until);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::{
        task::coop::{consume_budget, has_budget_remaining},
        time::timeout,
    };

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

    #[tokio::test(start_paused = true)]
    async fn a_timer_wakes_the_task_that_polls_it_last_at_its_end() {
        for has_time in [false, true] {
            let started = Instant::now();
            let end = started + LIMIT;
            let mut timer =
                if has_time { StreamTimer::until(end) } else { StreamTimer::new(LIMIT) };
            let mut elsewhere = Context::from_waker(Waker::noop());
            for _ in 0..2 {
                assert!(timer.poll(&mut elsewhere).is_pending());
            }
            assert!(timeout(2 * LIMIT, timer.ended()).await.is_ok());
            assert_eq!(started.elapsed(), LIMIT);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_wakes_a_task_that_had_done_enough_when_it_polled() {
        let mut timer = StreamTimer::new(LIMIT);
        poll_fn(|context| {
            while has_budget_remaining() {
                let _ = pin!(consume_budget()).poll(context);
            }
            assert!(timer.poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(timeout(2 * LIMIT, timer.ended()).await.is_ok());
    }
}
