//! Runs the calls that a guest makes in the task that runs the guest, beside it.
//!
//! A host function is polled on the guest's stack, which is too small for other tools. A task for each
//! call would have its own stack, and costs several microseconds: it is queued, and another thread is
//! woken for it. So the guest's own task polls the call, once the guest waits for it and the stack is
//! the task's again.

use std::{
    any::Any,
    cell::RefCell,
    mem,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{FutureExt as _, StreamExt as _, future::abortable, stream::FuturesUnordered};
use pin_project_lite::pin_project;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

tokio::task_local! {
    /// Calls of the guest that is polled, which nothing polls yet.
    static WAITING: RefCell<Vec<Job>>;
}

/// Error: a call panicked, or its task was stopped.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It panicked.
    #[error("the call panicked")]
    Panicked,
    /// It was stopped before its end.
    #[error("the call was stopped")]
    Stopped,
}

impl Lost {
    fn panicked(_payload: Box<dyn Any + Send>) -> Self {
        Self::Panicked
    }
}

/// Runs a call that the running guest waits for. Dropping the future stops the call. Outside of a
/// guest, the call runs in a task of its own.
pub async fn run_beside<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, Lost> {
    if WAITING.try_with(|_| ()).is_err() {
        return run_apart(call).await;
    }
    let (call, abort) = abortable(AssertUnwindSafe(call).catch_unwind());
    let (sender, ended) = oneshot::channel();
    let job: Job = Box::pin(async move {
        if let Ok(ended) = call.await {
            // A receiver that is gone has stopped the call.
            let _ = sender.send(ended);
        }
    });
    WAITING.with(|waiting| waiting.borrow_mut().push(job));
    let _stop = Stop(abort);
    ended.await.map_err(|_| Lost::Stopped)?.map_err(Lost::panicked)
}

/// Runs a call in a task of its own, so that calls at the same time use several threads. Dropping the
/// future stops the call.
pub async fn run_apart<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, Lost> {
    let ended = AbortOnDropHandle::new(tokio::spawn(call)).await;
    ended.map_err(|lost| if lost.is_panic() { Lost::Panicked } else { Lost::Stopped })
}

/// Stops a call when it is dropped.
struct Stop(futures_util::future::AbortHandle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pin_project! {
    /// A guest, and the calls that it waits for. The calls are stopped with the guest.
    pub(super) struct GuestWithCalls<F> {
        #[pin]
        guest: F,
        running: RunningCalls,
    }
}

impl<F> GuestWithCalls<F> {
    pub(super) fn new(guest: F) -> Self {
        Self { guest, running: RunningCalls::None }
    }
}

impl<F: Future> Future for GuestWithCalls<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        loop {
            let guest = this.guest.as_mut();
            let (polled, waiting) = WAITING.sync_scope(RefCell::default(), || {
                let polled = guest.poll(context);
                (polled, WAITING.with(RefCell::take))
            });
            if polled.is_ready() {
                return polled;
            }
            for call in waiting {
                this.running.add(call);
            }
            // The guest is polled again if one of its calls has ended.
            if this.running.poll_end(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// The calls that a guest waits for. Most guests make none or one at a time, which needs no queue.
#[derive(Default)]
enum RunningCalls {
    #[default]
    None,
    One(Job),
    Several(FuturesUnordered<Job>),
}

impl RunningCalls {
    fn add(&mut self, call: Job) {
        *self = match mem::take(self) {
            Self::One(first) => Self::Several([first, call].into_iter().collect()),
            Self::Several(calls) if !calls.is_empty() => {
                calls.push(call);
                Self::Several(calls)
            }
            _ => Self::One(call),
        };
    }

    /// Polls the calls. Ready once one of them has ended; pending if there are none.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::None => Poll::Pending,
            Self::One(call) => {
                let polled = call.as_mut().poll(context);
                if polled.is_ready() {
                    *self = Self::None;
                }
                polled
            }
            Self::Several(calls) => match calls.poll_next_unpin(context) {
                Poll::Ready(Some(())) => Poll::Ready(()),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, poll_fn},
        sync::Arc,
        thread,
    };

    use super::*;

    #[tokio::test]
    async fn a_call_runs_in_the_task_of_its_guest_and_outside_of_its_poll() {
        let task = tokio::task::id;
        let here = tokio::spawn(async move {
            let outer = task();
            let inner = GuestWithCalls::new(run_beside(async move {
                (task(), WAITING.try_with(|_| ()).is_err())
            }));
            inner.await.expect("it ends") == (outer, true)
        });
        assert!(here.await.expect("no panic in it"));
    }

    #[tokio::test]
    async fn a_call_that_waits_is_polled_again_when_it_is_woken() {
        let (sender, receiver) = oneshot::channel();
        let guest = GuestWithCalls::new(async {
            let one = run_beside(receiver).await.expect("it ends").expect("it was sent");
            one + run_beside(async { 1 }).await.expect("it ends")
        });
        let guest = tokio::spawn(guest);
        thread::spawn(move || sender.send(41));
        assert_eq!(guest.await.expect("no panic in it"), 42);
    }

    #[tokio::test]
    async fn calls_at_the_same_time_end_in_any_order_and_one_call_follows_them() {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let guest = GuestWithCalls::new(async move {
            let calls = receivers.into_iter().map(run_beside);
            let mut ended: FuturesUnordered<_> = calls.collect();
            let mut order = Vec::new();
            while let Some(end) = ended.next().await {
                order.push(end.expect("it ends").expect("it was sent"));
            }
            order.push(run_beside(async { 7 }).await.expect("it ends"));
            order
        });
        let guest = tokio::spawn(guest);
        for (at, sender) in senders.into_iter().enumerate().rev() {
            sender.send(at).expect("the guest waits");
            tokio::task::yield_now().await;
        }
        assert_eq!(guest.await.expect("no panic in it"), [2, 1, 0, 7]);
    }

    #[tokio::test]
    async fn a_call_that_panics_is_lost_and_its_guest_goes_on() {
        let ended = GuestWithCalls::new(async {
            let lost = run_beside(async { assert!(thread::panicking(), "on purpose") }).await;
            (matches!(lost, Err(Lost::Panicked)), run_beside(async { 1 }).await.is_ok())
        });
        assert_eq!(ended.await, (true, true));
    }

    #[tokio::test]
    async fn a_call_is_stopped_with_its_guest_and_with_the_future_that_waits_for_it() {
        let held = Arc::new(());
        let mut guest = Box::pin(GuestWithCalls::new(run_beside(endless(held.clone()))));
        assert!((&mut guest).now_or_never().is_none());
        assert_eq!(Arc::strong_count(&held), 2);
        drop(guest);
        assert_eq!(Arc::strong_count(&held), 1);

        let other = held.clone();
        let guest = GuestWithCalls::new(async move {
            let mut waits = Box::pin(run_beside(endless(other.clone())));
            let mut polls = 0;
            poll_fn(|context| {
                polls += 1;
                if polls < 3 {
                    assert!(waits.as_mut().poll(context).is_pending());
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            drop(waits);
            run_beside(async {}).await.expect("it ends");
            Arc::strong_count(&other)
        });
        assert_eq!(guest.await, 2, "the test and the guest hold it, the call does not");
    }

    async fn endless(held: Arc<()>) {
        pending::<()>().await;
        drop(held);
    }
}
