//! Wake-ups of work that its task polls itself, such as a connection or a stream.
//!
//! A task polls all its work whenever one part of it is woken. Most of these polls find nothing to do, and each takes
//! locks, registers timers and passes through all futures of the work. Other wake-ups are caused by the task itself, which
//! polls the work before it waits.
//!
//! ```text
//! task ─poll_if_woken─▶ work ─▶ socket, timer, queue
//!   ▲                                   │
//!   └────────────── WakeUps ◀───────────┘ noted, and passed on: at once, or at the end of `hold`
//! ```

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

thread_local! {
    /// True while this thread holds wake-ups.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
    /// The task whose wake-up this thread holds.
    static HELD: Cell<Option<Arc<PollingTask>>> = const { Cell::new(None) };
}

/// The wake-ups of some work. They go to the task that has polled it last.
pub struct WakeUps {
    task: Arc<PollingTask>,
    /// Waker of the work, which wakes `task`.
    waker: Waker,
}

impl WakeUps {
    /// Polls the work by `poll`.
    pub fn poll<T>(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.task.register(context.waker());
        poll(&mut Context::from_waker(&self.waker))
    }

    /// Polls the work by `poll`. Returns `Pending` without a poll if the last poll by this method returned it and
    /// no wake-up has come since.
    pub fn poll_if_woken<T>(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if !self.task.register(context.waker()) {
            return Poll::Pending;
        }
        let polled = poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            self.task.is_due.store(true, Ordering::Release);
        }
        polled
    }

    /// Forgets the task that has polled the work last: it is not woken, and its memory is not kept.
    pub fn forget_task(&self) {
        drop(self.task.waker.take());
    }
}

impl Default for WakeUps {
    /// Creates the wake-ups of work that was not polled yet.
    fn default() -> Self {
        let task =
            Arc::new(PollingTask { waker: AtomicWaker::new(), is_due: AtomicBool::new(true) });
        Self { waker: Waker::from(task.clone()), task }
    }
}

/// The task that polls some work.
struct PollingTask {
    waker: AtomicWaker,
    /// True if the work is to be polled: it was woken since it was polled, was ready then, or was never polled.
    is_due: AtomicBool,
}

impl PollingTask {
    /// Sets the waker of the task, which is about to poll the work. Returns whether it was due.
    fn register(&self, waker: &Waker) -> bool {
        // Set before the wake-ups are read: one that comes afterwards wakes the task.
        self.waker.register(waker);
        // Most polls find none, and only one that does changes the flag: that takes as long as twenty reads.
        self.is_due.load(Ordering::Acquire) && self.is_due.swap(false, Ordering::AcqRel)
    }

    /// Wakes the task, also while this thread holds wake-ups. It may be other work, whose wake-up is then passed on and
    /// not held.
    fn wake_now(&self) {
        let holds = HOLDS.replace(false);
        self.waker.wake();
        HOLDS.set(holds);
    }
}

impl Wake for PollingTask {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        if !HOLDS.get() {
            self.waker.wake();
            return;
        }
        if let Some(other) = HELD.replace(Some(self.clone()))
            && !Arc::ptr_eq(&other, self)
        {
            other.wake_now();
        }
    }
}

/// Runs `act`, and holds the wake-up of one work that this thread causes meanwhile. It is delivered when `act` returns or
/// panics, unless `act` discards it. Wake-ups by other threads are not held.
pub fn hold<T>(act: impl FnOnce(&HeldWakeUp) -> T) -> T {
    let held = HeldWakeUp::begin();
    act(&held)
}

/// The wake-up that [`hold`] holds.
pub struct HeldWakeUp(());

impl HeldWakeUp {
    fn begin() -> Self {
        // That of an enclosing call is delivered early.
        if HOLDS.replace(true) {
            deliver();
        }
        Self(())
    }

    /// Leaves out the wake-up so far: its task polls the work before it waits. The work counts as woken.
    pub fn discard(&self) {
        drop(HELD.take());
    }
}

impl Drop for HeldWakeUp {
    fn drop(&mut self) {
        HOLDS.set(false);
        deliver();
    }
}

/// Delivers the wake-up that this thread holds.
fn deliver() {
    if let Some(task) = HELD.take() {
        task.wake_now();
    }
}

/// A task for tests, which counts its wake-ups.
#[doc(hidden)]
#[derive(Default)]
pub struct CountedWakes(AtomicUsize);

impl CountedWakes {
    /// Returns their number since the last call.
    pub fn taken(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        thread,
    };

    use super::*;

    /// Work that keeps its waker.
    #[derive(Default)]
    struct PolledWork {
        wakes: WakeUps,
        polls: usize,
        waker: Option<Waker>,
    }

    impl PolledWork {
        /// Polls the work if it was woken; a poll returns `result`.
        fn poll_if_woken(&mut self, task: &Arc<CountedWakes>, result: Poll<()>) -> Poll<()> {
            let Self { wakes, polls, waker } = self;
            let task = Waker::from(task.clone());
            wakes.poll_if_woken(&mut Context::from_waker(&task), |context| {
                *polls += 1;
                *waker = Some(context.waker().clone());
                result
            })
        }

        fn wake(&self) {
            self.waker.as_ref().expect("it was polled").wake_by_ref();
        }
    }

    /// Returns work that waits, and its task.
    fn waiting_work() -> (PolledWork, Arc<CountedWakes>) {
        let mut work = PolledWork::default();
        let task = Arc::<CountedWakes>::default();
        assert!(work.poll_if_woken(&task, Poll::Pending).is_pending());
        (work, task)
    }

    #[test]
    fn work_that_waits_is_polled_again_only_after_a_wake_up() {
        let (mut work, task) = waiting_work();
        for _ in 0..2 {
            assert!(work.poll_if_woken(&task, Poll::Ready(())).is_pending());
        }
        assert_eq!(work.polls, 1);
        work.wake();
        assert_eq!(task.taken(), 1);
        assert!(work.poll_if_woken(&task, Poll::Ready(())).is_ready());
        // Work that was ready is polled without a wake-up.
        assert!(work.poll_if_woken(&task, Poll::Pending).is_pending());
        assert!(work.poll_if_woken(&task, Poll::Pending).is_pending());
        assert_eq!(work.polls, 3);
        let mut context = Context::from_waker(Waker::noop());
        assert!(work.wakes.poll(&mut context, |_| Poll::Ready(())).is_ready());
    }

    #[test]
    fn a_wake_up_reaches_the_task_that_has_polled_last_unless_it_is_forgotten() {
        let (mut work, first) = waiting_work();
        let second = Arc::<CountedWakes>::default();
        assert!(work.poll_if_woken(&second, Poll::Pending).is_pending());
        work.wake();
        assert_eq!(first.taken(), 0);
        assert_eq!(second.taken(), 1);
        assert!(work.poll_if_woken(&second, Poll::Pending).is_pending());
        work.wakes.forget_task();
        work.wake();
        assert_eq!(second.taken(), 0);
        assert!(work.poll_if_woken(&first, Poll::Ready(())).is_ready(), "it was woken");
    }

    #[test]
    fn a_held_wake_up_is_delivered_at_the_end_unless_it_is_discarded() {
        let (mut work, task) = waiting_work();
        hold(|_| {
            work.wake();
            work.wake();
            assert_eq!(task.taken(), 0);
        });
        assert_eq!(task.taken(), 1);
        assert!(work.poll_if_woken(&task, Poll::Pending).is_pending());
        hold(|held| {
            work.wake();
            held.discard();
        });
        assert_eq!(task.taken(), 0);
        assert!(work.poll_if_woken(&task, Poll::Ready(())).is_ready(), "it was woken");
        work.wake();
        assert_eq!(task.taken(), 1, "nothing is held afterwards");
    }

    #[test]
    fn a_wake_up_by_another_thread_is_never_held() {
        let (work, task) = waiting_work();
        hold(|held| {
            thread::scope(|scope| {
                scope.spawn(|| work.wake());
            });
            assert_eq!(task.taken(), 1);
            held.discard();
        });
    }

    #[test]
    fn of_several_works_only_the_one_that_was_woken_last_is_held() {
        let (first, first_task) = waiting_work();
        let (second, second_task) = waiting_work();
        let (third, third_task) = waiting_work();
        hold(|held| {
            first.wake();
            second.wake();
            assert_eq!(first_task.taken(), 1);
            hold(|held| {
                assert_eq!(second_task.taken(), 1, "it is not lost by the inner call");
                held.discard();
            });
            third.wake();
            assert_eq!(third_task.taken(), 1, "the inner call ends the outer one");
            held.discard();
        });
    }

    /// Returns work that other work polls, and that waits.
    fn waiting_within(outer: &PolledWork) -> PolledWork {
        let PolledWork { wakes, polls, .. } = PolledWork::default();
        let mut waker = None;
        let task = outer.waker.as_ref().expect("it was polled");
        let polled = wakes.poll_if_woken(&mut Context::from_waker(task), |context| {
            waker = Some(context.waker().clone());
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        PolledWork { wakes, polls, waker }
    }

    #[test]
    fn a_wake_up_that_is_delivered_early_passes_through_the_work_around() {
        for nests in [false, true] {
            let (outer, task) = waiting_work();
            let inner = waiting_within(&outer);
            let (other, _other_task) = waiting_work();
            hold(|held| {
                inner.wake();
                if nests {
                    hold(HeldWakeUp::discard);
                } else {
                    other.wake();
                    held.discard();
                }
            });
            assert_eq!(task.taken(), 1, "nests: {nests}");
        }
    }

    #[test]
    fn a_panic_delivers_what_is_held() {
        let (mut work, task) = waiting_work();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            hold(|_| {
                work.wake();
                assert_eq!(task.taken(), 1, "it is held, so this panics");
            });
        }));
        assert!(ended.is_err());
        assert_eq!(task.taken(), 1);
        assert!(work.poll_if_woken(&task, Poll::Pending).is_pending());
        work.wake();
        assert_eq!(task.taken(), 1, "nothing is held afterwards");
    }
}
