//! Runs of scripts beside an event loop, as tasks of the runtime.

use std::{process, sync::Arc};

use airlock_binding::{BindingFailure, BindingRun, HostRuntime, RunningScript};
use pyo3::{intern, prelude::*, sync::PyOnceLock};
use tokio::task::AbortHandle;

use crate::{
    caller::{CallerPlace, CallerSide, ScriptCaller},
    raise::raise,
    run::{self, RunHandle, ScriptFields, called_by, ended_run, request},
    tools::ToolSet,
};

/// A run, or work of a gateway, beside an event loop.
#[pyclass(frozen, module = "airlock._airlock")]
pub(crate) struct SpawnedRun {
    task: AbortHandle,
    /// The process that has the task.
    process: u32,
}

#[pymethods]
impl SpawnedRun {
    /// Stops it, unless it has ended. Does nothing in the child of a fork: this takes locks of the runtime, which threads of
    /// the parent may have held at the fork.
    fn cancel(&self) {
        if self.process == process::id() {
            self.task.abort();
        }
    }
}

impl SpawnedRun {
    pub(crate) fn new(task: AbortHandle) -> Self {
        Self { task, process: process::id() }
    }
}

/// Runs a script as a task. Its end is delivered to the future, on its event loop.
#[pyfunction]
pub(crate) fn spawn_run(
    py: Python<'_>,
    tools: &Bound<'_, ToolSet>,
    script: ScriptFields,
    place: CallerPlace,
    future: Py<PyAny>,
) -> PyResult<SpawnedRun> {
    let process = run::process(py)?;
    let delivery = Delivery::new(py, process.host(), tools.clone().unbind(), place, future);
    let request = request(py, script, &delivery.caller)?;
    let pool = tools.get().pool.clone();
    let running = BindingRun::start(process.clone(), pool, delivery.caller.clone(), request);
    Ok(SpawnedRun::new(process.runtime().spawn(delivery.run(running)).abort_handle()))
}

/// Resumes a run as a task.
#[pyfunction]
pub(crate) fn spawn_resume(
    py: Python<'_>,
    run: &RunHandle,
    place: CallerPlace,
    future: Py<PyAny>,
) -> PyResult<SpawnedRun> {
    let process = run::process(py)?;
    let (waiting, tools) = run.take_waiting(py)?;
    let delivery = Delivery::new(py, process.host(), tools, place, future);
    let waiting = called_by(waiting, &delivery.caller);
    let running = BindingRun::resume(process.clone(), waiting, delivery.caller.clone());
    Ok(SpawnedRun::new(process.runtime().spawn(delivery.run(running)).abort_handle()))
}

/// Delivers the end of a run to a future, also if its task panics: a future that nothing ends would wait
/// for ever.
struct Delivery {
    tools: Py<ToolSet>,
    caller: Arc<ScriptCaller>,
    future: Py<PyAny>,
    is_running: bool,
}

impl Delivery {
    fn new(
        py: Python<'_>,
        host: &HostRuntime,
        tools: Py<ToolSet>,
        place: CallerPlace,
        future: Py<PyAny>,
    ) -> Self {
        let side = CallerSide::EventLoop(future.clone_ref(py));
        let threads = host.function_threads().clone();
        let caller = ScriptCaller::new(tools.clone_ref(py), threads, place, side);
        Self { tools, caller, future, is_running: false }
    }

    /// Returns the task of a run. The run counts from now on, also before its task is polled: the program may fork before,
    /// and a task that is never polled has an end, too.
    fn run(
        mut self,
        run: impl Future<Output = Result<BindingRun, BindingFailure>> + Send,
    ) -> impl Future<Output = ()> + Send {
        self.is_running = true;
        let running = RunningScript::apart();
        async move {
            let ended = self.caller.interrupt().watch(run).await;
            // Before the program learns of it, which may fork then.
            drop(running);
            self.is_running = false;
            // Without an interpreter or with a closed event loop, nothing waits for it.
            let _ = Python::try_attach(|py| {
                let ended = ended.and_then(|run| ended_run(py, run, &self.tools, &self.caller));
                self.deliver(py, ended.and_then(|run| Ok(Py::new(py, run)?.into_any())))
            });
        }
    }

    fn deliver(&self, py: Python<'_>, ended: PyResult<Py<PyAny>>) -> PyResult<()> {
        match self.caller.event_loop() {
            Some(event_loop) => deliver(py, event_loop, &self.future, ended),
            None => Ok(()),
        }
    }
}

/// Ends a future on its event loop. Fails if that is closed.
pub(crate) fn deliver(
    py: Python<'_>,
    event_loop: &Py<PyAny>,
    future: &Py<PyAny>,
    ended: PyResult<Py<PyAny>>,
) -> PyResult<()> {
    static DELIVER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let deliver = DELIVER.import(py, "airlock._loop", "deliver")?;
    let (result, error) = match ended {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error.into_value(py))),
    };
    let schedule = intern!(py, "call_soon_threadsafe");
    event_loop.call_method1(py, schedule, (deliver, future, result, error)).map(drop)
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.is_running {
            let stopped = BindingFailure::Cancelled("the run was stopped".into());
            let _ = Python::try_attach(|py| self.deliver(py, Err(raise(py, &stopped))));
        }
    }
}
