//! Leaves out the wake-up of an HTTP/1 connection by the end of a body.
//!
//! hyper hands a body over part by part, and wakes the task of the connection for each part that is taken, so that it
//! reads the next one. It does so for the last part too, when the connection has nothing to read. A server polls
//! its handlers in the task of the connection: that wake-up polled the connection and all futures of its request once more,
//! and because a task that wakes itself goes to the queue that all workers share, it woke another worker for that.
//!
//! ```text
//! connection ─ConnectionWaker::poll─▶ hyper ─▶ handler ─poll_body─▶ body, taken: wake-up held
//!                                                                   ├─ more follows: delivered
//!                                                                   └─ the end: left out
//! ```
//!
//! Only wake-ups of the thread that polls a body are held, while it does. A connection of HTTP/2 must be polled with the
//! waker of its task: the end of a body there opens its window.

use std::{
    cell::Cell,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

use super::next_request::NextRequest;

thread_local! {
    /// True while this thread polls a body.
    static POLLS_BODY: Cell<bool> = const { Cell::new(false) };
    /// The connection that the body has woken since.
    static HELD: Cell<Option<Arc<ConnectionTask>>> = const { Cell::new(None) };
}

/// Waker of one connection, whose wake-ups [`poll_body`] can hold.
pub(super) struct ConnectionWaker {
    task: Arc<ConnectionTask>,
    waker: Waker,
    next: NextRequest,
}

/// The task that polls a connection.
#[derive(Default)]
struct ConnectionTask(AtomicWaker);

impl ConnectionWaker {
    /// Polls the connection. Its wake-ups go to the task of `context`.
    pub(super) fn poll<F: Future>(
        &self,
        mut connection: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.task.0.register(context.waker());
        let mut context = Context::from_waker(&self.waker);
        self.next.poll(|| connection.as_mut().poll(&mut context))
    }
}

impl Default for ConnectionWaker {
    fn default() -> Self {
        let task = Arc::new(ConnectionTask::default());
        Self { waker: Waker::from(task.clone()), task, next: NextRequest::default() }
    }
}

impl Wake for ConnectionTask {
    fn wake(self: Arc<Self>) {
        if POLLS_BODY.get() {
            HELD.set(Some(self));
        } else {
            self.0.wake();
        }
    }
}

/// Polls a body, and nothing else. Its connection is woken afterwards if the body woke it, and is not if the body
/// `has_ended`.
pub(super) fn poll_body<B, T>(
    body: &mut B,
    poll: impl FnOnce(&mut B) -> T,
    has_ended: impl FnOnce(&B) -> bool,
) -> T {
    let _held = HeldWake::begin();
    let polled = poll(body);
    if has_ended(body) {
        drop(HELD.take());
    }
    polled
}

/// Holds the wake-ups of this thread, and delivers them when it is dropped.
struct HeldWake;

impl HeldWake {
    fn begin() -> Self {
        POLLS_BODY.set(true);
        Self
    }
}

impl Drop for HeldWake {
    fn drop(&mut self) {
        POLLS_BODY.set(false);
        if let Some(task) = HELD.take() {
            task.0.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, thread};

    use super::*;
    use crate::testing::CountedWakes;

    /// Polls a connection once, whose body does this with the waker of the connection. Returns the number of wake-ups of
    /// the task.
    fn wakes(has_ended: bool, poll: impl FnOnce(&Waker)) -> usize {
        let counted = Arc::new(CountedWakes::default());
        let task = Waker::from(counted.clone());
        let mut poll = Some(poll);
        let connection = poll_fn(|context| {
            let poll = poll.take().expect("it is polled once");
            poll_body(&mut (), |()| poll(context.waker()), |()| has_ended);
            Poll::<()>::Pending
        });
        let polled =
            ConnectionWaker::default().poll(pin!(connection), &mut Context::from_waker(&task));
        assert!(polled.is_pending());
        assert!(!POLLS_BODY.get() && HELD.take().is_none(), "nothing is held afterwards");
        counted.taken()
    }

    #[test]
    fn a_body_wakes_its_connection_unless_it_has_ended() {
        assert_eq!(wakes(false, Waker::wake_by_ref), 1);
        assert_eq!(wakes(true, Waker::wake_by_ref), 0);
        assert_eq!(wakes(false, |_| {}), 0);
    }

    fn wake_by_another_thread(waker: &Waker) {
        thread::scope(|scope| {
            scope.spawn(|| waker.wake_by_ref());
        });
    }

    #[test]
    fn a_wake_up_by_another_thread_is_never_left_out() {
        assert_eq!(wakes(true, wake_by_another_thread), 1);
    }

    #[test]
    fn a_connection_is_woken_after_its_poll() {
        let counted = Arc::new(CountedWakes::default());
        let task = Waker::from(counted.clone());
        let connection = ConnectionWaker::default();
        let mut kept = None;
        let pending = poll_fn(|context| {
            kept = Some(context.waker().clone());
            Poll::<()>::Pending
        });
        assert!(connection.poll(pin!(pending), &mut Context::from_waker(&task)).is_pending());
        kept.expect("it was polled").wake();
        assert_eq!(counted.taken(), 1);
    }
}
