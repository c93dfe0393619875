//! Work of a gateway: done on the thread of its caller, or beside an event loop.

use std::{net::SocketAddr, sync::Arc};

use airlock_binding::{BindingChat, BindingFailure, BindingGateway, HostRuntime, RunningScript};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pyo3::{PyTraverseError, PyVisit, prelude::*, types::PyString};
use serde_json::Value;

use crate::{
    convert::to_python,
    drive::drive,
    gateway::{ChatHandle, GatewayHandle},
    interrupt::Interrupt,
    program::ProgramFunctions,
    raise::raise,
    spawn::{SpawnedRun, deliver},
};

/// Result of work.
pub(crate) enum WorkResult {
    Nothing,
    Json(Value),
    Address(SocketAddr),
    Gateway(BindingGateway),
    Chat(BindingChat),
}

type WorkFuture = BoxFuture<'static, Result<WorkResult, BindingFailure>>;

/// Work that has not begun, or was begun. It is done once.
#[pyclass(frozen, module = "airlock._airlock")]
pub(crate) struct GatewayWork {
    host: Arc<HostRuntime>,
    /// Receives what the functions raise that is for the caller.
    interrupt: Arc<Interrupt>,
    program: Py<ProgramFunctions>,
    /// `None` once it was begun.
    future: Mutex<Option<WorkFuture>>,
}

#[pymethods]
impl GatewayWork {
    /// Does the work on this thread, detached from the interpreter, and returns its result.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let future = self.take(py)?;
        let ended = drive(py, &self.host, &self.interrupt, future)?;
        self.converter(py).convert(py, ended)
    }

    /// Does the work as a task. Its result is delivered to the future, on its event loop.
    fn spawn(
        &self,
        py: Python<'_>,
        event_loop: Py<PyAny>,
        future: Py<PyAny>,
    ) -> PyResult<SpawnedRun> {
        let work = self.take(py)?;
        let converter = self.converter(py);
        let delivery = WorkDelivery { converter, event_loop, future, is_running: true };
        Ok(SpawnedRun::new(self.host.handle().spawn(delivery.run(work)).abort_handle()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.program)
    }
}

impl GatewayWork {
    pub(crate) fn new(
        host: Arc<HostRuntime>,
        interrupt: Arc<Interrupt>,
        program: Py<ProgramFunctions>,
        future: impl Future<Output = Result<WorkResult, BindingFailure>> + Send + 'static,
    ) -> Self {
        Self { host, interrupt, program, future: Mutex::new(Some(Box::pin(future))) }
    }

    fn converter(&self, py: Python<'_>) -> WorkConverter {
        let program = self.program.clone_ref(py);
        WorkConverter { host: self.host.clone(), interrupt: self.interrupt.clone(), program }
    }

    /// Takes the work. Fails if it was begun, or if its gateway belongs to the parent of a fork: its runtime has no threads
    /// here.
    fn take(&self, py: Python<'_>) -> PyResult<WorkFuture> {
        self.host.check_process().map_err(|failure| raise(py, &failure))?;
        let future = self.future.lock().take();
        future.ok_or_else(|| {
            let done = BindingFailure::Invalid("the work was begun before".into());
            raise(py, &done)
        })
    }
}

/// Converts the result of work. A gateway and a streamed chat have parts of the work that has begun them.
struct WorkConverter {
    host: Arc<HostRuntime>,
    interrupt: Arc<Interrupt>,
    program: Py<ProgramFunctions>,
}

impl WorkConverter {
    fn convert(
        &self,
        py: Python<'_>,
        ended: Result<WorkResult, BindingFailure>,
    ) -> PyResult<Py<PyAny>> {
        Ok(match ended.map_err(|failure| raise(py, &failure))? {
            WorkResult::Nothing => py.None(),
            WorkResult::Json(value) => to_python(py, &value)?.unbind(),
            WorkResult::Address(address) => {
                PyString::new(py, &address.to_string()).into_any().unbind()
            }
            WorkResult::Gateway(gateway) => {
                let program = self.program.clone_ref(py);
                Py::new(py, GatewayHandle { gateway: Arc::new(gateway), program })?.into_any()
            }
            WorkResult::Chat(chat) => {
                let host = self.host.clone();
                let interrupt = self.interrupt.clone();
                let program = self.program.clone_ref(py);
                let chat = ChatHandle { chat: Arc::new(chat), host, interrupt, program };
                Py::new(py, chat)?.into_any()
            }
        })
    }
}

/// Delivers the result of work to a future, also if its task panics or is stopped: a future that nothing ends
/// would wait for ever.
struct WorkDelivery {
    converter: WorkConverter,
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
    is_running: bool,
}

impl WorkDelivery {
    /// Returns the task of the work, which counts as a script that runs: it may be one, with locks that the child of a fork
    /// cannot unlock.
    fn run(mut self, work: WorkFuture) -> impl Future<Output = ()> + Send {
        let running = RunningScript::apart();
        async move {
            let ended = self.converter.interrupt.watch(work).await;
            // Before the program learns of it, which may fork then.
            drop(running);
            self.is_running = false;
            // Without an interpreter or with a closed event loop, nothing waits for it. With one, all of this is dropped while
            // it is attached: what is dropped elsewhere is freed when the native module is called next.
            let _ = Python::try_attach(move |py| {
                let ended = ended.and_then(|ended| self.converter.convert(py, ended));
                deliver(py, &self.event_loop, &self.future, ended)
            });
        }
    }
}

impl Drop for WorkDelivery {
    fn drop(&mut self) {
        if self.is_running {
            let stopped = BindingFailure::Cancelled("the work of the gateway was stopped".into());
            let _ = Python::try_attach(|py| {
                deliver(py, &self.event_loop, &self.future, Err(raise(py, &stopped)))
            });
        }
    }
}
