//! Wires the parts and runs until shutdown. The entry point for embedders.

mod error;
mod reload;
mod sources;
mod upstreams;

pub use self::{error::GatewayError, reload::Reloader};

use std::{collections::BTreeMap, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use airlock_identity::Verifier;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, warn};

use crate::native::{BadNativeTool, NativeTool, NativeTools};
use airlock_agent::{
    approvals::Approvals,
    recall::{self, Recall},
    results::Results,
};
use airlock_catalog::{Catalog, ToolSource};
use airlock_config::{self as config, Config, Source};
use airlock_core::{
    door::{Caller, Filter, Origin},
    tool::{Allowlist, ClientName, Policy, Trust},
};
use airlock_egress::tls;
use airlock_model::Models;
use airlock_plugin::{self as plugin, CompileHook, Plugins};
use airlock_sandbox::{LoadError, Sandbox, UseRecorder};
use airlock_scripts::{CodeMode, LazyExecutor, runs::Runs};
use airlock_server as server;
use airlock_store::{self as store, LazyDatabase};
use airlock_strings::with_causes;
use airlock_upstream::{self as upstream, UpstreamMetrics};

/// Time for upstream servers to stop. Each step of stopping one has its own limit, and all steps
/// together take less.
const UPSTREAMS_STOP: Duration = Duration::from_secs(15);
/// Problem of settings that the server refuses.
const UNSAFE: &str = "the server's settings are not safe";

/// A gateway whose plugins are loaded and whose upstream servers are connecting.
pub struct Gateway {
    config: Config,
    catalog: Arc<Catalog>,
    sandbox: Sandbox,
    /// The state that survives a restart.
    database: LazyDatabase,
    models: Models,
    results: Results,
    listener: Option<TcpListener>,
    shutdown: Option<BoxFuture<'static, ()>>,
    upstreams: Upstreams,
    pins: upstream::pins::Pins,
    logins: airlock_mcp_client::Logins,
    /// Runs of scripts; `None` if none are kept.
    runs: Option<Runs>,
    /// Code mode; `None` if no client is in code mode.
    code_mode: Option<Arc<CodeMode>>,
    plugins: Plugins,
    /// Takes changes of the configuration file.
    reloader: Reloader,
    /// Shows that the script executor is being compiled; `None` to show nothing.
    on_compile: Option<Arc<CompileHook>>,
    /// Loads the plugins and the script executor; `None` once their outcome is taken.
    loading: Option<JoinHandle<Result<(), LoadError>>>,
    /// Cancelled when that has ended.
    loaded: CancellationToken,
}

/// Tasks that keep upstream servers connected, and other background tasks of the gateway.
struct Upstreams {
    tasks: TaskTracker,
    stop: CancellationToken,
    /// The operator's control of each server.
    controls: BTreeMap<ClientName, upstream::Control>,
    /// Runtime for the connections to upstream servers; `None` if there are no servers. Dropped
    /// last: this kills servers that did not stop.
    runtime: Option<upstream::Runtime>,
}

impl Upstreams {
    /// Creates the runtime if the configuration has upstream servers.
    fn new(config: &Config) -> io::Result<Self> {
        let has_servers =
            config.clients.iter().any(|client| matches!(client.source, Source::Upstream(_)));
        let runtime = has_servers.then(upstream::Runtime::new).transpose()?;
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        Ok(Self { tasks, stop, controls: BTreeMap::new(), runtime })
    }

    /// Stops every server and waits until all have stopped. Servers that take longer than
    /// [`UPSTREAMS_STOP`] are killed with the runtime.
    async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(UPSTREAMS_STOP, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                left = self.tasks.len(),
                "upstream servers did not stop in time and are killed"
            );
        }
    }
}

impl Drop for Upstreams {
    /// Stops all background tasks of a gateway that is dropped without [`Gateway::stop`].
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Collects the parts of a [`Gateway`].
pub struct GatewayBuilder {
    config: Config,
    listener: Option<TcpListener>,
    shutdown: Option<BoxFuture<'static, ()>>,
    native: NativeTools,
    native_policy: Policy,
    recorder: Option<UseRecorder>,
    on_compile: Option<Arc<CompileHook>>,
}

impl Gateway {
    /// Returns a builder for a gateway with this configuration.
    pub fn builder(config: Config) -> GatewayBuilder {
        let native_policy =
            Policy { execute: Allowlist::All, trust: Trust::Trusted, ..Policy::default() };
        GatewayBuilder {
            config,
            listener: None,
            shutdown: None,
            native: NativeTools::default(),
            native_policy,
            recorder: None,
            on_compile: None,
        }
    }

    /// Returns the catalog of all tools.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the sandbox, for example to read the usage of its pool.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the reloader, which takes changes of the configuration file and of plugins.
    pub fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    /// Returns the pinned definitions of the upstream servers.
    pub(crate) fn upstream_pins(&self) -> &upstream::pins::Pins {
        &self.pins
    }

    /// Returns code mode; `None` if no client is in code mode.
    pub(crate) fn code_mode(&self) -> Option<&Arc<CodeMode>> {
        self.code_mode.as_ref()
    }

    /// Returns a caller with the operator's own view: no filter headers, no key.
    pub fn caller(&self, origin: Origin) -> Caller {
        Caller::new(self.catalog.snapshot().view(&Filter::none(), None), origin, self.config.budget)
    }

    /// Waits until every source for which `matters` returns true has connected or failed once, for
    /// at most `limit`.
    pub async fn settled(&self, limit: Duration, matters: impl Fn(&ToolSource) -> bool) {
        self.catalog.settled(Instant::now() + limit, matters).await;
    }

    /// Returns a future that completes when every plugin and the script executor is loaded, or has
    /// failed to.
    pub fn loaded(&self) -> impl Future<Output = ()> + Send + use<> {
        self.loaded.clone().cancelled_owned()
    }

    /// Returns the address that [`Gateway::run`] will serve on; `None` without a listener.
    pub fn local_addr(&self) -> Option<io::Result<SocketAddr>> {
        self.listener.as_ref().map(TcpListener::local_addr)
    }

    /// Serves until shutdown, lets requests in flight end, then stops every upstream server.
    pub async fn run(self) -> Result<(), GatewayError> {
        let Self {
            config,
            catalog,
            sandbox,
            database,
            models,
            results,
            listener,
            shutdown,
            upstreams,
            plugins,
            reloader,
            runs,
            code_mode,
            ..
        } = self;
        report_unpinned(&config);
        report_without_pins(&config);
        report_local_callers(&config);
        let listener = match listener {
            Some(listener) => listener,
            None => bind(&config.server).await?,
        };
        let shutdown = shutdown.unwrap_or_else(|| Box::pin(std::future::pending()));
        let gauges: Vec<server::Gauge> =
            vec![("sandbox", Box::new(move || json!(sandbox.usage())))];
        let responses = config.server.responses;
        let memory_bytes = config.results.total_bytes;
        let recall =
            Recall::new(recall::Settings::new(Some(database.clone()), responses, memory_bytes));
        let approvals = Approvals::new(database.clone());
        let mut metrics = Registry::default();
        let disabled = config.disabled.iter().map(|client| &client.name);
        let servers = UpstreamMetrics::new(catalog.clone(), &upstreams.controls, disabled);
        metrics.register_collector(Box::new(servers));
        if let Some(code_mode) = &code_mode {
            code_mode.register_metrics(&mut metrics);
        }
        let hooks = server::Hooks {
            results: Some(results),
            recall: Some(recall),
            runs,
            waiting: Some(Arc::new(approvals.clone())),
            approvals: Some(approvals),
            gauges,
            metrics,
            plugins: Some(Box::new(reloader.clone())),
            upstreams: Some(Box::new(upstreams::Controls {
                active: upstreams.controls.clone(),
                disabled: config.disabled,
            })),
            store: Some(database),
            identity: config
                .oauth
                .map(|settings| Verifier::new(settings, tls::client().no_proxy()))
                .transpose()
                .map_err(GatewayError::configuration("access tokens cannot be verified"))?,
        };
        let app = server::App::new(
            config.server,
            catalog,
            models,
            config.agent,
            config.budget,
            config.keys,
            hooks,
        );
        watch(&plugins, &reloader, &upstreams);
        let served = server::serve(listener, app, shutdown).await;
        upstreams.stop().await;
        served.map_err(GatewayError::configuration(UNSAFE))
    }

    /// Begins to reload plugins when their files change, as [`Gateway::run`] does. For a program that
    /// does not serve HTTP.
    pub fn watch_plugins(&self) {
        report_unpinned(&self.config);
        report_without_pins(&self.config);
        watch(&self.plugins, &self.reloader, &self.upstreams);
    }

    /// Stops every upstream server and waits until they have ended.
    pub async fn stop(self) {
        self.upstreams.stop().await;
    }
}

/// Returns the runs of scripts, if they are kept.
fn kept_runs(config: &Config, database: &LazyDatabase) -> Option<Runs> {
    config.runs.journal.then(|| Runs::new(config.runs, database.clone()))
}

/// Reloads plugins when their files or their entries in the configuration change, until the gateway
/// stops.
fn watch(plugins: &Plugins, reloader: &Reloader, upstreams: &Upstreams) {
    let plugins = plugins.clone();
    let stop = upstreams.stop.clone();
    upstreams.tasks.spawn(async move { plugins.watch(stop).await });
    let reloader = reloader.clone();
    let stop = upstreams.stop.clone();
    upstreams.tasks.spawn(async move { reloader.watch(stop).await });
}

/// Binds the configured address.
pub(crate) async fn bind(settings: &server::Settings) -> Result<TcpListener, GatewayError> {
    let address = settings.listen;
    TcpListener::bind(address).await.map_err(|source| GatewayError::Listen { address, source })
}

impl GatewayBuilder {
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
        self.shutdown = Some(Box::pin(signal));
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
    /// failed in the catalog and does not affect the others. Fails if the settings cannot be used or
    /// the script executor cannot be loaded.
    pub async fn start(self) -> Result<Gateway, GatewayError> {
        let mut gateway = self.open()?;
        if let Some(loading) = gateway.loading.take() {
            loading.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))?;
        }
        Ok(gateway)
    }

    /// Begins to load every plugin and to connect to every server, and returns at once. Components
    /// that are not in the cache of compiled code are compiled meanwhile, which may take a minute;
    /// calls of their tools wait. [`Gateway::loaded`] reports the end of it. Must be called in a
    /// tokio runtime.
    pub fn open(self) -> Result<Gateway, GatewayError> {
        let config = self.config;
        config.server.check().map_err(GatewayError::configuration(UNSAFE))?;
        let models = Models::new(&config.providers)
            .map_err(GatewayError::configuration("a model provider cannot be set up"))?;
        let sandbox = Sandbox::new(&config.sandbox)?;
        let upstreams = Upstreams::new(&config).map_err(GatewayError::Threads)?;
        let catalog = Catalog::new();
        let results = Results::new(config.results);
        catalog.set_reader(results.own_tools());
        catalog.set_resource_reader(results.resource_tools());
        let database = LazyDatabase::new(store::Settings::new(&config.store));
        let resources = plugin::Resources {
            catalog: catalog.clone(),
            sandbox: sandbox.clone(),
            lock: config.lock.clone(),
            store: database.clone(),
            environment: config::environment,
            on_compile: self.on_compile.clone(),
            recorder: self.recorder,
        };
        let plugins = Plugins::new(resources, configured(&config));
        let has_code_mode = sources::has_code_mode(&config, &self.native_policy);
        let mut gateway = Gateway {
            reloader: Reloader::new(&config, plugins.clone(), sandbox.clone(), has_code_mode),
            pins: pins(&config, &database),
            logins: airlock_mcp_client::Logins::new(database.clone()),
            runs: kept_runs(&config, &database),
            code_mode: None,
            plugins,
            on_compile: self.on_compile,
            catalog,
            database,
            sandbox,
            models,
            results,
            listener: self.listener,
            shutdown: self.shutdown,
            upstreams,
            config,
            loading: None,
            loaded: CancellationToken::new(),
        };
        gateway.add_native(self.native, self.native_policy);
        gateway.connect_upstreams();
        gateway.plugins.announce();
        let executor = has_code_mode.then(|| gateway.install_code_mode());
        gateway.load(executor);
        Ok(gateway)
    }
}

impl Gateway {
    /// Begins to load the plugins, then the script executor, until the gateway stops.
    fn load(&mut self, executor: Option<LazyExecutor>) {
        let plugins = self.plugins.clone();
        let stop = self.upstreams.stop.clone();
        let is_loaded = self.loaded.clone().drop_guard();
        self.loading = Some(self.upstreams.tasks.spawn(async move {
            let _is_loaded = is_loaded;
            let loading = async {
                plugins.reload_all().await;
                match &executor {
                    Some(executor) => executor.load().await.inspect_err(|error| {
                        error!(error = %with_causes(error), "the script executor cannot be loaded");
                    }),
                    None => Ok(()),
                }
            };
            stop.run_until_cancelled(loading).await.unwrap_or(Ok(()))
        }));
    }
}

/// Returns the plugins of a configuration.
fn configured(config: &Config) -> impl Iterator<Item = plugin::Configured> {
    config.clients.iter().filter_map(|client| match &client.source {
        Source::Plugin(settings) => Some(plugin::Configured {
            client: client.name.clone(),
            policy: client.policy.clone(),
            settings: (**settings).clone(),
        }),
        Source::Upstream(_) => None,
    })
}

/// Returns the pins of the upstream servers of a configuration.
fn pins(config: &Config, database: &LazyDatabase) -> upstream::pins::Pins {
    let servers = config.clients.iter().filter_map(|client| match &client.source {
        Source::Upstream(settings) => Some(settings),
        Source::Plugin(_) => None,
    });
    upstream::pins::Pins::new(config.lock.clone(), database.clone(), servers)
}

/// Logs the servers whose definitions are used unchecked.
fn report_without_pins(config: &Config) {
    for client in &config.clients {
        if let Source::Upstream(settings) = &client.source
            && settings.pin == airlock_mcp_client::Pinning::Off
        {
            warn!(client = %client.name, "definitions are not pinned: a changed tool is used unchecked");
        }
    }
}

/// Logs the MCP servers that can act as callers and as the operator: a child process reaches the port
/// of the gateway, and without virtual keys the gateway cannot tell it from others on its machine.
fn report_local_callers(config: &Config) {
    if config.server.require_virtual_key {
        return;
    }
    let clients = config.clients.iter().filter(|client| match &client.source {
        Source::Upstream(settings) => settings.transport.program().is_some(),
        Source::Plugin(_) => false,
    });
    let clients = clients.map(|client| client.name.as_str()).collect::<Vec<_>>().join(", ");
    if !clients.is_empty() {
        warn!(
            clients,
            "these servers are processes on the machine of the gateway, which requires no virtual \
             key: they can call every tool and give the operator's orders; set \
             server.require_virtual_key, or see docs/security.md"
        );
    }
}

/// Logs the plugins that are not pinned. A gateway that serves loads changed components by itself,
/// so the operator must know which of them are loaded without a check.
fn report_unpinned(config: &Config) {
    let clients = config.unpinned();
    if !clients.is_empty() {
        let clients = clients.iter().map(ClientName::as_str).collect::<Vec<_>>().join(", ");
        warn!(
            clients,
            "plugins are not pinned: a replaced component is loaded unchecked; \
             `airlock plugin accept --all` pins them"
        );
    }
}
