//! Functions of the program that a gateway calls: its tools, and its model.
//!
//! Plain functions run on threads of the runtime, and `async def` ones on one event loop, whatever the call
//! comes from: the program itself, a chat, or a request over HTTP.

use std::sync::Arc;

use airlock_binding::{
    ErrorKind, FunctionThreads, GatewayProgram, ModelAnswer, ModelFailure, ToolContext, ToolError,
    call_depth, raised_message,
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use serde_json::{Map, Value};

use crate::{
    convert::{to_dict, to_json},
    function::{CallForm, PreparedCall, call_in_context, context_at_depth, described, prepared},
    interrupt::{Interrupt, is_interrupt},
    reply::LoopCall,
};

/// The functions of a program that makes a gateway.
pub(crate) struct ProgramFunctions {
    pub(crate) forms: Arc<[CallForm]>,
    pub(crate) functions: Py<PyTuple>,
    /// Runs the functions that are not `async def`.
    pub(crate) threads: FunctionThreads,
    /// Makes the object that asks the model function once.
    pub(crate) model: Option<Py<PyAny>>,
    pub(crate) is_model_async: bool,
    /// Runs the functions that are `async def`.
    pub(crate) event_loop: Option<Py<PyAny>>,
    /// Context variables of the program.
    pub(crate) context: Py<PyAny>,
}

/// Place of a call of a function: its depth, and the caller that waits for it.
struct FunctionPlace {
    /// Depth of the requests that the function sends to the gateway.
    depth: u32,
    /// `None` if no caller of the program waits for the call, such as of a request over HTTP.
    interrupt: Option<Arc<Interrupt>>,
}

/// Failure of a function.
enum FunctionFailure {
    /// It has raised an exception.
    Raised {
        /// Name of the type of the exception.
        kind: String,
        message: String,
    },
    /// Its event loop or the interpreter has gone, or its caller does not wait any more.
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

    /// Runs with the interpreter.
    fn attached<T>(
        &self,
        run: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> Result<T, FunctionFailure> {
        let ended = Python::try_attach(|py| run(py).map_err(|error| self.failed(py, error)));
        ended.unwrap_or(Err(FunctionFailure::Stopped))
    }
}

impl ProgramFunctions {
    /// Calls a function, and converts its result. Dropping the future cancels an `async def` function.
    async fn run(
        self: Arc<Self>,
        is_async: bool,
        place: FunctionPlace,
        prepare: impl for<'py> FnOnce(&Self, Python<'py>) -> PyResult<PreparedCall<'py>>
        + Send
        + 'static,
    ) -> Result<Value, FunctionFailure> {
        // The script runs until it gives the thread back, and may have caught the failure.
        if place.interrupt.as_ref().is_some_and(|interrupt| interrupt.is_raised()) {
            return Err(FunctionFailure::Stopped);
        }
        if is_async {
            let begun = place.attached(|py| {
                let call = prepare(&self, py)?;
                let context = context_at_depth(py, &self.context, place.depth)?;
                let interrupt = place.interrupt.clone();
                LoopCall::begin(py, self.event_loop.as_ref(), &context, call, interrupt)
            })?;
            return match begun.end().await {
                Some(Ok(value)) => Ok(value),
                Some(Err(error)) => place.attached(|_| Err(error)),
                None => Err(FunctionFailure::Stopped),
            };
        }
        // It may block, and a worker of the runtime must not.
        let threads = self.threads.clone();
        let called = threads.call(move || {
            place.attached(|py| {
                let (function, arguments) = prepare(&self, py)?;
                let context = context_at_depth(py, &self.context, place.depth)?;
                to_json(&call_in_context(py, &context, function, &arguments)?)
            })
        });
        called.await.unwrap_or(Err(FunctionFailure::Stopped))
    }

    /// Calls a method of the object that asks the model function.
    async fn ask(
        self: Arc<Self>,
        answer: Arc<Py<PyAny>>,
        method: &'static str,
        request: Option<Map<String, Value>>,
    ) -> Result<Value, ModelFailure> {
        let is_async = self.is_model_async;
        let ended = self.run(is_async, model_place(), move |_, py| {
            let arguments = PyDict::new(py);
            if let Some(request) = request {
                arguments.set_item("request", to_dict(py, &request)?)?;
            }
            Ok((answer.bind(py).getattr(method)?, arguments))
        });
        ended.await.map_err(model_failure)
    }

    /// Makes the object that asks the model function once.
    fn answer(&self) -> Result<Py<PyAny>, ModelFailure> {
        let model = self.model.as_ref().ok_or_else(|| ModelFailure::new(STOPPED))?;
        model_place().attached(|py| model.call0(py)).map_err(model_failure)
    }
}

/// Returns the place of a call of the model function in this task.
fn model_place() -> FunctionPlace {
    FunctionPlace { depth: call_depth(), interrupt: Interrupt::of_task() }
}

/// Message of a call whose event loop or interpreter has gone.
const STOPPED: &str = "the event loop of the function has stopped";

impl GatewayProgram for ProgramFunctions {
    fn call(
        self: Arc<Self>,
        tool: usize,
        arguments: Map<String, Value>,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(async move {
            let is_async = self.forms[tool].is_async;
            let place =
                FunctionPlace { depth: context.depth(), interrupt: context.request_context() };
            let ended = self.run(is_async, place, move |program, py| {
                prepared(py, &program.forms, &program.functions, tool, &arguments)
            });
            ended.await.map_err(tool_error)
        })
    }

    fn respond(
        self: Arc<Self>,
        request: Map<String, Value>,
    ) -> BoxFuture<'static, Result<ModelAnswer, ModelFailure>> {
        Box::pin(async move {
            let answer = Arc::new(self.answer()?);
            match self.clone().ask(answer.clone(), "ask", Some(request)).await? {
                // The pieces are asked for one by one.
                Value::Null => {
                    let pieces =
                        stream::try_unfold((self, answer), |(program, answer)| async move {
                            let next = program.clone().ask(answer.clone(), "step", None).await?;
                            let piece = match next {
                                Value::Array(mut pieces) => pieces.pop(),
                                _ => None,
                            };
                            Ok::<_, ModelFailure>(piece.map(|piece| (piece, (program, answer))))
                        });
                    Ok(ModelAnswer::Stream(pieces.boxed()))
                }
                reply => Ok(ModelAnswer::Whole(reply)),
            }
        })
    }
}

/// Returns the failure of a tool.
fn tool_error(failure: FunctionFailure) -> ToolError {
    match failure {
        FunctionFailure::Raised { kind, message } => {
            ToolError::new(ErrorKind::Other, message).with_code(&kind)
        }
        FunctionFailure::Stopped => ToolError::new(ErrorKind::Unavailable, STOPPED),
    }
}

/// Returns the failure of a model function.
fn model_failure(failure: FunctionFailure) -> ModelFailure {
    match failure {
        FunctionFailure::Raised { kind, message } => ModelFailure::new(message).with_code(&kind),
        FunctionFailure::Stopped => ModelFailure::new(STOPPED),
    }
}
