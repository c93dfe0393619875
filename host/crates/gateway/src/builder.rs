//! Collects what a gateway is made of.

use std::{
    future::{Future, pending},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;

use super::{
    Gateway, GatewayError,
    assemble::{self, Unreadable},
    control::Controls,
    gateway::MAX_TIME,
    key_values::ShowKeyValue,
};
use crate::{
    native::{BadNativeTool, NativeTool, NativeTools},
    program_server::{BadServer, ProgramServer, ProgramServers},
};
use airlock_compile::CompileHook;
use airlock_config::Config;
use airlock_core::{
    door::{CallControl, CallPolicy},
    model_control::ModelControl,
    tool::{Allowlist, Policy, Trust},
};
use airlock_management::NewKeyValue;
use airlock_model::ModelSource;
use airlock_sandbox::UseRecorder;

/// Collects what a [`Gateway`] is made of.
#[must_use = "nothing runs before `start` or `open`"]
pub struct GatewayBuilder {
    pub(super) config: Config,
    pub(super) listener: Option<TcpListener>,
    pub(super) shutdown: BoxFuture<'static, ()>,
    pub(super) native: NativeTools,
    pub(super) native_policy: Policy,
    pub(super) models: Vec<(String, Arc<dyn ModelSource>)>,
    pub(super) servers: ProgramServers,
    /// Records which of their grants the plugins use.
    pub(super) recorder: Option<UseRecorder>,
    pub(super) on_compile: Option<Arc<CompileHook>>,
    /// False if the executor of scripts is loaded only when a script needs it.
    pub(super) loads_executor: bool,
    pub(super) on_new_key: Option<ShowKeyValue>,
    pub(super) controls: Controls,
}

impl Gateway {
    /// Returns a builder for a gateway with this configuration. Of its times, `budget.deadline`, `budget.script`,
    /// `agent.timeout` and `agent.approval_wait` are cut to a year.
    pub fn builder(config: Config) -> GatewayBuilder {
        GatewayBuilder::new(config)
    }
}

impl GatewayBuilder {
    fn new(config: Config) -> Self {
        let native_policy =
            Policy { execute: Allowlist::All, trust: Trust::Trusted, ..Policy::default() };
        Self {
            config: with_bounded_times(config),
            listener: None,
            shutdown: Box::pin(pending()),
            native: NativeTools::default(),
            native_policy,
            models: Vec::new(),
            servers: ProgramServers::default(),
            recorder: None,
            on_compile: None,
            loads_executor: true,
            on_new_key: None,
            controls: Controls::default(),
        }
    }

    /// Serves on this listener instead of the configured address. Its address replaces `server.listen`: if other
    /// machines reach it, the gateway does not start unless virtual keys are required.
    pub fn listener(mut self, listener: TcpListener) -> Self {
        if let Ok(address) = listener.local_addr() {
            self.config.server.listen = address;
        }
        self.listener = Some(listener);
        self
    }

    /// Stops serving when `signal` completes. Without it, the gateway serves until [`Gateway::stop`] is called
    /// or the future of [`Gateway::serve`] is dropped.
    pub fn shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Box::pin(signal);
        self
    }

    /// Adds a tool of the embedding program, named `internal-<name>`. It is subject to the same
    /// policy decisions as any other tool: models, and the program itself unless its request is
    /// [approving](crate::RequestBuilder::approving), may call it after an approval, or without one if
    /// [`GatewayBuilder::native_policy`] permits it. Fails if its name or a schema is not valid, or if
    /// another tool has its name. Tools may change later too, see [`Gateway::tools`].
    pub fn register_tool(mut self, tool: NativeTool) -> Result<Self, BadNativeTool> {
        self.native.register(tool)?;
        Ok(self)
    }

    /// Sets the policy for the embedding program's tools. The default permits execution of all of
    /// them, and automatic execution of none.
    pub fn native_policy(mut self, policy: Policy) -> Self {
        self.native_policy = policy;
        self
    }

    /// Adds a model of the program as a provider: requests name it as `NAME/model`. It comes after those of
    /// the configuration, whose fallbacks may name it. The gateway does not start if the name is not valid
    /// or another provider has it.
    pub fn with_model_source(mut self, name: &str, source: Arc<dyn ModelSource>) -> Self {
        self.models.push((name.to_owned(), source));
        self
    }

    /// Adds an MCP server that the program reaches in its own way, such as one inside the process, as a client
    /// with this name: a [`ServerTransport`](airlock_mcp_client::ServerTransport), or a [`ProgramServer`] with settings. It is
    /// supervised, pinned and bounded like the servers of the configuration, and the door decides about each
    /// call. It stays when the configuration changes; a client that gets its name later is left out. Fails if
    /// the name is not valid, or taken.
    pub fn with_server(
        mut self,
        name: &str,
        server: impl Into<ProgramServer>,
    ) -> Result<Self, BadServer> {
        self.servers.add(&self.config, name, server.into())?;
        Ok(self)
    }

    /// Adds a policy of the program: it is asked about each call that the rules of the configuration permit,
    /// whatever makes it, and may refuse the call or require an approval for it. It can neither admit a call
    /// nor do away with an approval. Of several, the strictest verdict counts.
    pub fn with_policy(mut self, policy: Arc<dyn CallPolicy>) -> Self {
        self.controls.add_policy(policy);
        self
    }

    /// Calls `hook` with a message for people when a component begins to be compiled, which takes
    /// seconds, once for each component. The value that it returns is dropped at the end. Several
    /// components are compiled at the same time. The log says the same.
    pub fn on_compile(
        mut self,
        hook: impl Fn(&str) -> Box<dyn Send> + Send + Sync + 'static,
    ) -> Self {
        self.on_compile = Some(Arc::new(hook));
        self
    }

    /// Calls `hook` with the credential that [`Gateway::serve`] makes for a virtual key of the configuration
    /// file that has none, for who operates the gateway: it is not shown again. Without a hook, none is
    /// made, and such a key is refused.
    pub fn on_new_key(mut self, hook: impl Fn(&NewKeyValue) + Send + Sync + 'static) -> Self {
        self.on_new_key = Some(Arc::new(hook));
        self
    }

    /// Adds a control of tool calls: it is asked before each call that the door admits, whatever makes it, and
    /// told of its end and of the calls that the door refuses. It can refuse a call and cannot admit one. It
    /// follows the gateway's own limits and those that were added before, and precedes the records.
    pub fn with_call_control(mut self, control: Arc<dyn CallControl>) -> Self {
        self.controls.add_calls(control);
        self
    }

    /// Adds a control of the requests to models: it is asked before each, and told of its end. It follows the
    /// gateway's own limits and those that were added before, and precedes the records.
    pub fn with_model_control(mut self, control: Arc<dyn ModelControl>) -> Self {
        self.controls.add_models(control);
        self
    }

    /// Loads every plugin and starts to connect to every server. A source that fails is marked as
    /// failed in the catalog and does not affect the others. Fails if the settings cannot be used, those
    /// in the store included, or if a guard or the script executor cannot be loaded.
    pub async fn start(self) -> Result<Gateway, GatewayError> {
        let (gateway, loading) = assemble::assemble(self, Unreadable::Fail)?;
        let loaded =
            loading.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
        loaded.unwrap_or(Ok(()))?;
        Ok(gateway)
    }

    /// Begins to load every plugin and to connect to every server, and returns at once. Components
    /// that are not in the cache of compiled code are compiled meanwhile, which may take a minute;
    /// calls of their tools wait. [`Gateway::loaded`] reports the end of it. Calls in the scope of a guard
    /// that is not loaded are refused. If the store has settings, the gateway has no clients until they were
    /// read, which is tried until it succeeds. Panics outside of a tokio runtime.
    pub fn open(self) -> Result<Gateway, GatewayError> {
        assemble::assemble(self, Unreadable::Retry).map(|(gateway, _)| gateway)
    }
}

/// Returns a configuration whose times are at most [`MAX_TIME`]. Those of a file are shorter.
fn with_bounded_times(mut config: Config) -> Config {
    config.budget = config.budget.within(MAX_TIME);
    config.agent.timeout = config.agent.timeout.min(MAX_TIME);
    config.agent.approval_wait = config.agent.approval_wait.min(MAX_TIME);
    config
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_of_the_program_that_has_no_end_is_cut() {
        let mut config = Config::parse("{}", "test", &|_| None).expect("a configuration");
        config.budget.deadline = Duration::MAX;
        config.agent.timeout = Duration::MAX;
        let GatewayBuilder { config, .. } = Gateway::builder(config);
        assert_eq!([config.budget.deadline, config.agent.timeout], [MAX_TIME; 2]);
        assert!(config.budget.script < MAX_TIME, "a time of the file is as it was");
    }

    #[tokio::test]
    async fn the_address_of_a_listener_replaces_the_configured_one() {
        let config = Config::parse("{}", "test", &|_| None).expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        assert_eq!(Gateway::builder(config).listener(listener).config.server.listen, address);
    }
}
