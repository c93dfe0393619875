//! A gateway as an object of JavaScript. Each method begins work as a task of the runtime; its end is a message to the
//! program, with the number that the package has given the work.

#![allow(clippy::needless_pass_by_value, reason = "JavaScript passes arguments by value")]

use std::{path::PathBuf, sync::Arc};

use airlock_binding::{
    BindingChat, BindingFailure, BindingGateway, GatewayChoices, GatewayConfig, HostRuntime,
    RequestOptions, ToolSpec, parse_value,
};
use napi_derive::napi;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::task::AbortHandle;

use crate::{
    caller::{NodeReceiver, OpenCalls, ThrownError},
    convert::to_text,
    failure::{described, thrown},
    log,
    program::{NodeProgram, ProgramMessage},
};

/// A gateway as the package describes it.
#[napi(object)]
pub struct NodeGatewayFields {
    /// Path of the configuration file.
    pub file: Option<String>,
    /// Content of the configuration in the place of a file: an object, as text.
    pub content: Option<String>,
    /// True if the tools are for scripts.
    pub code_mode: bool,
    /// True if there is a model function.
    pub has_model: bool,
}

/// Sender of a request, and the tools that it selects.
#[napi(object)]
pub struct NodeRequestFields {
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
    /// Treatment of a model's calls that need an approval.
    pub approval: Option<String>,
    /// Bound on the time of a call or a chat.
    pub seconds: Option<f64>,
    /// True if the program is the operator.
    pub operator: bool,
    /// True if each call is its own approval.
    pub approving: bool,
    /// Depth of the call whose function sends the request.
    pub depth: u32,
}

impl From<NodeRequestFields> for RequestOptions {
    fn from(fields: NodeRequestFields) -> Self {
        Self {
            key: fields.key,
            clients: fields.clients,
            tools: fields.tools,
            exclude_tools: fields.exclude_tools,
            language: fields.language,
            approval: fields.approval,
            timeout_seconds: fields.seconds,
            is_operator: fields.operator,
            is_approving: fields.approving,
            depth: fields.depth,
            context: None,
        }
    }
}

/// State that the objects of one gateway share.
struct SharedGateway {
    host: Arc<HostRuntime>,
    /// `None` before it is started, and once it is stopped: the event loop does not wait for it then.
    running: Mutex<Option<RunningGateway>>,
    calls: Arc<OpenCalls>,
}

#[derive(Clone)]
struct RunningGateway {
    gateway: Arc<BindingGateway>,
    program: Arc<NodeProgram>,
}

/// Kind of work, by what its end means for the event loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkKind {
    /// Without a gateway, nothing follows it.
    Start,
    Request,
    /// Nothing follows it.
    Stop,
}

/// Result of work.
enum WorkResult {
    Nothing,
    Json(Value),
    Gateway(BindingGateway),
    Chat(BindingChat),
}

/// A gateway that starts, or has started. It stops at once if this object is dropped, as when its thread ends.
#[napi]
pub struct NodeGateway {
    state: Arc<SharedGateway>,
    /// The work that starts it.
    _start: NodeWork,
}

/// Work that was begun. It is cancelled if this object is dropped, as when its thread ends.
#[napi]
pub struct NodeWork {
    task: AbortHandle,
    chat: ChatSlot,
    state: Arc<SharedGateway>,
}

/// A streamed chat, between the end of the work that begins it and the package.
type ChatSlot = Arc<Mutex<Option<BindingChat>>>;

/// A streamed chat.
#[napi]
pub struct NodeChat {
    chat: Arc<BindingChat>,
    state: Arc<SharedGateway>,
}

impl NodeGateway {
    /// Begins to start a gateway, as the work 0.
    pub(crate) fn start(
        fields: NodeGatewayFields,
        tools: Vec<ToolSpec>,
        receiver: NodeReceiver,
    ) -> napi::Result<Self> {
        log::begin();
        let host = HostRuntime::current().map_err(|failure| thrown(&failure))?;
        let program = NodeProgram::new(receiver);
        let calls = program.calls().clone();
        let state =
            Arc::new(SharedGateway { host: host.clone(), running: Mutex::new(None), calls });
        let functions = program.clone();
        let start = state.spawn(program, WorkKind::Start, 0, async move {
            let NodeGatewayFields { file, content, code_mode, has_model } = fields;
            let config = match (file, content) {
                (Some(path), _) => GatewayConfig::File(PathBuf::from(path)),
                (None, Some(text)) => GatewayConfig::Inline(object(&text)?),
                (None, None) => GatewayConfig::Inline(Map::new()),
            };
            let choices = GatewayChoices { config, tools, is_code_mode: code_mode, has_model };
            let started = BindingGateway::start(host, choices, functions);
            Box::pin(started).await.map(WorkResult::Gateway)
        });
        Ok(Self { state, _start: start })
    }

    /// Begins work of the gateway. Fails if it was stopped.
    fn begin<W>(
        &self,
        work: u32,
        begin: impl FnOnce(Arc<BindingGateway>) -> W,
    ) -> napi::Result<NodeWork>
    where
        W: Future<Output = Result<WorkResult, BindingFailure>> + Send + 'static,
    {
        let RunningGateway { gateway, program } = self.state.running()?;
        Ok(self.state.spawn(program, WorkKind::Request, work, begin(gateway)))
    }
}

#[napi]
impl NodeGateway {
    /// Returns the tools that a request sees.
    #[napi]
    pub fn tools(&self, work: u32, options: NodeRequestFields) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            gateway.tools(options.into()).await.map(WorkResult::Json)
        })
    }

    /// Calls a tool. The arguments are an object, as text.
    #[napi]
    pub fn call(
        &self,
        work: u32,
        options: NodeRequestFields,
        name: String,
        arguments: String,
    ) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            let arguments = object(&arguments)?;
            gateway.call(options.into(), &name, arguments).await.map(WorkResult::Json)
        })
    }

    /// Runs a script.
    #[napi]
    pub fn run_script(
        &self,
        work: u32,
        options: NodeRequestFields,
        code: String,
    ) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            gateway.run_script(options.into(), &code).await.map(WorkResult::Json)
        })
    }

    /// Sends the body of a chat completion request, as text, to its model.
    #[napi]
    pub fn chat(
        &self,
        work: u32,
        options: NodeRequestFields,
        body: String,
    ) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            let body = object(&body)?;
            gateway.chat(options.into(), body).await.map(WorkResult::Json)
        })
    }

    /// Does the same, streamed. The end of the work has the chat.
    #[napi]
    pub fn chat_stream(
        &self,
        work: u32,
        options: NodeRequestFields,
        body: String,
    ) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            let body = object(&body)?;
            gateway.chat_stream(options.into(), body).await.map(WorkResult::Chat)
        })
    }

    /// Returns the calls that wait for an approval.
    #[napi]
    pub fn pending(&self, work: u32, options: NodeRequestFields) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            gateway.pending(options.into()).await.map(WorkResult::Json)
        })
    }

    /// Approves calls that wait.
    #[napi]
    pub fn approve(
        &self,
        work: u32,
        options: NodeRequestFields,
        id: String,
    ) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            gateway.approve(options.into(), &id).await.map(|()| WorkResult::Nothing)
        })
    }

    /// Denies calls that wait.
    #[napi]
    pub fn deny(
        &self,
        work: u32,
        options: NodeRequestFields,
        id: String,
        reason: String,
    ) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            gateway.deny(options.into(), &id, &reason).await.map(|()| WorkResult::Nothing)
        })
    }

    /// Makes a call that has waited, or lets its script go on.
    #[napi]
    pub fn resume(
        &self,
        work: u32,
        options: NodeRequestFields,
        id: String,
    ) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            gateway.resume(options.into(), &id).await.map(WorkResult::Json)
        })
    }

    /// Begins to serve HTTP, and returns the address.
    #[napi]
    pub fn serve(&self, work: u32) -> napi::Result<NodeWork> {
        self.begin(work, |gateway| async move {
            let address = gateway.serve().await?;
            Ok(WorkResult::Json(address.to_string().into()))
        })
    }

    /// Stops the gateway. It takes no further work.
    #[napi]
    pub fn stop(&self, work: u32) -> napi::Result<NodeWork> {
        let RunningGateway { gateway, program } = self.state.running()?;
        *self.state.running.lock() = None;
        let stopping = async move { gateway.stop().await.map(|()| WorkResult::Nothing) };
        Ok(self.state.spawn(program, WorkKind::Stop, work, stopping))
    }

    /// Takes the result of a function, as text.
    #[napi]
    pub fn succeed(&self, call: String, result: String) {
        self.state.calls.end(&call, Ok(result));
    }

    /// Takes the failure of a function: the name of the type of its error, and its text.
    #[napi]
    pub fn fail(&self, call: String, kind: String, text: String) {
        self.state.calls.end(&call, Err(ThrownError::new(&kind, &text)));
    }
}

#[napi]
impl NodeWork {
    /// Cancels the work, unless it has ended.
    #[napi]
    pub fn cancel(&self) {
        self.task.abort();
    }

    /// Returns the chat, once, after the message that the work has ended.
    #[napi]
    pub fn take_chat(&self) -> Option<NodeChat> {
        let chat = self.chat.lock().take()?;
        Some(NodeChat { chat: Arc::new(chat), state: self.state.clone() })
    }
}

impl Drop for NodeWork {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[napi]
impl NodeChat {
    /// Waits for the next chunk; its result is `null` after the last one.
    #[napi]
    pub fn next(&self, work: u32) -> napi::Result<NodeWork> {
        let RunningGateway { program, .. } = self.state.running()?;
        let chat = self.chat.clone();
        let next = async move {
            let next = chat.next().await?;
            Ok(next.map_or(WorkResult::Nothing, WorkResult::Json))
        };
        Ok(self.state.spawn(program, WorkKind::Request, work, next))
    }

    /// Cancels the chat.
    #[napi]
    pub fn close(&self) {
        let _runtime = self.state.host.handle().enter();
        self.chat.close();
    }
}

impl Drop for NodeChat {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedGateway {
    /// Returns the gateway. Fails if it was stopped.
    fn running(&self) -> napi::Result<RunningGateway> {
        let running = self.running.lock().clone();
        running.ok_or_else(|| thrown(&BindingFailure::stopped("the gateway was stopped")))
    }

    /// Begins work. Its end is a message to the program.
    fn spawn(
        self: &Arc<Self>,
        program: Arc<NodeProgram>,
        kind: WorkKind,
        work: u32,
        future: impl Future<Output = Result<WorkResult, BindingFailure>> + Send + 'static,
    ) -> NodeWork {
        let chat = ChatSlot::default();
        let state = self.clone();
        let delivery =
            WorkDelivery { state, program, kind, work, chat: chat.clone(), is_due: true };
        let task = self.host.handle().spawn(delivery.run(future)).abort_handle();
        NodeWork { task, chat, state: self.clone() }
    }
}

/// Delivers the end of work, also if its task panics or is cancelled: a promise that nothing settles would wait for
/// ever.
struct WorkDelivery {
    state: Arc<SharedGateway>,
    program: Arc<NodeProgram>,
    kind: WorkKind,
    work: u32,
    chat: ChatSlot,
    is_due: bool,
}

impl WorkDelivery {
    async fn run(
        mut self,
        future: impl Future<Output = Result<WorkResult, BindingFailure>> + Send,
    ) {
        let ended = future.await;
        self.is_due = false;
        self.deliver(ended);
    }

    fn deliver(&self, ended: Result<WorkResult, BindingFailure>) {
        let work = self.work;
        let is_failed = ended.is_err();
        self.program.send(match ended {
            Ok(result) => ProgramMessage::Done { work, result: self.kept(result) },
            Err(failure) => ProgramMessage::Failed { work, failure: described(&failure) },
        });
        if self.kind == WorkKind::Stop || (self.kind == WorkKind::Start && is_failed) {
            self.program.release();
        }
    }

    /// Keeps what is an object of its own, and returns the rest as text.
    fn kept(&self, result: WorkResult) -> String {
        match result {
            WorkResult::Nothing => {}
            WorkResult::Json(value) => return to_text(&value),
            WorkResult::Gateway(gateway) => {
                let gateway = Arc::new(gateway);
                let program = self.program.clone();
                *self.state.running.lock() = Some(RunningGateway { gateway, program });
            }
            WorkResult::Chat(chat) => *self.chat.lock() = Some(chat),
        }
        "null".to_owned()
    }
}

impl Drop for WorkDelivery {
    fn drop(&mut self) {
        if self.is_due {
            let stopped = "the work of the gateway was stopped";
            self.deliver(Err(BindingFailure::Cancelled(stopped.into())));
        }
    }
}

/// Reads a text that has an object.
fn object(text: &str) -> Result<Map<String, Value>, BindingFailure> {
    match parse_value(text)? {
        Value::Object(members) => Ok(members),
        _ => Err(BindingFailure::Invalid("an object of names and values is expected".into())),
    }
}
