//! A gateway within a program, with functions of the program as tools and as a model.
//!
//! ```text
//! a call of the program ─► GatewayRequest ─┐
//! HTTP, MCP ───────────────────────────────┼─► door ─► tools ─► GatewayProgram ─► a function of the program
//! chat ─► GatewayProgram (the model) ──────┘
//! ```

use std::{future::pending, mem, net::SocketAddr, path::PathBuf, sync::Arc};

use airlock::{
    Gateway, GatewayError, GatewayRequest, ModelFailure, NativeTool, ToolContext, ToolEffect,
    config::{self, Config},
    tool::{Allowlist, Policy, ToolError, ToolOutput, Trust},
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::{
    sync,
    task::{JoinError, JoinHandle},
};

use crate::{
    BindingChat, BindingFailure, HostRuntime, ModelAnswer, RequestOptions, ToolSpec,
    model::ProgramModel,
    request::{all_pending_to_json, completion_to_json, conversation, reply_to_json, tool_to_json},
};

/// Name of the provider that the model function of a program is.
const OWN_MODEL: &str = "own";
/// Name of a configuration that is no file, for errors. Its paths are relative to the working directory.
const INLINE: &str = "the configuration";

/// Functions of the program that a gateway calls.
pub trait GatewayProgram: Send + Sync {
    /// Calls a tool, by its place among the tools. The arguments fit its schema. Requests that the function sends to the
    /// gateway have the depth of the context as theirs. Dropping the future cancels the call.
    fn call(
        self: Arc<Self>,
        tool: usize,
        arguments: Map<String, Value>,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<Value, ToolError>>;

    /// Asks the model function. The request is the body of a chat completion request. Requests that the function sends to
    /// the gateway have the depth of the task, [`call_depth`](airlock::door::call_depth), as theirs.
    fn respond(
        self: Arc<Self>,
        request: Map<String, Value>,
    ) -> BoxFuture<'static, Result<ModelAnswer, ModelFailure>>;
}

/// Configuration of a gateway.
pub enum GatewayConfig {
    /// A file.
    File(PathBuf),
    /// Its content.
    Inline(Map<String, Value>),
}

/// Choices of a program that makes a gateway.
pub struct GatewayChoices {
    /// Configuration of the gateway.
    pub config: GatewayConfig,
    /// Tools of the program.
    pub tools: Vec<ToolSpec>,
    /// True if its tools are for scripts.
    pub is_code_mode: bool,
    /// True if it has a model function.
    pub has_model: bool,
}

/// A gateway of the program. Dropping it stops it at once, also if it serves: requests in flight end without a response.
pub struct BindingGateway {
    host: Arc<HostRuntime>,
    /// `None` once it is stopped.
    gateway: Mutex<Option<Gateway>>,
    serving: Mutex<Option<ServingTask>>,
    /// Held by the call that begins to serve: others wait for its address.
    beginning: sync::Mutex<()>,
}

/// A task that serves HTTP.
type ServingTask = JoinHandle<Result<(), GatewayError>>;

/// A task that begins to serve. Dropping this keeps the task, unless it has ended: a wait for the address that is cancelled
/// must not leave a task that nothing can stop.
struct BeginningTask<'g> {
    task: Option<ServingTask>,
    kept: &'g Mutex<Option<ServingTask>>,
}

impl BindingGateway {
    /// Starts a gateway, and waits until its plugins are loaded. Fails if the configuration or a tool is not
    /// valid, or if the gateway does not start.
    pub async fn start(
        host: Arc<HostRuntime>,
        choices: GatewayChoices,
        program: Arc<dyn GatewayProgram>,
    ) -> Result<Self, BindingFailure> {
        let GatewayChoices { config, tools, is_code_mode, has_model } = choices;
        let mut builder = Gateway::builder(read(config)?);
        for (place, spec) in tools.iter().enumerate() {
            builder = builder.register_tool(native(place, spec, &program))?;
        }
        builder = builder.native_policy(policy(&tools, is_code_mode)?);
        if has_model {
            builder = builder.with_model_source(OWN_MODEL, Arc::new(ProgramModel(program)));
        }
        let gateway = Box::pin(builder.start()).await?;
        gateway.watch_plugins();
        let gateway = Mutex::new(Some(gateway));
        Ok(Self { host, gateway, serving: Mutex::new(None), beginning: sync::Mutex::new(()) })
    }

    /// Returns the definitions of the tools that a request sees.
    pub async fn tools(&self, options: RequestOptions) -> Result<Value, BindingFailure> {
        let tools = Box::pin(self.request(options)?.tools()).await?;
        tools.iter().map(|tool| tool_to_json(tool)).collect()
    }

    /// Calls a tool. Fails if it waits for an approval.
    pub async fn call(
        &self,
        options: RequestOptions,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, BindingFailure> {
        let reply = Box::pin(self.request(options)?.call(name, arguments)).await?;
        reply_to_json(reply)
    }

    /// Runs a script. Fails if calls of it wait for an approval.
    pub async fn run_script(
        &self,
        options: RequestOptions,
        code: &str,
    ) -> Result<Value, BindingFailure> {
        let reply = Box::pin(self.request(options)?.run_script(code)).await?;
        reply_to_json(reply)
    }

    /// Sends the body of a chat completion request to its model, and returns the chat completion.
    pub async fn chat(
        &self,
        options: RequestOptions,
        body: Map<String, Value>,
    ) -> Result<Value, BindingFailure> {
        let conversation = conversation(body)?;
        let reply = Box::pin(self.request(options)?.chat(conversation)).await?;
        Ok(completion_to_json(reply))
    }

    /// Begins a chat as [`Self::chat`] does, which is streamed.
    pub async fn chat_stream(
        &self,
        options: RequestOptions,
        body: Map<String, Value>,
    ) -> Result<BindingChat, BindingFailure> {
        let conversation = conversation(body)?;
        let events = Box::pin(self.request(options)?.chat_stream(conversation)).await?;
        Ok(BindingChat::new(events))
    }

    /// Returns the calls that wait for an approval.
    pub async fn pending(&self, options: RequestOptions) -> Result<Value, BindingFailure> {
        let pending = Box::pin(self.request(options)?.pending()).await?;
        Ok(all_pending_to_json(&pending))
    }

    /// Approves calls that wait.
    pub async fn approve(&self, options: RequestOptions, id: &str) -> Result<(), BindingFailure> {
        Ok(Box::pin(self.request(options)?.approve(id)).await?)
    }

    /// Denies calls that wait.
    pub async fn deny(
        &self,
        options: RequestOptions,
        id: &str,
        reason: &str,
    ) -> Result<(), BindingFailure> {
        Ok(Box::pin(self.request(options)?.deny(id, reason)).await?)
    }

    /// Makes a call that has waited, or lets its script go on.
    pub async fn resume(&self, options: RequestOptions, id: &str) -> Result<Value, BindingFailure> {
        let reply = Box::pin(self.request(options)?.resume(id)).await?;
        reply_to_json(reply)
    }

    /// Begins to serve HTTP as a task, and returns the address. The address again if it serves already.
    pub async fn serve(&self) -> Result<SocketAddr, BindingFailure> {
        let _beginning = self.beginning.lock().await;
        let gateway = self.gateway()?;
        if let Some(address) = gateway.local_addr() {
            return Ok(address);
        }
        // The task of a call that was cancelled before it had the address.
        let begun = self.serving.lock().take();
        let task = Some(begun.unwrap_or_else(|| self.host.handle().spawn(gateway.serve())));
        let mut beginning = BeginningTask { task, kept: &self.serving };
        let served = tokio::select! {
            biased;
            served = beginning.ended() => served,
            address = gateway.bound_addr() => return Ok(address),
        };
        match served {
            Ok(Err(GatewayError::Served)) => {
                Err(BindingFailure::stopped("the gateway has stopped, because it could not serve"))
            }
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(())) | Err(_) => Err(BindingFailure::stopped("the gateway was stopped")),
        }
    }

    /// Stops the gateway: lets requests in flight end, for a while. Further calls wait for the same. Fails if serving
    /// has failed before.
    pub async fn stop(&self) -> Result<(), BindingFailure> {
        let gateway = self.gateway.lock().clone();
        let Some(gateway) = gateway else { return Ok(()) };
        Box::pin(gateway.stop()).await;
        // Not before: another call would return while requests are in flight.
        *self.gateway.lock() = None;
        let serving = self.serving.lock().take();
        match serving {
            // A task that was lost has been reported.
            Some(serving) => Ok(serving.await.unwrap_or(Ok(()))?),
            None => Ok(()),
        }
    }

    /// Returns the runtime of its work. Fails if the gateway belongs to the parent of a fork.
    pub fn host(&self) -> Result<Arc<HostRuntime>, BindingFailure> {
        self.host.check_process()?;
        Ok(self.host.clone())
    }

    /// Returns the gateway. Fails if it was stopped.
    fn gateway(&self) -> Result<Gateway, BindingFailure> {
        let gateway = self.gateway.lock().clone();
        gateway.ok_or_else(|| BindingFailure::stopped("the gateway was stopped"))
    }

    fn request(&self, options: RequestOptions) -> Result<GatewayRequest, BindingFailure> {
        options.open(&self.gateway()?)
    }
}

impl BeginningTask<'_> {
    /// Waits until the task has ended.
    async fn ended(&mut self) -> Result<Result<(), GatewayError>, JoinError> {
        let Some(task) = &mut self.task else { return pending().await };
        let ended = task.await;
        self.task = None;
        ended
    }
}

impl Drop for BeginningTask<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.kept.lock().get_or_insert(task);
        }
    }
}

impl Drop for BindingGateway {
    fn drop(&mut self) {
        let gateway = self.gateway.get_mut().take();
        if self.host.is_this() {
            let _runtime = self.host.handle().enter();
            // The task holds a clone of the gateway, and would keep it running.
            if let Some(serving) = self.serving.get_mut().take() {
                serving.abort();
            }
            drop(gateway);
        } else {
            // The threads that it would wait for are those of the parent.
            mem::forget(gateway);
        }
    }
}

fn read(config: GatewayConfig) -> Result<Config, BindingFailure> {
    Ok(match config {
        GatewayConfig::File(path) => Config::load(&path)?,
        GatewayConfig::Inline(members) => {
            let text = Value::Object(members).to_string();
            Config::parse(&text, INLINE, &config::environment)?
        }
    })
}

/// Returns the policy of the program's tools: those that need no approval are called without one.
fn policy(tools: &[ToolSpec], is_code_mode: bool) -> Result<Policy, BindingFailure> {
    let automatic = tools.iter().filter(|tool| !tool.needs_approval);
    let automatic: Vec<&str> = automatic.map(|tool| tool.name.as_str()).collect();
    let auto_execute = Allowlist::parse(&automatic);
    let auto_execute = auto_execute.map_err(|error| BindingFailure::BadTool(error.to_string()))?;
    Ok(Policy {
        execute: Allowlist::All,
        auto_execute,
        code_mode: is_code_mode,
        trust: Trust::Trusted,
        ..Policy::default()
    })
}

fn native(place: usize, spec: &ToolSpec, program: &Arc<dyn GatewayProgram>) -> NativeTool {
    let program = program.clone();
    let schema = spec.input_schema.clone();
    let tool = NativeTool::new(&spec.name, &spec.description, schema, move |arguments, context| {
        let called = program.clone().call(place, arguments, context);
        async move { called.await.map(output) }
    });
    if spec.is_read_only { tool.effect(ToolEffect::Reads) } else { tool }
}

/// Returns the result of a function: a text, or JSON as text, and an object as data too.
fn output(value: Value) -> ToolOutput {
    match value {
        Value::String(text) => ToolOutput::text(text),
        value => {
            let text = ToolOutput::text(value.to_string());
            ToolOutput { structured: Some(value).filter(Value::is_object), ..text }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn spec(name: &str, needs_approval: bool) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: serde_json::json!({"type": "object", "properties": {}}),
            parameters: Vec::new(),
            needs_approval,
            is_read_only: false,
        }
    }

    #[test]
    fn only_tools_that_need_no_approval_are_called_without_one() {
        let policy = policy(&[spec("find", false), spec("pay", true)], false).expect("a policy");
        assert!(policy.execute.allows("pay") && policy.auto_execute.allows("find"));
        assert!(!policy.auto_execute.allows("pay"));
    }

    #[test]
    fn an_object_is_data_and_text_and_a_text_is_text_alone() {
        let object = output(serde_json::json!({"a": 1}));
        assert_eq!(object.to_text(), r#"{"a":1}"#);
        assert!(object.structured.is_some());
        let text = output("tea".into());
        assert_eq!((text.to_text().as_str(), text.structured), ("tea", None));
    }

    #[tokio::test]
    async fn a_task_that_serves_is_kept_if_the_wait_for_its_address_is_cancelled() {
        let kept = Mutex::new(None);
        let task = Some(tokio::spawn(pending()));
        let mut beginning = BeginningTask { task, kept: &kept };
        assert!(beginning.ended().now_or_never().is_none());
        drop(beginning);
        let task = kept.lock().take().expect("it is kept");
        task.abort();
        let mut ending = BeginningTask { task: Some(task), kept: &kept };
        assert!(ending.ended().await.is_err_and(|lost| lost.is_cancelled()));
        drop(ending);
        assert!(kept.lock().is_none(), "it has ended");
    }

    #[test]
    fn a_configuration_that_is_not_valid_has_a_class_of_its_own() {
        let unknown = Map::from_iter([("no_such_key".to_owned(), Value::Null)]);
        let refused = read(GatewayConfig::Inline(unknown)).map(drop).expect_err("it is refused");
        assert_eq!(refused.class_name(), "ConfigurationError");
    }
}
