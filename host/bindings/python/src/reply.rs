//! Calls of `async def` functions on an event loop, and their ends.

use std::sync::Arc;

use airlock_binding::{FunctionCall, FunctionError, stopped_error};
use parking_lot::Mutex;
use pyo3::{intern, prelude::*, sync::PyOnceLock};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    caller::ScriptCaller,
    convert::to_json,
    function::{PreparedCall, attached},
    interrupt::{Interrupt, is_interrupt},
};

/// Takes the end of a call, on the thread of the event loop.
#[pyclass(frozen, module = "airlock._airlock", name = "Reply")]
pub(crate) struct CallReply(Mutex<Option<oneshot::Sender<PyResult<Value>>>>);

#[pymethods]
impl CallReply {
    /// Takes the result of the function.
    fn succeed(&self, result: &Bound<'_, PyAny>) {
        self.end(to_json(result));
    }

    /// Takes the exception of the function.
    fn fail(&self, error: &Bound<'_, PyAny>) {
        self.end(Err(PyErr::from_value(error.clone())));
    }
}

impl CallReply {
    fn end(&self, ended: PyResult<Value>) {
        if let Some(sender) = self.0.lock().take() {
            // A receiver that is gone has cancelled the call.
            let _ = sender.send(ended);
        }
    }
}

/// A call on an event loop. Dropping it cancels the call.
pub(crate) struct LoopCall {
    /// `None` once it has ended.
    call: Option<Py<PyAny>>,
    ended: oneshot::Receiver<PyResult<Value>>,
    /// Receives the exception of a signal that arrives while the call is cancelled.
    interrupt: Option<Arc<Interrupt>>,
}

impl LoopCall {
    /// Begins a call, in a copy of a context. Fails if the event loop is closed.
    pub(crate) fn begin(
        py: Python<'_>,
        event_loop: Option<&Py<PyAny>>,
        context: &Py<PyAny>,
        (function, arguments): PreparedCall<'_>,
        interrupt: Option<Arc<Interrupt>>,
    ) -> PyResult<Self> {
        static CALL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let (sender, ended) = oneshot::channel();
        let class = CALL.import(py, "airlock._loop", "Call")?;
        let reply = Py::new(py, CallReply(Mutex::new(Some(sender))))?;
        let call = class.call1((event_loop, context, function, arguments, reply))?;
        Ok(Self { call: Some(call.unbind()), ended, interrupt })
    }

    /// Waits for the end; `None` if the event loop has gone.
    pub(crate) async fn end(mut self) -> Option<PyResult<Value>> {
        let ended = (&mut self.ended).await;
        self.call = None;
        ended.ok()
    }
}

impl Drop for LoopCall {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let raised = Python::try_attach(|py| cancelled(py, &call));
            if let (Some(Some(raised)), Some(interrupt)) = (raised, &self.interrupt) {
                interrupt.raise(raised);
            }
        }
    }
}

/// Cancels a call. Returns the exception of a signal that arrives meanwhile.
fn cancelled(py: Python<'_>, call: &Py<PyAny>) -> Option<PyErr> {
    let cancel = intern!(py, "cancel");
    let raised = call.call_method0(py, cancel).err()?;
    if !is_interrupt(py, &raised) {
        return None;
    }
    // It may have arrived before the event loop was told. A second cancellation does nothing.
    let _ = call.call_method0(py, cancel);
    Some(raised)
}

/// Calls an `async def` function, and waits for its end. Dropping the future cancels the call.
pub(crate) async fn reply(
    caller: Arc<ScriptCaller>,
    tool: usize,
    call: FunctionCall,
) -> Result<Value, FunctionError> {
    let id = call.id();
    let begun = attached(|py| {
        let prepared = caller.prepared(py, tool, call.arguments());
        prepared
            .and_then(|prepared| {
                let interrupt = Some(caller.interrupt().clone());
                LoopCall::begin(py, caller.event_loop(), caller.context(), prepared, interrupt)
            })
            .map_err(|error| caller.failed(py, id, error))
    })?;
    match begun.end().await {
        Some(Ok(result)) => Ok(result),
        Some(Err(error)) => attached(|py| Err(caller.failed(py, id, error))),
        None => Err(stopped_error()),
    }
}
