//! The caller of one run: its functions, its thread or event loop, and what the functions raised.

use std::{
    collections::VecDeque,
    sync::Arc,
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use airlock_binding::{
    CallId, CallTarget, FunctionCall, FunctionError, FunctionThreads, PrintedBatches, lost_error,
    raised_error, stopped_error,
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pyo3::{intern, prelude::*, sync::PyOnceLock, types::PyTuple};
use serde_json::{Map, Value};
use tokio::time::sleep;

use crate::{
    convert::to_json,
    function::{PreparedCall, attached, call_in_context, described, prepared},
    interrupt::{Interrupt, is_interrupt},
    reply::reply,
    tools::ToolSet,
};

/// Exceptions that are kept until the end of the run. A script may catch thousands, and each has the
/// variables of its frames. One that ends a script is among the last.
const MAX_RAISED: usize = 64;

/// Longest time for which a run whose time has passed waits for its timer, which may be late.
const TIMER_WAIT: Duration = Duration::from_secs(1);

/// The parts of its caller that a run needs: the functions of its tools, a receiver of printed text, an event loop,
/// a context, the number of scripts in each other around it, and the depth of the call of a gateway around it.
pub(crate) type CallerPlace =
    (Py<PyTuple>, Option<Py<PyAny>>, Option<Py<PyAny>>, Py<PyAny>, u32, u32);

/// The caller of one run.
pub(crate) struct ScriptCaller {
    tools: Py<ToolSet>,
    functions: Py<PyTuple>,
    /// Runs plain functions that the caller's own thread does not.
    threads: FunctionThreads,
    on_print: Option<Py<PyAny>>,
    /// Printed lines that wait for the event loop.
    printed: Arc<PrintedBatches>,
    /// Runs the tools that are `async def`.
    event_loop: Option<Py<PyAny>>,
    /// Context variables of the caller, for calls on other threads.
    context: Py<PyAny>,
    /// Scripts in each other around the run.
    nesting: u32,
    /// Depth of the call of a gateway around the run.
    depth: u32,
    side: CallerSide,
    raised: Mutex<VecDeque<(CallId, PyErr)>>,
    interrupt: Arc<Interrupt>,
}

/// Place where a caller waits for its run.
pub(crate) enum CallerSide {
    /// A thread, which polls the run. Plain functions are called on it.
    Thread(ThreadId),
    /// An event loop, with the future that it waits for. Plain functions are called on other threads.
    EventLoop(Py<PyAny>),
}

/// Printed lines of one run, for the function that delivers them on the event loop.
#[pyclass(frozen, module = "airlock._airlock")]
pub(crate) struct LineQueue(Arc<PrintedBatches>);

#[pymethods]
impl LineQueue {
    /// Takes the first batch.
    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

impl ScriptCaller {
    pub(crate) fn new(
        tools: Py<ToolSet>,
        threads: FunctionThreads,
        place: CallerPlace,
        side: CallerSide,
    ) -> Arc<Self> {
        let (functions, on_print, event_loop, context, nesting, depth) = place;
        Arc::new(Self {
            tools,
            functions,
            threads,
            on_print,
            printed: Arc::default(),
            event_loop,
            context,
            nesting,
            depth,
            side,
            raised: Mutex::default(),
            interrupt: Arc::default(),
        })
    }

    /// Returns a receiver of printed lines; `None` if none are wanted. It holds a weak reference to the caller: a run that
    /// waits holds the receiver, and the future of the caller holds that run.
    pub(crate) fn printer(self: &Arc<Self>) -> Option<impl Fn(&str) + Send + Sync + use<>> {
        let caller = self.on_print.is_some().then(|| Arc::downgrade(self))?;
        Some(move |line: &str| {
            if let Some(caller) = caller.upgrade() {
                caller.print(line);
            }
        })
    }

    /// Passes a printed line on: on the thread that polls the run, or in a batch to the event loop.
    fn print(&self, line: &str) {
        let Some(on_print) = &self.on_print else { return };
        // Without an interpreter, the program ends.
        let delivered = match (&self.side, &self.event_loop) {
            (CallerSide::EventLoop(future), Some(event_loop)) => {
                if !self.printed.push(line) {
                    return;
                }
                Python::try_attach(|py| self.schedule_lines(py, event_loop, future, on_print))
            }
            _ => Python::try_attach(|py| on_print.call1(py, (line,)).map(drop)),
        };
        if let Some(Err(error)) = delivered {
            self.interrupt.raise(error);
        }
    }

    /// Takes the exception with which a call failed.
    pub(crate) fn take_raised(&self, id: CallId) -> Option<PyErr> {
        let mut raised = self.raised.lock();
        let place = raised.iter().position(|(call, _)| *call == id)?;
        raised.remove(place).map(|(_, error)| error)
    }

    pub(crate) fn event_loop(&self) -> Option<&Py<PyAny>> {
        self.event_loop.as_ref()
    }

    pub(crate) fn context(&self) -> &Py<PyAny> {
        &self.context
    }

    pub(crate) fn nesting(&self) -> u32 {
        self.nesting
    }

    pub(crate) fn interrupt(&self) -> &Arc<Interrupt> {
        &self.interrupt
    }

    /// Keeps the exception of a call, in the place of the oldest one if there are many.
    fn keep(&self, call: CallId, error: PyErr) {
        let mut raised = self.raised.lock();
        let oldest = if raised.len() == MAX_RAISED { raised.pop_front() } else { None };
        raised.push_back((call, error));
        drop(raised);
        // Not under the lock, because dropping an exception may run code that waits for the interpreter.
        drop(oldest);
    }

    /// Schedules the delivery of one batch of printed lines on the event loop.
    fn schedule_lines(
        &self,
        py: Python<'_>,
        event_loop: &Py<PyAny>,
        future: &Py<PyAny>,
        on_print: &Py<PyAny>,
    ) -> PyResult<()> {
        static DELIVER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let deliver = DELIVER.import(py, "airlock._loop", "deliver_lines")?;
        let lines = Py::new(py, LineQueue(self.printed.clone()))?;
        let schedule = intern!(py, "call_soon_threadsafe");
        event_loop.call_method1(py, schedule, (deliver, future, on_print, lines)).map(drop)
    }

    /// Returns the function of a tool, and its arguments.
    pub(crate) fn prepared<'py>(
        &self,
        py: Python<'py>,
        tool: usize,
        arguments: &Map<String, Value>,
    ) -> PyResult<PreparedCall<'py>> {
        prepared(py, &self.tools.get().forms, &self.functions, tool, arguments)
    }

    /// Calls a plain function on this thread.
    fn call_plain(
        &self,
        py: Python<'_>,
        tool: usize,
        call: &FunctionCall,
        is_own_thread: bool,
    ) -> Result<Value, FunctionError> {
        let result = self.prepared(py, tool, call.arguments()).and_then(|(function, arguments)| {
            let result = if is_own_thread {
                function.call((), Some(&arguments))?
            } else {
                call_in_context(py, &self.context, function, &arguments)?
            };
            to_json(&result)
        });
        result.map_err(|error| self.failed(py, call.id(), error))
    }

    /// Returns the failure of a call for the script, and keeps the exception for the caller.
    pub(crate) fn failed(&self, py: Python<'_>, call: CallId, error: PyErr) -> FunctionError {
        let (kind, text) = described(py, &error);
        if is_interrupt(py, &error) {
            self.interrupt.raise(error);
        } else {
            self.keep(call, error);
        }
        raised_error(&kind, &text)
    }

    fn is_on_own_thread(&self) -> bool {
        matches!(self.side, CallerSide::Thread(id) if id == thread::current().id())
    }
}

impl CallTarget for ScriptCaller {
    fn call(
        self: Arc<Self>,
        tool: usize,
        call: FunctionCall,
    ) -> BoxFuture<'static, Result<Value, FunctionError>> {
        Box::pin(async move {
            // The script runs until it gives the thread back, and may have caught the failure.
            if self.interrupt.is_raised() {
                return Err(stopped_error());
            }
            if self.tools.get().forms[tool].is_async {
                return reply(self, tool, call).await;
            }
            if self.is_on_own_thread() {
                let ended = attached(|py| self.call_plain(py, tool, &call, true));
                if Instant::now() >= call.deadline() {
                    // While the function has held this thread, no timer could end the run. It does so now.
                    sleep(TIMER_WAIT).await;
                }
                return ended;
            }
            // It may block, and a worker of the runtime must not.
            let threads = self.threads.clone();
            // Of each script and call around the run, a function may wait for this one.
            let around = self.nesting.saturating_add(self.depth);
            let called = threads
                .call(around, move || attached(|py| self.call_plain(py, tool, &call, false)));
            called.await.unwrap_or_else(|lost| Err(lost_error(lost)))
        })
    }
}
