//! The thread of JavaScript as the caller of one run, and the calls that it makes.

use std::{collections::HashMap, sync::Arc};

use airlock_binding::{
    CallTarget, FunctionCall, FunctionError, PrintedBatches, parse_value, raised_error,
    stopped_error,
};
use futures_util::future::BoxFuture;
use napi::{
    Status,
    bindgen_prelude::FnArgs,
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::convert::to_text;

/// The function of the package that receives the messages of one run. The event loop waits while there
/// is one.
pub(crate) type NodeReceiver =
    ThreadsafeFunction<MessageArguments, (), MessageArguments, Status, false>;

/// Kind of a message, the call, the place of the tool in its set, a text, and the depth of a call of a gateway.
pub(crate) type MessageArguments = FnArgs<(u32, String, u32, String, u32)>;

type CallResult = Result<String, ThrownError>;

/// An error that a function has thrown.
pub(crate) struct ThrownError {
    /// Name of its type.
    pub(crate) kind: String,
    /// Its text.
    pub(crate) text: String,
}

impl ThrownError {
    pub(crate) fn new(kind: &str, text: &str) -> Self {
        Self { kind: kind.to_owned(), text: text.to_owned() }
    }

    /// Creates the error of a function whose thread has ended.
    pub(crate) fn stopped() -> Self {
        Self::new("Error", "the thread of the function has ended")
    }
}

/// A message to the thread of JavaScript.
pub(crate) enum CallerMessage {
    /// The script calls a tool.
    Call { call: String, tool: usize, arguments: String },
    /// The result of a call is no longer wanted.
    Cancel { call: String },
    /// A batch of printed lines waits.
    Print,
    /// The run has ended, with this failure. It is empty if there is a result.
    End { failure: String },
}

impl CallerMessage {
    fn into_arguments(self) -> MessageArguments {
        let none = String::new();
        let arguments = match self {
            Self::Call { call, tool, arguments } => {
                (0, call, u32::try_from(tool).unwrap_or(u32::MAX), arguments, 0)
            }
            Self::Cancel { call } => (1, call, 0, none, 0),
            Self::Print => (2, String::new(), 0, none, 0),
            Self::End { failure } => (3, none, 0, failure, 0),
        };
        arguments.into()
    }
}

/// The caller of one run.
pub(crate) struct NodeCaller {
    receiver: NodeReceiver,
    calls: Arc<OpenCalls>,
    printed: Arc<PrintedBatches>,
}

impl NodeCaller {
    pub(crate) fn new(receiver: NodeReceiver) -> Arc<Self> {
        Arc::new(Self { receiver, calls: Arc::default(), printed: Arc::default() })
    }

    /// Returns the calls of the run, for those who answer them. They do not keep the receiver.
    pub(crate) fn calls(&self) -> &Arc<OpenCalls> {
        &self.calls
    }

    /// Returns the printed lines that the thread of JavaScript has not taken.
    pub(crate) fn printed(&self) -> &Arc<PrintedBatches> {
        &self.printed
    }

    /// Sends a message. Returns whether the thread of JavaScript is still there.
    pub(crate) fn send(&self, message: CallerMessage) -> bool {
        let mode = ThreadsafeFunctionCallMode::NonBlocking;
        self.receiver.call(message.into_arguments(), mode) == Status::Ok
    }

    /// Returns a receiver of printed lines. It does not keep the caller: a run that waits has it, too.
    pub(crate) fn printer(self: &Arc<Self>) -> impl Fn(&str) + Send + Sync + use<> {
        let caller = Arc::downgrade(self);
        move |line| {
            if let Some(caller) = caller.upgrade()
                && caller.printed.push(line)
            {
                caller.send(CallerMessage::Print);
            }
        }
    }
}

impl CallTarget for NodeCaller {
    fn call(
        self: Arc<Self>,
        tool: usize,
        call: FunctionCall,
    ) -> BoxFuture<'static, Result<Value, FunctionError>> {
        Box::pin(async move {
            let id = call.id().to_string();
            let result = self.calls.open(&id);
            let arguments = to_text(&Value::Object(call.into_arguments()));
            let guard = CallGuard { caller: self.clone(), id: id.clone() };
            if !self.send(CallerMessage::Call { call: id, tool, arguments }) {
                return Err(stopped_error());
            }
            let result = result.await;
            drop(guard);
            let ended = result.map_err(|_| stopped_error())?;
            let text = ended.map_err(|error| raised_error(&error.kind, &error.text))?;
            parse_value(&text).map_err(|problem| FunctionError::new(problem.to_string()))
        })
    }
}

/// A call that JavaScript makes. If it is dropped before the call has ended, it cancels the call.
struct CallGuard {
    caller: Arc<NodeCaller>,
    id: String,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if self.caller.calls.forget(&self.id) {
            self.caller.send(CallerMessage::Cancel { call: self.id.clone() });
        }
    }
}

/// Calls of a run or a gateway that have not ended, by their identifiers.
#[derive(Default)]
pub(crate) struct OpenCalls(Mutex<HashMap<String, oneshot::Sender<CallResult>>>);

impl OpenCalls {
    pub(crate) fn open(&self, call: &str) -> oneshot::Receiver<CallResult> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().insert(call.to_owned(), sender);
        receiver
    }

    /// Ends a call. Does nothing if it has ended or was cancelled.
    pub(crate) fn end(&self, call: &str, result: CallResult) {
        let sender = self.0.lock().remove(call);
        if let Some(sender) = sender {
            // A receiver that is gone has cancelled the call.
            let _ = sender.send(result);
        }
    }

    /// Removes a call. Returns whether it had not ended.
    pub(crate) fn forget(&self, call: &str) -> bool {
        self.0.lock().remove(call).is_some()
    }
}
