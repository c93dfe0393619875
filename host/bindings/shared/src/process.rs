//! The runtime and the sandbox of the process.
//!
//! A fork copies memory and not threads. A runtime whose threads are missing would wait for ever, so the
//! child of a fork makes its own, and leaks its parent's: dropping it would wait for those threads too. A thread
//! that runs a script at the moment of a fork may hold a lock, which nothing unlocks in the child. So its binding
//! calls [`HostRuntime::forked`] there, and a child that could wait for ever runs nothing.
//!
//! An interpreter ends each thread that enters it after its end, in the middle of whatever it does. So its binding
//! calls [`HostRuntime::close`] before that.

use std::{
    cell::Cell,
    mem, process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, available_parallelism},
    time::Duration,
};

use airlock_runner::{Runner, RunnerSettings};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::{BindingFailure, FunctionThreads};

static RUNTIME: Mutex<Option<Arc<HostRuntime>>> = Mutex::new(None);
static CURRENT: Mutex<Option<Arc<HostProcess>>> = Mutex::new(None);

/// Scripts that run now.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// True in the child of a fork that may lack a thread with a lock.
static IS_UNUSABLE: AtomicBool = AtomicBool::new(false);
/// True at the end of the program: no further work is begun, also if there was none before.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Scripts that run on this thread: it waits in their tools if it forks.
    static RUNNING_HERE: Cell<usize> = const { Cell::new(0) };
}

/// Plain functions of the program that run on threads of the runtime at the same time; others wait. A script may call
/// 1,000 at once, and each takes a thread. As many as tokio has threads for work that blocks, by default.
const MAX_FUNCTIONS: usize = 512;
/// Further plain functions at each level of functions that others wait for: with the 15 levels of [`FunctionThreads`], 120
/// threads. One at each level would suffice to resume the functions that wait.
const MAX_NESTED_FUNCTIONS: usize = 8;
/// Threads of the runtime for other work that blocks.
const OTHER_THREADS: usize = 128;

/// Longest wait for the threads of the runtime at the end of the program: a tool that blocks one does not
/// keep the program.
const CLOSING: Duration = Duration::from_secs(5);
/// Time in which a thread that polls a run notices that the runtime closes: it runs a guest for less.
const NOTICE: Duration = Duration::from_millis(50);

/// Counts a script that runs, as long as it lives.
#[must_use]
pub struct RunningScript {
    is_here: bool,
}

impl RunningScript {
    /// Counts a script that runs as a task.
    pub fn apart() -> Self {
        RUNNING.fetch_add(1, Ordering::AcqRel);
        Self { is_here: false }
    }

    /// Counts a script that runs on this thread until this is dropped, also on this thread.
    pub fn here() -> Self {
        RUNNING_HERE.set(RUNNING_HERE.get() + 1);
        RUNNING.fetch_add(1, Ordering::AcqRel);
        Self { is_here: true }
    }
}

impl Drop for RunningScript {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        if self.is_here {
            RUNNING_HERE.set(RUNNING_HERE.get() - 1);
        }
    }
}

/// The runtime that all runs and gateways of this process share.
pub struct HostRuntime {
    id: u32,
    handle: Handle,
    function_threads: FunctionThreads,
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
        Self::check_fork()?;
        let mut current = RUNTIME.lock();
        if let Some(runtime) = current.as_ref().filter(|runtime| runtime.is_this()) {
            return runtime.opened();
        }
        if IS_CLOSED.load(Ordering::Acquire) {
            return Err(at_its_end());
        }
        let made = Arc::new(Self::new()?);
        // Never dropped, see above.
        mem::forget(current.replace(made.clone()));
        Ok(made)
    }

    fn new() -> Result<Self, BindingFailure> {
        let threads = available_parallelism().map_or(2, |cores| cores.get().max(2));
        let functions = FunctionThreads::total(MAX_FUNCTIONS, MAX_NESTED_FUNCTIONS);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(functions + OTHER_THREADS)
            .thread_name("airlock")
            .enable_all()
            .build()
            .map_err(|error| BindingFailure::unavailable(&error))?;
        let handle = runtime.handle().clone();
        let is_closing = AtomicBool::new(false);
        Ok(Self {
            id: process::id(),
            handle,
            function_threads: FunctionThreads::new(MAX_FUNCTIONS, MAX_NESTED_FUNCTIONS),
            is_closing,
            runtime: Mutex::new(Some(runtime)),
        })
    }

    /// Drops all runs of this process, and waits until no thread of the runtime runs, for at most five seconds.
    /// Nothing can be run afterwards. For the end of a program; the caller must not hold a lock that running tools
    /// wait for, such as that of an interpreter.
    pub fn close() {
        // Set before the lock is taken: a runtime is made under the lock.
        IS_CLOSED.store(true, Ordering::Release);
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
        if self.is_closing() { Err(at_its_end()) } else { Ok(self.clone()) }
    }

    /// Returns the handle of that of this process; `None` if there is none, or if another thread makes it at this moment.
    pub(crate) fn running() -> Option<Handle> {
        let current = RUNTIME.try_lock()?;
        let runtime = current.as_ref().filter(|runtime| runtime.is_this() && !runtime.is_closing());
        runtime.map(|runtime| runtime.handle.clone())
    }

    /// Takes note of a fork, in its child. If other threads ran scripts, the child can run nothing.
    pub fn forked() {
        let here = RUNNING_HERE.get();
        if RUNNING.swap(here, Ordering::AcqRel) > here {
            IS_UNUSABLE.store(true, Ordering::Release);
        }
    }

    /// Fails in the child of a fork that may wait for ever for a lock of a thread that it does not have.
    pub fn check_fork() -> Result<(), BindingFailure> {
        if !IS_UNUSABLE.load(Ordering::Acquire) {
            return Ok(());
        }
        let message = "this process was forked while another thread of its parent ran a script, whose locks it cannot \
                       unlock; fork before the first script, or start processes with `spawn`";
        Err(BindingFailure::Unavailable(message.into()))
    }

    /// Returns whether this process made it, and not the parent of a fork.
    pub fn is_this(&self) -> bool {
        self.id == process::id()
    }

    /// Fails in the child of a fork of the process that made it.
    pub fn check_process(&self) -> Result<(), BindingFailure> {
        if self.is_this() {
            return Ok(());
        }
        let forked = "the gateway belongs to another process, of which this is a fork";
        Err(BindingFailure::stopped(forked))
    }

    /// Returns whether the program ends: a future that uses timers must not be polled any more.
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Returns its handle.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns its threads for plain functions of the program.
    pub fn function_threads(&self) -> &FunctionThreads {
        &self.function_threads
    }
}

impl HostProcess {
    /// Returns those of this process, which the first call makes. Fails if the operating system has no
    /// threads or memory for them.
    ///
    /// The caller must hold a lock that a fork waits for, such as that of an interpreter: a fork during this
    /// call would leave the child with a lock that nothing unlocks.
    pub fn current(settings: impl FnOnce() -> RunnerSettings) -> Result<Arc<Self>, BindingFailure> {
        HostRuntime::check_fork()?;
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

/// Returns the failure of work that is begun after [`HostRuntime::close`].
fn at_its_end() -> BindingFailure {
    BindingFailure::Cancelled("the program is at its end: nothing can be run".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the counts are those of the process.
    #[test]
    fn a_child_is_unusable_if_another_thread_ran_a_script() {
        let own = RunningScript::here();
        HostRuntime::forked();
        HostRuntime::check_fork().expect("the thread that forks has no lock");
        let other = RunningScript::apart();
        drop(RunningScript::apart());
        HostRuntime::forked();
        assert!(HostRuntime::check_fork().is_err());
        let refused = HostRuntime::current().err();
        assert!(matches!(refused, Some(BindingFailure::Unavailable(_))), "{refused:?}");
        // It is not here: `forked` has taken it from the count.
        mem::forget(other);
        drop(own);
        assert_eq!((RUNNING.load(Ordering::Acquire), RUNNING_HERE.get()), (0, 0));
        IS_UNUSABLE.store(false, Ordering::Release);
    }
}
