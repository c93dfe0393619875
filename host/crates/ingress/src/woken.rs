//! Work that is polled only after a wake-up.
//!
//! A task polls all parts of a connection whenever one of them is woken, and hyper polls the body of a response once
//! more after each flush. Most of these polls find nothing to do, and each takes locks, registers timers and passes
//! through all futures of the part: for a chunk of a stream, one of three polls of the whole request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// Work with a waker of its own, which notes whether the work was woken since it was polled.
pub(super) struct Woken<W> {
    work: W,
    wakes: Arc<WakeUps>,
    /// Waker of `wakes`.
    waker: Waker,
    /// True if the last poll returned `Pending`.
    is_pending: bool,
}

/// The wake-ups of one work.
#[derive(Default)]
struct WakeUps {
    /// True if there was one since the last poll.
    has_come: AtomicBool,
    /// The task that polls the work.
    task: AtomicWaker,
}

impl<W> Woken<W> {
    /// Creates work that was not polled yet.
    pub(super) fn new(work: W) -> Self {
        let wakes = Arc::new(WakeUps::default());
        Self { work, waker: Waker::from(wakes.clone()), wakes, is_pending: false }
    }

    /// Polls the work by `poll`. Returns `Pending` without a poll if the last one did and no wake-up has come since.
    pub(super) fn poll_by<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut W, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        // Before the look at the wake-ups: one that comes after it wakes the task.
        self.wakes.task.register(context.waker());
        let is_woken = self.wakes.has_come.swap(false, Ordering::AcqRel);
        if self.is_pending && !is_woken {
            return Poll::Pending;
        }
        let polled = poll(&mut self.work, &mut Context::from_waker(&self.waker));
        self.is_pending = polled.is_pending();
        polled
    }
}

impl Wake for WakeUps {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_come.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use futures_util::poll;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_that_waits_is_polled_again_only_after_a_wake_up() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut woken = Woken::new((receiver, 0));
        let mut next = pin!(poll_fn(|context| {
            woken.poll_by(context, |(receiver, polls), context| {
                *polls += 1;
                receiver.poll_recv(context).map(|part| (part, *polls))
            })
        }));
        for _ in 0..3 {
            assert!(poll!(next.as_mut()).is_pending());
        }
        sender.send("first").expect("it is open");
        sender.send("second").expect("it is open");
        assert_eq!(next.as_mut().await, (Some("first"), 2));
        // Work that was ready is polled without a wake-up.
        assert_eq!(next.as_mut().await, (Some("second"), 3));
        assert!(poll!(next.as_mut()).is_pending());
        drop(sender);
        assert_eq!(next.await, (None, 5));
    }

    #[tokio::test]
    async fn a_wake_up_reaches_the_task_that_has_polled_last() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut woken = Woken::new(receiver);
        let mut next = Box::pin(async move {
            poll_fn(|context| woken.poll_by(context, mpsc::UnboundedReceiver::poll_recv)).await
        });
        assert!(poll!(next.as_mut()).is_pending());
        let elsewhere = tokio::spawn(next);
        tokio::task::yield_now().await;
        sender.send("part").expect("it is open");
        assert_eq!(elsewhere.await.expect("no panic"), Some("part"));
    }
}
