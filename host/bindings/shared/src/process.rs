//! The runtime and the sandbox of the process.
//!
//! A fork copies memory and not threads. A runtime whose threads are missing would wait for ever, so the
//! child of a fork makes its own, and leaks its parent's: dropping it would wait for those threads too.
//!
//! An interpreter ends each thread that enters it after its end, in the middle of whatever it does. So its binding
//! calls [`HostRuntime::close`] before that.

use std::{
    mem, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, available_parallelism},
    time::Duration,
};

use airlock_runner::{Runner, RunnerSettings};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::BindingFailure;

static RUNTIME: Mutex<Option<Arc<HostRuntime>>> = Mutex::new(None);
static CURRENT: Mutex<Option<Arc<HostProcess>>> = Mutex::new(None);

/// Longest wait for the threads of the runtime at the end of the program: a tool that blocks one does not
/// keep the program.
const CLOSING: Duration = Duration::from_secs(5);
/// Time in which a thread that polls a run notices that the runtime closes: it runs a guest for less.
const NOTICE: Duration = Duration::from_millis(50);

/// The runtime that all runs and gateways of this process share.
pub struct HostRuntime {
    id: u32,
    handle: Handle,
    is_closing: AtomicBool,
    /// `None` once it is closed.
    runtime: Mutex<Option<Runtime>>,
}

/// The sandbox that all runs of this process share, with its runtime.
pub struct HostProcess {
    runtime: Arc<HostRuntime>,
    runner: Runner,
}

impl HostRuntime {
    /// Returns that of this process, which the first call makes. Fails if the operating system has no threads
    /// for it. The caller must hold a lock, as that of [`HostProcess::current`].
    pub fn current() -> Result<Arc<Self>, BindingFailure> {
        let mut current = RUNTIME.lock();
        if let Some(runtime) = current.as_ref().filter(|runtime| runtime.is_this()) {
            return runtime.opened();
        }
        let made = Arc::new(Self::new()?);
        // Never dropped, see above.
        mem::forget(current.replace(made.clone()));
        Ok(made)
    }

    fn new() -> Result<Self, BindingFailure> {
        let threads = available_parallelism().map_or(2, |cores| cores.get().max(2));
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("airlock")
            .enable_all()
            .build()
            .map_err(|error| BindingFailure::unavailable(&error))?;
        let handle = runtime.handle().clone();
        let is_closing = AtomicBool::new(false);
        Ok(Self { id: process::id(), handle, is_closing, runtime: Mutex::new(Some(runtime)) })
    }

    /// Drops all runs of this process, and waits until no thread of the runtime runs, for at most five seconds.
    /// Nothing can be run afterwards. For the end of a program; the caller must not hold a lock that running tools
    /// wait for, such as that of an interpreter.
    pub fn close() {
        let current = RUNTIME.lock().clone().filter(|runtime| runtime.is_this());
        let Some(current) = current else { return };
        current.is_closing.store(true, Ordering::Release);
        thread::sleep(NOTICE);
        if let Some(runtime) = current.runtime.lock().take() {
            runtime.shutdown_timeout(CLOSING);
        }
    }

    /// Returns it, unless it is closed.
    fn opened(self: &Arc<Self>) -> Result<Arc<Self>, BindingFailure> {
        if !self.is_closing() {
            return Ok(self.clone());
        }
        Err(BindingFailure::Cancelled("the program is at its end: nothing can be run".into()))
    }

    /// Returns whether this process made it, and not the parent of a fork.
    pub fn is_this(&self) -> bool {
        self.id == process::id()
    }

    /// Returns whether the program ends: a future that uses timers must not be polled any more.
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Returns its handle.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl HostProcess {
    /// Returns those of this process, which the first call makes. Fails if the operating system has no
    /// threads or memory for them.
    ///
    /// The caller must hold a lock that a fork waits for, such as that of an interpreter: a fork during this
    /// call would leave the child with a lock that nothing unlocks.
    pub fn current(settings: impl FnOnce() -> RunnerSettings) -> Result<Arc<Self>, BindingFailure> {
        let mut current = CURRENT.lock();
        if let Some(process) = current.as_ref().filter(|process| process.host().is_this()) {
            return process.runtime.opened().map(|_| process.clone());
        }
        let made = Arc::new(Self::new(settings())?);
        // Never dropped, see above.
        mem::forget(current.replace(made.clone()));
        Ok(made)
    }

    fn new(settings: RunnerSettings) -> Result<Self, BindingFailure> {
        let runtime = HostRuntime::current()?;
        let runner = {
            let _runtime = runtime.handle().enter();
            Runner::new(settings)?
        };
        Ok(Self { runtime, runner })
    }

    /// Returns the runtime.
    pub fn host(&self) -> &HostRuntime {
        &self.runtime
    }

    /// Returns the handle of the runtime, which every run needs for its timers.
    pub fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    pub(crate) fn runner(&self) -> Runner {
        self.runner.clone()
    }
}
