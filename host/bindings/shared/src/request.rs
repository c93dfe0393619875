//! Requests to a gateway: who sends them, the tools that they select, and their results as JSON.

use std::{any::Any, collections::VecDeque, mem, sync::Arc, time::Duration};

use airlock::{
    CallReply, ChatEvent, ChatEvents, ChatReply, Gateway, GatewayRequest, PendingApproval,
    RequestError,
    conversation::{
        Conversation, Object,
        chat::{self, ChunkWriter},
    },
    door::ApprovalChoice,
    tool::{ClientName, Tool, ToolOutput},
};
use airlock_json::JsonText;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    BindingFailure,
    gateway_failure::{not_converted, pending_to_json},
    run::script_language,
};

/// Member of a chunk and of a chat completion with what the gateway adds.
const AIRLOCK: &str = "airlock";

/// Sender of a request, and the tools that it selects; `None` and false are the defaults of the gateway.
#[derive(Default)]
pub struct RequestOptions {
    /// Credential of the virtual key of the sender.
    pub key: Option<String>,
    /// Clients that the request selects.
    pub clients: Option<Vec<String>>,
    /// Tools that the request selects.
    pub tools: Option<Vec<String>>,
    /// Tools that the request takes away.
    pub exclude_tools: Option<Vec<String>>,
    /// Language of scripts.
    pub language: Option<String>,
    /// Treatment of a model's calls that need an approval: `return`, `omit` or `wait`.
    pub approval: Option<String>,
    /// Bound on the time of a call or a chat.
    pub timeout_seconds: Option<f64>,
    /// True if the program is the operator.
    pub is_operator: bool,
    /// True if each call is its own approval.
    pub is_approving: bool,
    /// Depth of the call whose function sends the request; 0 if no such call does.
    pub depth: u32,
    /// Value for the functions that the calls of the request reach.
    pub context: Option<Arc<dyn Any + Send + Sync>>,
}

impl RequestOptions {
    /// Authenticates the sender.
    pub(crate) fn open(self, gateway: &Gateway) -> Result<GatewayRequest, BindingFailure> {
        let mut request = gateway.request();
        if self.is_operator && self.key.is_some() {
            return Err(BindingFailure::Invalid(
                "a request has a key or is the operator's, and not both".into(),
            ));
        }
        if let Some(key) = &self.key {
            request = request.key(key);
        }
        if self.is_operator {
            request = request.as_operator();
        }
        if let Some(clients) = self.clients {
            request = request.clients(clients);
        }
        if let Some(tools) = self.tools {
            request = request.tools(tools);
        }
        if let Some(tools) = self.exclude_tools {
            request = request.exclude_tools(tools);
        }
        if let Some(language) = &self.language {
            request = request.language(script_language(language)?);
        }
        if let Some(approval) = &self.approval {
            request = request.approval(approval_named(approval)?);
        }
        if let Some(seconds) = self.timeout_seconds {
            request = request.timeout(timeout(seconds)?);
        }
        if self.is_approving {
            request = request.approving();
        }
        if let Some(context) = self.context {
            request = request.context(context);
        }
        request = request.call_depth(self.depth);
        Ok(request.open()?)
    }
}

fn approval_named(name: &str) -> Result<ApprovalChoice, BindingFailure> {
    let found = ApprovalChoice::ALL.into_iter().find(|choice| choice.name() == name);
    found.ok_or_else(|| {
        let valid = ApprovalChoice::ALL.map(ApprovalChoice::name).join(", ");
        let message = format!("the approval {name:?} is unknown; it must be one of {valid}");
        BindingFailure::Invalid(message)
    })
}

fn timeout(seconds: f64) -> Result<Duration, BindingFailure> {
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| {
        let message =
            format!("the timeout is {seconds:?} seconds; it must be above 0 and below 2^64");
        BindingFailure::Invalid(message)
    })
}

/// Describes a tool.
pub(crate) fn tool_to_json(tool: &Tool) -> Result<Value, BindingFailure> {
    let input_schema = tool.input_schema.to_value().map_err(|error| not_converted(&error))?;
    let output_schema = tool.output_schema.as_ref().map(JsonText::to_value);
    Ok(json!({
        "name": tool.name.as_str(),
        "description": tool.description,
        "input_schema": input_schema,
        "output_schema": output_schema.transpose().map_err(|error| not_converted(&error))?,
        "client": tool.client.as_ref().map(ClientName::as_str),
        "title": tool.title,
        "read_only": tool.annotations.read_only,
    }))
}

/// Returns the result of a call: its text, and the result as MCP has it. Fails if the call waits for an
/// approval.
pub(crate) fn reply_to_json(reply: CallReply) -> Result<Value, BindingFailure> {
    match reply {
        CallReply::Done(output) => output_to_json(&output),
        CallReply::NeedsApproval(pending) => Err(BindingFailure::approval_pending(&pending)),
        _ => Err(BindingFailure::Unavailable("the call has an outcome without a form".into())),
    }
}

fn output_to_json(output: &ToolOutput) -> Result<Value, BindingFailure> {
    let result = serde_json::to_value(output).map_err(|error| not_converted(&error))?;
    Ok(json!({"text": output.to_text(), "result": result}))
}

/// Describes the calls that wait.
pub(crate) fn all_pending_to_json(pending: &[PendingApproval]) -> Value {
    pending.iter().map(pending_to_json).collect()
}

/// Reads the body of a chat completion request.
pub(crate) fn conversation(body: Object) -> Result<Conversation, BindingFailure> {
    Ok(chat::read_request(body).map_err(RequestError::from)?)
}

/// Returns a reply as a chat completion, with the description of the calls as its member `airlock`.
pub(crate) fn completion_to_json(reply: ChatReply) -> Value {
    let ChatReply { reply, airlock, .. } = reply;
    // The beginning of a reply has its time, where its provider tells it.
    let mut completion = chat::write_reply(reply, 0);
    completion.extend(airlock.map(|calls| (AIRLOCK.to_owned(), calls.into())));
    completion.into()
}

/// A streamed chat. The model runs only while the next piece is waited for.
pub struct BindingChat(Mutex<ChatPhase>);

enum ChatPhase {
    Ready(Box<ChatState>),
    /// A call waits for the next piece, or was stopped meanwhile: the chat was cancelled then.
    Taken,
    Ended,
}

struct ChatState {
    events: ChatEvents,
    writer: ChunkWriter,
    /// Chunks that were not returned yet.
    ready: VecDeque<Value>,
}

impl BindingChat {
    pub(crate) fn new(events: ChatEvents) -> Self {
        let state = ChatState { events, writer: ChunkWriter::new(0, true), ready: VecDeque::new() };
        Self(Mutex::new(ChatPhase::Ready(Box::new(state))))
    }

    /// Returns the next chunk, of a chat completion that is streamed; `None` after the last one. An event of a
    /// call is a chunk without text that has it as its member `airlock`. Dropping the future cancels the chat.
    pub async fn next(&self) -> Result<Option<Value>, BindingFailure> {
        let phase = mem::replace(&mut *self.0.lock(), ChatPhase::Taken);
        let mut state = match phase {
            ChatPhase::Ready(state) => state,
            ChatPhase::Taken => {
                return Err(BindingFailure::Invalid(
                    "the chat was cancelled, or another call waits for its next piece".into(),
                ));
            }
            ChatPhase::Ended => {
                self.close();
                return Ok(None);
            }
        };
        loop {
            if let Some(chunk) = state.ready.pop_front() {
                let mut phase = self.0.lock();
                // Unless it was closed meanwhile.
                if matches!(*phase, ChatPhase::Taken) {
                    *phase = ChatPhase::Ready(state);
                }
                return Ok(Some(chunk));
            }
            match state.events.next().await {
                Some(Ok(event)) => state.add(event),
                Some(Err(failure)) => {
                    self.close();
                    return Err(RequestError::from(failure).into());
                }
                None => {
                    self.close();
                    return Ok(None);
                }
            }
        }
    }

    /// Cancels the chat.
    pub fn close(&self) {
        let before = mem::replace(&mut *self.0.lock(), ChatPhase::Ended);
        // Not under the lock, because dropping a chat cancels its calls.
        drop(before);
    }
}

impl ChatState {
    fn add(&mut self, event: ChatEvent) {
        let event = match event {
            ChatEvent::Delta(delta) => {
                let mut chunks = Vec::new();
                self.writer.delta(delta, &mut chunks);
                self.ready.extend(chunks.into_iter().map(Value::Object));
                return;
            }
            ChatEvent::Done { airlock } => {
                if let Some(calls) = airlock {
                    self.add_airlock(calls.into());
                }
                return;
            }
            ChatEvent::CallStarted(call) => json!({
                "type": "call_started",
                "tool_call_id": call.tool_call_id,
                "name": call.name,
                "arguments": call.arguments,
            }),
            ChatEvent::Progress { tool_call_id, progress } => {
                json!({"type": "call_progress", "tool_call_id": tool_call_id, "progress": progress})
            }
            ChatEvent::Partial { tool_call_id, part } => {
                json!({"type": "call_partial", "tool_call_id": tool_call_id, "text": part.as_text()})
            }
            ChatEvent::CallEnded(call) => json!({
                "type": "call_ended",
                "tool_call_id": call.tool_call_id,
                "name": call.name,
                "status": if call.error.is_none() { "ok" } else { "error" },
                "code": call.error.as_ref().map(|error| &error.code),
                "error": call.error,
                "result": &*call.text,
            }),
            ChatEvent::Round { rounds } => json!({"type": "round", "rounds": rounds}),
            _ => return,
        };
        self.add_airlock(json!({"event": event}));
    }

    fn add_airlock(&mut self, airlock: Value) {
        let mut chunk = self.writer.empty();
        chunk.insert(AIRLOCK.to_owned(), airlock);
        self.ready.push_back(chunk.into());
    }
}
