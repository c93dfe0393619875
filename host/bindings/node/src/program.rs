//! Functions of the program that a gateway calls, on the thread of JavaScript: its tools, and its model.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use airlock_binding::{
    ErrorKind, GatewayProgram, ModelAnswer, ModelFailure, ToolContext, ToolError, call_depth,
    parse_value, raised_message,
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use napi::{Status, threadsafe_function::ThreadsafeFunctionCallMode};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::{
    caller::{MessageArguments, NodeReceiver, OpenCalls, ThrownError},
    convert::to_text,
};

/// A message to the thread of JavaScript.
pub(crate) enum ProgramMessage {
    /// Calls a tool, in a call of this depth.
    Call { call: String, tool: usize, arguments: String, depth: u32 },
    /// The result of a call, or of the model, is no longer wanted.
    Cancel { call: String },
    /// Asks the model function, in a call of this depth.
    Ask { call: String, request: String, depth: u32 },
    /// Asks for the next piece of a reply, by the call that has begun it.
    Step { call: String, asked: String, depth: u32 },
    /// Work of the gateway has ended, with this result.
    Done { work: u32, result: String },
    /// Work of the gateway has failed.
    Failed { work: u32, failure: String },
}

impl ProgramMessage {
    fn into_arguments(self) -> MessageArguments {
        let none = String::new();
        let arguments = match self {
            Self::Call { call, tool, arguments, depth } => {
                (0, call, u32::try_from(tool).unwrap_or(u32::MAX), arguments, depth)
            }
            Self::Cancel { call } => (1, call, 0, none, 0),
            Self::Ask { call, request, depth } => (2, call, 0, request, depth),
            Self::Step { call, asked, depth } => (3, call, 0, asked, depth),
            Self::Done { work, result } => (4, none, work, result, 0),
            Self::Failed { work, failure } => (5, none, work, failure, 0),
        };
        arguments.into()
    }
}

/// The functions of a program that makes a gateway. The event loop waits for messages until they are released.
pub(crate) struct NodeProgram {
    /// `None` once the gateway has stopped.
    receiver: Mutex<Option<NodeReceiver>>,
    calls: Arc<OpenCalls>,
    /// Number of the last call.
    last: AtomicU64,
}

impl NodeProgram {
    pub(crate) fn new(receiver: NodeReceiver) -> Arc<Self> {
        let receiver = Mutex::new(Some(receiver));
        Arc::new(Self { receiver, calls: Arc::default(), last: AtomicU64::new(0) })
    }

    /// Returns the calls that JavaScript makes, for those who answer them. They do not keep the receiver.
    pub(crate) fn calls(&self) -> &Arc<OpenCalls> {
        &self.calls
    }

    /// Sends a message. Returns whether the thread of JavaScript is still there.
    pub(crate) fn send(&self, message: ProgramMessage) -> bool {
        let mode = ThreadsafeFunctionCallMode::NonBlocking;
        let receiver = self.receiver.lock();
        let sent = receiver.as_ref().map(|own| own.call(message.into_arguments(), mode));
        sent == Some(Status::Ok)
    }

    /// Sends nothing from now on: the event loop does not wait any more.
    pub(crate) fn release(&self) {
        let receiver = self.receiver.lock().take();
        drop(receiver);
    }

    fn next_call(&self) -> String {
        self.last.fetch_add(1, Ordering::Relaxed).to_string()
    }

    /// Sends a message that begins a call, and waits for its result. Dropping the future cancels the call.
    async fn ask(
        self: &Arc<Self>,
        call: String,
        message: ProgramMessage,
    ) -> Result<Value, ThrownError> {
        let result = self.calls.open(&call);
        let _guard = ProgramCall { program: self.clone(), call };
        if !self.send(message) {
            return Err(ThrownError::stopped());
        }
        let text = result.await.unwrap_or_else(|_| Err(ThrownError::stopped()))?;
        parse_value(&text).map_err(|problem| ThrownError::new("TypeError", &problem.to_string()))
    }
}

/// A call that JavaScript makes. If it is dropped before the call has ended, it cancels the call.
struct ProgramCall {
    program: Arc<NodeProgram>,
    call: String,
}

impl Drop for ProgramCall {
    fn drop(&mut self) {
        if self.program.calls.forget(&self.call) {
            self.program.send(ProgramMessage::Cancel { call: self.call.clone() });
        }
    }
}

/// Reply of the model function. When it is dropped, JavaScript forgets the rest of the reply.
struct ModelReply {
    program: Arc<NodeProgram>,
    asked: String,
}

impl ModelReply {
    /// Returns the next piece; `None` after the last one.
    async fn next(&self) -> Result<Option<Value>, ModelFailure> {
        let call = self.program.next_call();
        let asked = self.asked.clone();
        let step = ProgramMessage::Step { call: call.clone(), asked, depth: call_depth() };
        let next = self.program.ask(call, step).await.map_err(model_failure)?;
        Ok(match next {
            Value::Array(mut pieces) => pieces.pop(),
            _ => None,
        })
    }
}

impl Drop for ModelReply {
    fn drop(&mut self) {
        self.program.send(ProgramMessage::Cancel { call: self.asked.clone() });
    }
}

impl GatewayProgram for NodeProgram {
    fn call(
        self: Arc<Self>,
        tool: usize,
        arguments: Map<String, Value>,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(async move {
            let call = self.next_call();
            let arguments = to_text(&Value::Object(arguments));
            let depth = context.depth();
            let message = ProgramMessage::Call { call: call.clone(), tool, arguments, depth };
            self.ask(call, message).await.map_err(tool_error)
        })
    }

    fn respond(
        self: Arc<Self>,
        request: Map<String, Value>,
    ) -> BoxFuture<'static, Result<ModelAnswer, ModelFailure>> {
        Box::pin(async move {
            let call = self.next_call();
            let reply = ModelReply { program: self.clone(), asked: call.clone() };
            let request = to_text(&Value::Object(request));
            let depth = call_depth();
            let message = ProgramMessage::Ask { call: call.clone(), request, depth };
            match self.ask(call, message).await.map_err(model_failure)? {
                // The pieces are asked for one by one.
                Value::Null => {
                    let pieces = stream::try_unfold(reply, |reply| async move {
                        let piece = reply.next().await?;
                        Ok::<_, ModelFailure>(piece.map(|piece| (piece, reply)))
                    });
                    Ok(ModelAnswer::Stream(pieces.boxed()))
                }
                whole => Ok(ModelAnswer::Whole(whole)),
            }
        })
    }
}

/// Returns the failure of a tool that has thrown.
#[allow(clippy::needless_pass_by_value, reason = "the end of a call is converted once")]
fn tool_error(thrown: ThrownError) -> ToolError {
    let message = raised_message(&thrown.kind, &thrown.text);
    ToolError::new(ErrorKind::Other, message).with_code(&thrown.kind)
}

/// Returns the failure of a model function that has thrown.
#[allow(clippy::needless_pass_by_value, reason = "the end of a call is converted once")]
fn model_failure(thrown: ThrownError) -> ModelFailure {
    let message = raised_message(&thrown.kind, &thrown.text);
    ModelFailure::new(message).with_code(&thrown.kind)
}
