//! Runs of scripts, as Python objects and functions.

use std::{sync::Arc, thread};

use airlock_binding::{
    BindingFailure, BindingRun, HostProcess, HostRuntime, RunRequest, RunnerSettings, WaitingRun,
    flush_log, read_dump, script_language,
};
use pyo3::{
    PyTraverseError, PyVisit,
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    caller::{CallerPlace, CallerSide, ScriptCaller},
    convert::{to_dict, to_object, to_python},
    drive::drive,
    log::log_compiling,
    raise::{raise, raise_from},
    tools::{CheckedLimits, ToolSet},
};

/// A script as the package passes it: code, inputs, language, limits, and whether a finished run keeps its
/// journal.
pub(crate) type ScriptFields = (String, Option<Py<PyAny>>, String, Option<Py<CheckedLimits>>, bool);

/// A run that is finished, or that waits for decisions.
#[pyclass(frozen, module = "airlock._airlock", name = "NativeRun")]
pub(crate) struct RunHandle {
    run: BindingRun,
    /// The tools of a run that waits.
    tools: Option<Py<ToolSet>>,
}

#[pymethods]
impl RunHandle {
    fn is_done(&self) -> bool {
        self.run.finished().is_some()
    }

    /// Returns the value of the script; `None` if it has none.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let finished = self.run.finished();
        let value = finished.as_ref().and_then(|finished| finished.value.as_ref());
        value.map(|value| to_python(py, value)).transpose()
    }

    fn output(&self) -> String {
        self.run.output()
    }

    fn pending<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u32, String, Bound<'py, PyDict>)>> {
        let calls = self.run.pending().into_iter();
        calls.map(|(id, tool, arguments)| Ok((id, tool, to_dict(py, &arguments)?))).collect()
    }

    /// Returns fuel, bytes of memory, and calls of a finished run.
    fn usage(&self) -> Option<(u64, u64, u32)> {
        let finished = self.run.finished()?;
        Some((finished.fuel, finished.peak_memory, finished.calls))
    }

    #[pyo3(signature = (ids))]
    fn approve(&self, py: Python<'_>, ids: Option<Vec<u32>>) -> PyResult<()> {
        self.run.approve(ids).map_err(|failure| raise(py, &failure))
    }

    #[pyo3(signature = (ids, reason))]
    fn deny(&self, py: Python<'_>, ids: Option<Vec<u32>>, reason: &str) -> PyResult<()> {
        self.run.deny(ids, reason).map_err(|failure| raise(py, &failure))
    }

    fn dump<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let dump = self.run.dump().map_err(|failure| raise(py, &failure))?;
        Ok(PyBytes::new(py, dump.as_bytes()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.tools)
    }
}

impl RunHandle {
    /// Takes what is needed to resume the run.
    pub(crate) fn take_waiting(&self, py: Python<'_>) -> PyResult<(WaitingRun, Py<ToolSet>)> {
        let waiting = self.run.take_waiting().and_then(|waiting| {
            let tools = self.tools.as_ref().ok_or_else(BindingFailure::used_up)?;
            Ok((waiting, tools.clone_ref(py)))
        });
        waiting.map_err(|failure| raise(py, &failure))
    }
}

/// Runs a script on this thread, until it is finished or waits.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    tools: &Bound<'_, ToolSet>,
    script: ScriptFields,
    place: CallerPlace,
) -> PyResult<RunHandle> {
    let process = process(py)?;
    let caller = caller_on_this_thread(process.host(), tools.clone().unbind(), place);
    let request = request(py, script, &caller)?;
    let pool = tools.get().pool.clone();
    let running = BindingRun::start(process.clone(), pool, caller.clone(), request);
    let ended = drive(py, process.host(), caller.interrupt(), running)?;
    ended_run(py, ended, tools.as_unbound(), &caller)
}

/// Resumes a run on this thread, until it is finished or waits again.
#[pyfunction]
pub(crate) fn resume(py: Python<'_>, run: &RunHandle, place: CallerPlace) -> PyResult<RunHandle> {
    let process = process(py)?;
    let (waiting, tools) = run.take_waiting(py)?;
    let caller = caller_on_this_thread(process.host(), tools.clone_ref(py), place);
    let waiting = called_by(waiting, &caller);
    let running = BindingRun::resume(process.clone(), waiting, caller.clone());
    let ended = drive(py, process.host(), caller.interrupt(), running)?;
    ended_run(py, ended, &tools, &caller)
}

/// Ends all runs before the interpreter does: a thread that enters the interpreter after that crashes the process.
#[pyfunction]
pub(crate) fn close(py: Python<'_>) {
    // Running tools need the interpreter's lock to end.
    py.detach(|| {
        HostRuntime::close();
        flush_log();
    });
}

/// Takes note of a fork, in its child.
#[pyfunction]
pub(crate) fn forked() {
    HostRuntime::forked();
}

/// Loads a run that waits.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, dump: &[u8], tools: &Bound<'_, ToolSet>) -> PyResult<RunHandle> {
    let pool = tools.get().pool.clone();
    // A large dump takes a second.
    let loaded = py.detach(|| BindingRun::load(dump, &pool));
    let run = loaded.map_err(|failure| raise(py, &failure))?;
    Ok(RunHandle { run, tools: Some(tools.clone().unbind()) })
}

/// Runs the script of a finished run again, from its journal alone.
#[pyfunction]
pub(crate) fn replay(py: Python<'_>, dump: &[u8]) -> PyResult<RunHandle> {
    let process = process(py)?;
    let dump = py.detach(|| read_dump(dump)).map_err(|failure| raise(py, &failure))?;
    let replaying = BindingRun::replay(process.clone(), dump);
    let ended = drive(py, process.host(), &Arc::default(), replaying)?;
    let run = ended.map_err(|failure| raise(py, &failure))?;
    Ok(RunHandle { run, tools: None })
}

/// Returns the runtime and the sandbox of this process.
pub(crate) fn process(py: Python<'_>) -> PyResult<Arc<HostProcess>> {
    HostProcess::current(settings).map_err(|failure| raise(py, &failure))
}

fn settings() -> RunnerSettings {
    RunnerSettings { on_compile: Some(Arc::new(log_compiling)), ..RunnerSettings::default() }
}

fn caller_on_this_thread(
    host: &HostRuntime,
    tools: Py<ToolSet>,
    place: CallerPlace,
) -> Arc<ScriptCaller> {
    let side = CallerSide::Thread(thread::current().id());
    ScriptCaller::new(tools, host.function_threads().clone(), place, side)
}

/// Converts a script to a request.
pub(crate) fn request(
    py: Python<'_>,
    script: ScriptFields,
    caller: &Arc<ScriptCaller>,
) -> PyResult<RunRequest> {
    let (code, inputs, language, limits, has_journal) = script;
    let language = script_language(&language).map_err(|failure| raise(py, &failure))?;
    let mut request = RunRequest::new(language, code);
    if let Some(inputs) = inputs {
        request.inputs = to_object(inputs.bind(py))?;
    }
    if let Some(limits) = limits {
        request.limits = limits.get().0;
    }
    if let Some(printer) = caller.printer() {
        request = request.with_on_print(printer);
    }
    request.journal = has_journal;
    Ok(request.with_nesting(caller.nesting()))
}

/// Gives a run that is resumed to its new caller, which receives its printed text.
pub(crate) fn called_by(waiting: WaitingRun, caller: &Arc<ScriptCaller>) -> WaitingRun {
    let waiting = waiting.with_nesting(caller.nesting());
    match caller.printer() {
        Some(printer) => waiting.with_on_print(printer),
        None => waiting,
    }
}

/// Returns a run that has ended, or the exception that it ended with.
pub(crate) fn ended_run(
    py: Python<'_>,
    ended: Result<BindingRun, BindingFailure>,
    tools: &Py<ToolSet>,
    caller: &ScriptCaller,
) -> PyResult<RunHandle> {
    match ended {
        Ok(run) => {
            let tools = run.finished().is_none().then(|| tools.clone_ref(py));
            Ok(RunHandle { run, tools })
        }
        Err(failure) => Err(raise_from(py, &failure, |call| caller.take_raised(call))),
    }
}
