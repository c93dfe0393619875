//! Makes a gateway: the configuration → the parts → the gateway.

use std::{
    future::{Future, pending},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::error;

use super::{
    Gateway, GatewayError, Reloader, UNSAFE,
    background::Background,
    certificate::Certificate,
    code_mode, follow, management,
    reload::{LiveParts, configured, must_read},
    upstreams::{ServerThreads, UpstreamServers},
};
use crate::native::{BadNativeTool, NativeTool, NativeTools};
use airlock_agent::results::Results;
use airlock_catalog::Catalog;
use airlock_config::{self as config, Config};
use airlock_core::{
    door::LiveKeys,
    tool::{Allowlist, Policy, Trust},
};
use airlock_model::Models;
use airlock_plugin::{self as plugin, CompileHook, Plugins};
use airlock_sandbox::{Sandbox, UseRecorder};
use airlock_scripts::{LazyExecutor, runs::Runs};
use airlock_store::LazyDatabase;
use airlock_strings::with_causes;

/// Task that reads the settings of the store and loads the plugins and the script executor. Returns
/// `None` if the gateway stops before.
type Loading = JoinHandle<Option<Result<(), GatewayError>>>;

/// Decision about settings of the store that cannot be read at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    /// The gateway does not start.
    Fail,
    /// It tries again, and answers no request until then.
    Retry,
}

/// Collects what a [`Gateway`] is made of.
pub struct GatewayBuilder {
    config: Config,
    listener: Option<TcpListener>,
    shutdown: BoxFuture<'static, ()>,
    native: NativeTools,
    native_policy: Policy,
    recorder: Option<UseRecorder>,
    on_compile: Option<Arc<CompileHook>>,
}

impl GatewayBuilder {
    pub(super) fn new(config: Config) -> Self {
        let native_policy =
            Policy { execute: Allowlist::All, trust: Trust::Trusted, ..Policy::default() };
        Self {
            config,
            listener: None,
            shutdown: Box::pin(pending()),
            native: NativeTools::default(),
            native_policy,
            recorder: None,
            on_compile: None,
        }
    }

    /// Serves on this listener instead of the configured address.
    #[must_use]
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Shuts down when `signal` completes. Without it, the gateway runs until its future is
    /// dropped.
    #[must_use]
    pub fn shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Box::pin(signal);
        self
    }

    /// Adds a tool of the embedding program, named `internal-<name>`. It is subject to the same
    /// policy decisions as any other tool: models may call it after an approval, or without one if
    /// [`GatewayBuilder::native_policy`] permits it. Fails if its name or a schema is not valid, or if
    /// another tool has its name.
    pub fn register_tool(mut self, tool: NativeTool) -> Result<Self, BadNativeTool> {
        self.native.register(tool)?;
        Ok(self)
    }

    /// Sets the policy for the embedding program's tools. The default permits execution of all of
    /// them, and automatic execution of none.
    #[must_use]
    pub fn native_policy(mut self, policy: Policy) -> Self {
        self.native_policy = policy;
        self
    }

    /// Records which of their grants the plugins use. Without it, nothing is recorded.
    #[must_use]
    #[cfg_attr(not(feature = "cli"), allow(dead_code))]
    pub(crate) fn record_uses(mut self, recorder: UseRecorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Calls `hook` with a message for people when a component begins to be compiled, which takes
    /// seconds, once for each component. The value that it returns is dropped at the end. Several
    /// components are compiled at the same time. The log says the same.
    #[must_use]
    pub fn on_compile(
        mut self,
        hook: impl Fn(&str) -> Box<dyn Send> + Send + Sync + 'static,
    ) -> Self {
        self.on_compile = Some(Arc::new(hook));
        self
    }

    /// Loads every plugin and starts to connect to every server. A source that fails is marked as
    /// failed in the catalog and does not affect the others. Fails if the settings cannot be used, those
    /// in the store included, or the script executor cannot be loaded.
    pub async fn start(self) -> Result<Gateway, GatewayError> {
        let (gateway, loading) = self.assemble(Unreadable::Fail)?;
        let loaded =
            loading.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
        loaded.unwrap_or(Ok(()))?;
        Ok(gateway)
    }

    /// Begins to load every plugin and to connect to every server, and returns at once. Components
    /// that are not in the cache of compiled code are compiled meanwhile, which may take a minute;
    /// calls of their tools wait. [`Gateway::loaded`] reports the end of it. If the store has settings,
    /// the gateway has no clients until they were read, which is tried until it succeeds. Must be
    /// called in a tokio runtime.
    pub fn open(self) -> Result<Gateway, GatewayError> {
        self.assemble(Unreadable::Retry).map(|(gateway, _)| gateway)
    }

    /// Makes the parts and the gateway of them, with the task that loads its plugins.
    fn assemble(self, unreadable: Unreadable) -> Result<(Gateway, Loading), GatewayError> {
        let config = self.config;
        config.server.check().map_err(GatewayError::configuration(UNSAFE))?;
        let models = Models::new(&config.providers)
            .map_err(GatewayError::configuration("a model provider cannot be set up"))?;
        let sandbox = Sandbox::new(&config.sandbox)?;
        let settings = config.store_settings();
        let settings = settings.map_err(GatewayError::configuration("the store cannot be used"))?;
        let database = LazyDatabase::new(settings);
        let runs = config.runs.journal.then(|| Runs::new(config.runs, database.clone()));
        let results = Results::new(config.results);
        let catalog = Catalog::new();
        catalog.set_reader(results.own_tools());
        catalog.set_resource_reader(results.resource_tools());
        catalog.switch_off(config.tools_off);
        catalog.set_groups(config.groups.clone());
        // Clients of the store may be in code mode.
        let must_read = must_read(&config);
        let has_code_mode = must_read || code_mode::is_used(&config, &self.native_policy);
        self.native.publish(&catalog, self.native_policy);
        let background = Background::new();
        let upstreams = UpstreamServers::new(&config, &catalog, &database, background.tasks());
        upstreams.prepare(&config).map_err(GatewayError::Threads)?;
        let resources = plugin::Resources {
            catalog: catalog.clone(),
            sandbox: sandbox.clone(),
            lock: config.lock.clone(),
            store: database.clone(),
            environment: config::environment,
            on_compile: self.on_compile.clone(),
            recorder: self.recorder,
        };
        // Entries of the store may replace or remove the clients and the keys of the file.
        let plugins = Plugins::new(resources, configured(&config).take_while(|_| !must_read));
        plugins.announce();
        let keys = LiveKeys::default();
        if !must_read {
            upstreams.configure(&config);
            keys.replace(config.keys.clone());
        }
        let certificate = config.server.tls.clone().map(Certificate::new);
        let parts = LiveParts {
            certificate: certificate.clone(),
            keys: keys.clone(),
            requires_key: Arc::default(),
            catalog: catalog.clone(),
            upstreams: upstreams.clone(),
            plugins: plugins.clone(),
            sandbox: sandbox.clone(),
            has_code_mode,
            database: database.clone(),
            tasks: background.tasks().clone(),
        };
        let reloader = Reloader::new(&config, parts, must_read);
        let management = management::service(&config, &database, &reloader, &catalog);
        let (code_mode, executor) = has_code_mode
            .then(|| code_mode::install(&config, &catalog, &sandbox, runs.clone(), self.on_compile))
            .unzip();
        if let Some(code_mode) = code_mode.clone() {
            let catalog = catalog.clone();
            background.spawn(async move { code_mode.follow(&catalog).await });
        }
        let loaded = CancellationToken::new();
        let load = Load {
            reloader: reloader.clone(),
            unreadable,
            plugins: plugins.clone(),
            executor,
            catalog: catalog.clone(),
            loaded: loaded.clone().drop_guard(),
        };
        let loading = background.spawn(load.run());
        let gateway = Gateway {
            config,
            catalog,
            sandbox,
            database,
            models,
            results,
            listener: self.listener,
            shutdown: self.shutdown,
            runs,
            code_mode,
            plugins,
            reloader,
            certificate,
            management,
            keys,
            loaded,
            background,
            upstreams: ServerThreads(upstreams),
        };
        Ok((gateway, loading))
    }
}

/// Work of a gateway that has just been made.
struct Load {
    reloader: Reloader,
    unreadable: Unreadable,
    plugins: Plugins,
    executor: Option<LazyExecutor>,
    catalog: Arc<Catalog>,
    /// Dropped at the end.
    loaded: DropGuard,
}

impl Load {
    /// Reads the settings of the store, then loads the plugins, then the script executor.
    async fn run(self) -> Result<(), GatewayError> {
        let Self { reloader, unreadable, plugins, executor, catalog, loaded: _loaded } = self;
        match unreadable {
            Unreadable::Fail if !reloader.settings_read().is_cancelled() => {
                let taken = reloader.try_entries().await;
                taken.map_err(GatewayError::configuration("the settings cannot be read"))?;
            }
            Unreadable::Fail | Unreadable::Retry => follow::first_reading(reloader).await,
        }
        plugins.reload_all().await;
        let is_needed = catalog.snapshot().clients().any(|client| client.policy.code_mode);
        let Some(executor) = executor.filter(|_| is_needed) else { return Ok(()) };
        executor.load().await.inspect_err(|error| {
            error!(error = %with_causes(error), "the script executor cannot be loaded");
        })?;
        Ok(())
    }
}
