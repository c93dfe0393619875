//! Polls a run, or work of a gateway, on the thread of its caller.
//!
//! The runtime is there for timers and other threads alone: a run that waits for nothing never leaves its
//! thread. The thread is not in the runtime, so a tool may run another script on it.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use airlock_binding::{BindingFailure, HostRuntime, RunningScript};
use pyo3::prelude::*;

use crate::{interrupt::Interrupt, raise::raise};

/// Time between two checks for signals: `KeyboardInterrupt` ends a script within it.
const SIGNALS: Duration = Duration::from_millis(20);

/// Wakes the thread that polls.
struct ParkedThread {
    thread: Thread,
    is_woken: AtomicBool,
}

impl ParkedThread {
    /// Waits until it is woken, or until the time.
    fn wait(&self, until: Instant) {
        // A wake-up before this is not lost: the thread does not park then.
        if !self.is_woken.swap(false, Ordering::Acquire) {
            thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
}

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Runs until the future ends, detached from the interpreter. An interrupt, and a signal whose handler raises an
/// exception, ends it and drops the future.
pub(crate) fn drive<T: Send>(
    py: Python<'_>,
    host: &HostRuntime,
    interrupt: &Arc<Interrupt>,
    run: impl Future<Output = T> + Send,
) -> PyResult<T> {
    let ended = py.detach(|| poll_until_ended(host, interrupt.watch(run)));
    // It may have arrived while the calls were cancelled that the run waited for.
    match interrupt.take() {
        Some(raised) => Err(raised),
        None => ended,
    }
}

fn poll_until_ended<T>(host: &HostRuntime, run: impl Future<Output = PyResult<T>>) -> PyResult<T> {
    let _runtime = host.handle().enter();
    let _running = RunningScript::here();
    let parked =
        Arc::new(ParkedThread { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(parked.clone());
    let mut context = Context::from_waker(&waker);
    let mut run = Box::pin(run);
    let mut check_at = Instant::now() + SIGNALS;
    loop {
        if host.is_closing() {
            let ending = BindingFailure::Cancelled("the program is at its end".into());
            return Err(Python::attach(|py| raise(py, &ending)));
        }
        let polled = run.as_mut().poll(&mut context);
        if !host.is_this() {
            // A tool forked, and this is the child. The threads that could unlock what the run uses are
            // those of the parent, so it is not even dropped.
            mem::forget(run);
            let forked = "the process was forked meanwhile, and this is the child";
            let forked = BindingFailure::Cancelled(forked.into());
            return Err(Python::attach(|py| raise(py, &forked)));
        }
        if let Poll::Ready(ended) = polled {
            return ended;
        }
        let now = Instant::now();
        if now >= check_at {
            // Without an interpreter, the program ends.
            let raised = Python::try_attach(|py| py.check_signals().err());
            if let Some(raised) = raised.flatten() {
                return Err(raised);
            }
            check_at = now + SIGNALS;
        }
        parked.wait(check_at);
    }
}
