//! Functions of the program that a gateway calls: its tools, and its model.
//!
//! Plain functions run on threads of the runtime, and `async def` ones on one event loop, whatever the call
//! comes from: the program itself, a chat, or a request over HTTP.
//!
//! ```text
//! gateway, streamed chat, work (objects of Python) ─► ProgramFunctions ─► functions ─► objects of the program
//!        │                                                 ▲
//!        └─► gateway (Rust) ─► ProgramCaller ─ ─ weak ─ ─ ─┘
//! ```
//!
//! An object of the program may hold its gateway or a chat, and a function of the gateway may be its method. The garbage
//! collector of Python finds such a cycle, because all references in it are those of objects that it knows. A reference that only
//! Rust knows would keep the cycle; one that Rust uses while the collector clears the cycle would crash.

use std::sync::Arc;

use airlock_binding::{
    ErrorKind, FunctionLost, FunctionThreads, GatewayProgram, ModelAnswer, ModelFailure,
    ToolContext, ToolError, call_depth, raised_message,
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use pyo3::{
    PyTraverseError, PyVisit, intern,
    prelude::*,
    types::{PyDict, PyTuple, PyWeakrefReference},
};
use serde_json::{Map, Value};

use crate::{
    convert::{to_dict, to_json},
    function::{PreparedCall, call_in_context, context_at_depth, described, prepared},
    interrupt::{Interrupt, is_interrupt},
    reply::LoopCall,
    tools::ToolSet,
};

/// The functions of a program that makes a gateway. It lives as long as the gateway, a streamed chat or work of it does.
#[pyclass(frozen, weakref, module = "airlock._airlock")]
pub(crate) struct ProgramFunctions {
    pub(crate) tools: Py<ToolSet>,
    pub(crate) functions: Py<PyTuple>,
    /// The answers of the model function; the `None` of Python if there is no such function.
    pub(crate) answers: Py<PyAny>,
    /// Runs the functions that are `async def`.
    pub(crate) event_loop: Option<Py<PyAny>>,
    /// Context variables of the program.
    pub(crate) context: Py<PyAny>,
}

#[pymethods]
impl ProgramFunctions {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.tools)?;
        visit.call(&self.functions)?;
        visit.call(&self.answers)?;
        visit.call(&self.event_loop)?;
        visit.call(&self.context)
    }
}

/// Calls the functions of a program, unless they are gone.
pub(crate) struct ProgramCaller {
    program: Py<PyWeakrefReference>,
    /// Runs the functions that are not `async def`.
    threads: FunctionThreads,
    /// True for each tool that is `async def`, in the order of the tools.
    are_async: Vec<bool>,
    is_model_async: bool,
}

/// Place of a call of a function: its depth, and the caller that waits for it.
struct FunctionPlace {
    /// Depth of the requests that the function sends to the gateway.
    depth: u32,
    /// `None` if no caller of the program waits for the call, such as of a request over HTTP.
    interrupt: Option<Arc<Interrupt>>,
}

/// An answer of the model function that comes in pieces. Dropping it ends the answer.
struct OpenAnswer {
    program: Arc<ProgramCaller>,
    /// Number among the answers.
    number: u64,
}

/// Failure of a function.
enum FunctionFailure {
    /// It has raised an exception.
    Raised {
        /// Name of the type of the exception.
        kind: String,
        message: String,
    },
    /// It was called within too many other calls to get a thread.
    TooNested(String),
    /// Its event loop, the interpreter or the program's own objects have gone, or its caller does not wait any more.
    Stopped,
}

impl FunctionPlace {
    /// Returns the failure of a function that has raised an exception. One that is for the caller ends its waiting.
    fn failed(&self, py: Python<'_>, error: PyErr) -> FunctionFailure {
        let (kind, text) = described(py, &error);
        let message = raised_message(&kind, &text);
        if let Some(interrupt) = &self.interrupt
            && is_interrupt(py, &error)
        {
            interrupt.raise(error);
        }
        FunctionFailure::Raised { kind, message }
    }

    /// Returns the failure of a function that has raised an exception elsewhere.
    fn raised(&self, error: PyErr) -> FunctionFailure {
        let failed = Python::try_attach(|py| self.failed(py, error));
        failed.unwrap_or(FunctionFailure::Stopped)
    }

    /// Number of scripts in each other around the request that has led to the call.
    fn nesting(&self) -> u32 {
        self.interrupt.as_ref().map_or(0, |interrupt| interrupt.nesting())
    }

    /// Number of calls around this one, of gateways and of scripts, whose functions may wait for it.
    fn around(&self) -> u32 {
        self.depth.saturating_sub(1).saturating_add(self.nesting())
    }

    /// Returns the context for the function, a copy of that of the program.
    fn context(&self, py: Python<'_>, context: &Py<PyAny>) -> PyResult<Py<PyAny>> {
        context_at_depth(py, context, self.depth, self.nesting())
    }
}

impl ProgramCaller {
    /// Creates the caller of functions.
    pub(crate) fn new(
        program: &Bound<'_, ProgramFunctions>,
        threads: FunctionThreads,
        is_model_async: bool,
    ) -> PyResult<Self> {
        let forms = &program.get().tools.get().forms;
        let are_async = forms.iter().map(|form| form.is_async).collect();
        let program = PyWeakrefReference::new(program.as_any())?.unbind();
        Ok(Self { program, threads, are_async, is_model_async })
    }

    /// Runs with the interpreter and the functions, which live as long as it runs.
    fn attached<T>(
        &self,
        place: &FunctionPlace,
        run: impl FnOnce(&ProgramFunctions, Python<'_>) -> PyResult<T>,
    ) -> Result<T, FunctionFailure> {
        let ended = Python::try_attach(|py| {
            let program = self.program.bind(py).upgrade_as::<ProgramFunctions>();
            let program = program.map_err(|error| place.failed(py, error))?;
            let program = program.ok_or(FunctionFailure::Stopped)?;
            run(program.get(), py).map_err(|error| place.failed(py, error))
        });
        ended.unwrap_or(Err(FunctionFailure::Stopped))
    }

    /// Calls a function, and converts its result. Dropping the future cancels an `async def` function.
    async fn run(
        self: Arc<Self>,
        is_async: bool,
        place: FunctionPlace,
        prepare: impl for<'py> FnOnce(&ProgramFunctions, Python<'py>) -> PyResult<PreparedCall<'py>>
        + Send
        + 'static,
    ) -> Result<Value, FunctionFailure> {
        // The script runs until it gives the thread back, and may have caught the failure.
        if place.interrupt.as_ref().is_some_and(|interrupt| interrupt.is_raised()) {
            return Err(FunctionFailure::Stopped);
        }
        if is_async {
            let begun = self.attached(&place, |program, py| {
                let call = prepare(program, py)?;
                let context = place.context(py, &program.context)?;
                let interrupt = place.interrupt.clone();
                LoopCall::begin(py, program.event_loop.as_ref(), &context, call, interrupt)
            })?;
            return match begun.end().await {
                Some(Ok(value)) => Ok(value),
                Some(Err(error)) => Err(place.raised(error)),
                None => Err(FunctionFailure::Stopped),
            };
        }
        // It may block, and a worker of the runtime must not.
        let threads = self.threads.clone();
        let called = threads.call(place.around(), move || {
            self.attached(&place, |program, py| {
                let (function, arguments) = prepare(program, py)?;
                let context = place.context(py, &program.context)?;
                to_json(&call_in_context(py, &context, function, &arguments)?)
            })
        });
        called.await.unwrap_or_else(|lost| Err(lost.into()))
    }
}

impl OpenAnswer {
    /// Begins an answer of the model function.
    fn begin(program: &Arc<ProgramCaller>) -> Result<Self, ModelFailure> {
        let begun = program.attached(&model_place(), |functions, py| {
            let begun = functions.answers.bind(py).call_method0(intern!(py, "begin"))?;
            let number: u64 = begun.extract()?;
            Ok(number)
        });
        let number = begun.map_err(model_failure)?;
        Ok(Self { program: program.clone(), number })
    }

    /// Calls a method of the answer.
    async fn ask(
        &self,
        method: &'static str,
        request: Option<Map<String, Value>>,
    ) -> Result<Value, ModelFailure> {
        let number = self.number;
        let is_async = self.program.is_model_async;
        let ended = self.program.clone().run(is_async, model_place(), move |program, py| {
            let arguments = PyDict::new(py);
            if let Some(request) = request {
                arguments.set_item("request", to_dict(py, &request)?)?;
            }
            let answers = program.answers.bind(py);
            let answer = answers.call_method1(intern!(py, "get"), (number,))?;
            Ok((answer.getattr(method)?, arguments))
        });
        ended.await.map_err(model_failure)
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        // Without the functions, the answer has gone with them.
        let _ = self.program.attached(&model_place(), |program, py| {
            program.answers.call_method1(py, intern!(py, "end"), (self.number,)).map(drop)
        });
    }
}

/// Returns the place of a call of the model function in this task.
fn model_place() -> FunctionPlace {
    FunctionPlace { depth: call_depth(), interrupt: Interrupt::of_task() }
}

/// Message of a call whose event loop or interpreter has gone.
const STOPPED: &str = "the event loop of the function has stopped";

impl GatewayProgram for ProgramCaller {
    fn call(
        self: Arc<Self>,
        tool: usize,
        arguments: Map<String, Value>,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(async move {
            let is_async = self.are_async[tool];
            let place =
                FunctionPlace { depth: context.depth(), interrupt: context.request_context() };
            let ended = self.run(is_async, place, move |program, py| {
                let forms = &program.tools.get().forms;
                prepared(py, forms, &program.functions, tool, &arguments)
            });
            ended.await.map_err(tool_error)
        })
    }

    fn respond(
        self: Arc<Self>,
        request: Map<String, Value>,
    ) -> BoxFuture<'static, Result<ModelAnswer, ModelFailure>> {
        Box::pin(async move {
            let answer = OpenAnswer::begin(&self)?;
            let reply = answer.ask("ask", Some(request)).await?;
            match reply {
                // The pieces are asked for one by one.
                Value::Null => {
                    let pieces = stream::try_unfold(answer, |answer| async move {
                        let piece = match answer.ask("step", None).await? {
                            Value::Array(mut pieces) => pieces.pop(),
                            _ => None,
                        };
                        Ok::<_, ModelFailure>(piece.map(|piece| (piece, answer)))
                    });
                    Ok(ModelAnswer::Stream(pieces.boxed()))
                }
                reply => Ok(ModelAnswer::Whole(reply)),
            }
        })
    }
}

impl From<FunctionLost> for FunctionFailure {
    fn from(lost: FunctionLost) -> Self {
        match lost {
            FunctionLost::TooNested { .. } => Self::TooNested(lost.to_string()),
            FunctionLost::Stopped => Self::Stopped,
        }
    }
}

/// Returns the failure of a tool.
fn tool_error(failure: FunctionFailure) -> ToolError {
    match failure {
        FunctionFailure::Raised { kind, message } => {
            ToolError::new(ErrorKind::Other, message).with_code(&kind)
        }
        FunctionFailure::TooNested(message) => ToolError::new(ErrorKind::LimitReached, message),
        FunctionFailure::Stopped => ToolError::new(ErrorKind::Unavailable, STOPPED),
    }
}

/// Returns the failure of a model function.
fn model_failure(failure: FunctionFailure) -> ModelFailure {
    match failure {
        FunctionFailure::Raised { kind, message } => ModelFailure::new(message).with_code(&kind),
        FunctionFailure::TooNested(message) => ModelFailure::new(message),
        FunctionFailure::Stopped => ModelFailure::new(STOPPED),
    }
}
