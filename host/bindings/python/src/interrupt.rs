//! Exceptions that end what a caller waits for: `KeyboardInterrupt`, `SystemExit` and all others that are no `Exception`.
//!
//! A script does not receive them. A function may raise one on another thread than that of its caller, or a handler of a
//! signal on the thread that polls, whatever code of Python runs there at this moment.
//!
//! The functions that a request to a gateway leads to have this place of their caller, and by it the scripts around the request.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Poll, Waker},
};

use parking_lot::Mutex;
use pyo3::{exceptions::PyException, prelude::*};

tokio::task_local! {
    static WAITING: Arc<Interrupt>;
}

/// Place for the exception that ends a run, or work of a gateway.
#[derive(Default)]
pub(crate) struct Interrupt {
    state: Mutex<InterruptState>,
    /// Scripts in each other around the request to a gateway.
    nesting: u32,
}

#[derive(Default)]
struct InterruptState {
    raised: Option<PyErr>,
    /// Wakes the caller.
    waker: Option<Waker>,
}

/// Returns whether an exception ends what the caller waits for.
pub(crate) fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py)
}

impl Interrupt {
    /// Creates that of a request to a gateway, within so many scripts in each other.
    pub(crate) fn within(nesting: u32) -> Self {
        Self { nesting, ..Self::default() }
    }

    /// Returns the number of scripts in each other around the request to a gateway.
    pub(crate) fn nesting(&self) -> u32 {
        self.nesting
    }

    /// Returns that of the caller whose work is polled in this task; `None` if there is none.
    pub(crate) fn of_task() -> Option<Arc<Self>> {
        WAITING.try_with(Clone::clone).ok()
    }

    /// Ends what the caller waits for.
    pub(crate) fn raise(&self, error: PyErr) {
        let mut state = self.state.lock();
        let earlier = state.raised.replace(error);
        let waker = state.waker.take();
        drop(state);
        // Not under the lock, because dropping an exception may run code that waits for the interpreter.
        drop(earlier);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether an exception was raised that the caller has not received.
    pub(crate) fn is_raised(&self) -> bool {
        self.state.lock().raised.is_some()
    }

    /// Takes the exception.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.state.lock().raised.take()
    }

    /// Runs until the future or an exception ends it.
    pub(crate) async fn watch<T>(self: &Arc<Self>, run: impl Future<Output = T>) -> PyResult<T> {
        let mut run = pin!(WAITING.scope(self.clone(), run));
        poll_fn(|context| {
            let polled = run.as_mut().poll(context);
            let mut state = self.state.lock();
            if let Some(raised) = state.raised.take() {
                return Poll::Ready(Err(raised));
            }
            if polled.is_pending() {
                state.waker = Some(context.waker().clone());
            }
            polled.map(Ok)
        })
        .await
    }
}
