//! Functions of the program that a gateway calls: its tools, and its model.
//!
//! Plain functions run on threads of the runtime, and `async def` ones on one event loop, whatever the call
//! comes from: the program itself, a chat, or a request over HTTP.

use std::sync::Arc;

use airlock_binding::{
    ErrorKind, FunctionThreads, GatewayProgram, ModelAnswer, ModelFailure, ToolError,
    raised_message,
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use serde_json::{Map, Value};

use crate::{
    convert::{to_dict, to_json},
    function::{CallForm, PreparedCall, call_in_context, described, prepared},
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

impl ProgramFunctions {
    /// Calls a function, and converts its result; `None` if its event loop or the interpreter has gone. Dropping
    /// the future cancels an `async def` function.
    async fn run(
        self: Arc<Self>,
        is_async: bool,
        prepare: impl for<'py> FnOnce(&Self, Python<'py>) -> PyResult<PreparedCall<'py>>
        + Send
        + 'static,
    ) -> Option<PyResult<Value>> {
        if is_async {
            let begun = Python::try_attach(|py| {
                let call = prepare(&self, py)?;
                LoopCall::begin(py, self.event_loop.as_ref(), &self.context, call)
            })?;
            return match begun {
                Ok(call) => call.end().await,
                Err(error) => Some(Err(error)),
            };
        }
        // It may block, and a worker of the runtime must not.
        let threads = self.threads.clone();
        let called = threads.call(move || {
            Python::try_attach(|py| {
                let (function, arguments) = prepare(&self, py)?;
                to_json(&call_in_context(py, &self.context, function, &arguments)?)
            })
        });
        called.await.flatten()
    }

    /// Calls a method of the object that asks the model function.
    async fn ask(
        self: Arc<Self>,
        answer: Arc<Py<PyAny>>,
        method: &'static str,
        request: Option<Map<String, Value>>,
    ) -> Result<Value, ModelFailure> {
        let is_async = self.is_model_async;
        let ended = self.run(is_async, move |_, py| {
            let arguments = PyDict::new(py);
            if let Some(request) = request {
                arguments.set_item("request", to_dict(py, &request)?)?;
            }
            Ok((answer.bind(py).getattr(method)?, arguments))
        });
        match ended.await {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(model_failure(&error)),
            None => Err(ModelFailure::new(STOPPED)),
        }
    }

    /// Makes the object that asks the model function once.
    fn answer(&self) -> Result<Py<PyAny>, ModelFailure> {
        let made = Python::try_attach(|py| self.model.as_ref().map(|model| model.call0(py)));
        match made.flatten() {
            Some(made) => made.map_err(|error| model_failure(&error)),
            None => Err(ModelFailure::new(STOPPED)),
        }
    }
}

/// Message of a call whose event loop or interpreter has gone.
const STOPPED: &str = "the event loop of the function has stopped";

impl GatewayProgram for ProgramFunctions {
    fn call(
        self: Arc<Self>,
        tool: usize,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(async move {
            let is_async = self.forms[tool].is_async;
            let ended = self.run(is_async, move |program, py| {
                prepared(py, &program.forms, &program.functions, tool, &arguments)
            });
            match ended.await {
                Some(Ok(value)) => Ok(value),
                Some(Err(error)) => Err(tool_error(&error)),
                None => Err(ToolError::new(ErrorKind::Unavailable, STOPPED)),
            }
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

/// Returns the failure of a tool that has raised an exception.
fn tool_error(error: &PyErr) -> ToolError {
    let (kind, message) = described_anywhere(error);
    ToolError::new(ErrorKind::Other, message).with_code(&kind)
}

/// Returns the failure of a model function that has raised an exception.
fn model_failure(error: &PyErr) -> ModelFailure {
    let (kind, message) = described_anywhere(error);
    ModelFailure::new(message).with_code(&kind)
}

/// Returns the name of the type of an exception, and the message of its failure.
fn described_anywhere(error: &PyErr) -> (String, String) {
    match Python::try_attach(|py| described(py, error)) {
        Some((kind, text)) => {
            let message = raised_message(&kind, &text);
            (kind, message)
        }
        None => ("error".to_owned(), STOPPED.to_owned()),
    }
}
