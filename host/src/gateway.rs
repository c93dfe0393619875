//! Wires the parts and runs until told to stop. What an embedder builds.

mod plugins;
mod progress;
mod report;
mod sources;

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures_util::future::BoxFuture;
use indicatif::MultiProgress;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::plugins::{PluginError, Plugins, Reloaded};
pub(crate) use self::{plugins::read_component, progress::compiling};
use crate::{
    catalog::{Catalog, Client, State},
    config::{Config, Source},
    door::{Caller, Filter, Origin},
    model::Models,
    native::NativeTools,
    sandbox::Sandbox,
    server,
    tool::{Policy, ToolError, ToolOutput},
    upstream,
};

/// Time for upstream servers to stop. Each step of stopping one has a limit, and together they take
/// less.
const UPSTREAMS_STOP: Duration = Duration::from_secs(15);

/// A gateway whose plugins are loaded and whose upstream servers are being connected to.
pub struct Gateway {
    config: Config,
    catalog: Arc<Catalog>,
    sandbox: Sandbox,
    models: Models,
    listener: Option<TcpListener>,
    shutdown: Option<BoxFuture<'static, ()>>,
    upstreams: Upstreams,
    plugins: Plugins,
}

/// The tasks that keep upstream servers connected, and what follows their lists.
struct Upstreams {
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Runtime that the servers are talked to on, if there are any. Dropped last: it kills what did
    /// not stop.
    runtime: Option<upstream::Runtime>,
}

impl Upstreams {
    /// Starts what the servers of a configuration need.
    fn new(config: &Config) -> io::Result<Self> {
        let has_servers =
            config.clients.iter().any(|client| matches!(client.source, Source::Upstream(_)));
        let runtime = has_servers.then(upstream::Runtime::new).transpose()?;
        Ok(Self { tasks: TaskTracker::new(), stop: CancellationToken::new(), runtime })
    }

    /// Tells every server to stop and waits until it has; what takes longer than [`UPSTREAMS_STOP`]
    /// is killed with the runtime.
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
    /// A gateway that is dropped without being stopped leaves nothing running.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Collects what a [`Gateway`] is made of.
pub struct Builder {
    config: Config,
    listener: Option<TcpListener>,
    shutdown: Option<BoxFuture<'static, ()>>,
    native: NativeTools,
    native_policy: Policy,
}

impl Gateway {
    /// Begins a gateway with a configuration.
    pub fn builder(config: Config) -> Builder {
        let native_policy = Policy { execute: crate::tool::Whitelist::All, ..Policy::default() };
        Builder {
            config,
            listener: None,
            shutdown: None,
            native: NativeTools::default(),
            native_policy,
        }
    }

    /// Every tool there is.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// What of the sandbox's pool is in use.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The plugins, to load them again.
    pub fn plugins(&self) -> &Plugins {
        &self.plugins
    }

    /// A caller with the operator's own view: no headers, no key.
    pub fn caller(&self, origin: Origin) -> Caller {
        Caller::new(self.catalog.snapshot().view(&Filter::none(), None), origin, self.config.budget)
    }

    /// Waits until every source that matters has connected or failed once, at most for `limit`.
    pub async fn settled(&self, limit: Duration, matters: impl Fn(&Client) -> bool) {
        let mut changes = self.catalog.changes();
        let all_settled = async {
            let waits = |client: &Arc<Client>| client.state == State::Connecting && matters(client);
            while self.catalog.snapshot().clients().any(waits) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // Sources that take longer are told by their state.
        let _ = tokio::time::timeout(limit, all_settled).await;
    }

    /// The address that [`Gateway::run`] will serve on, for a gateway with a listener.
    pub fn local_addr(&self) -> Option<io::Result<SocketAddr>> {
        self.listener.as_ref().map(TcpListener::local_addr)
    }

    /// Serves until told to stop, lets requests in flight end, then stops every upstream server.
    pub async fn run(self) -> anyhow::Result<()> {
        let Self { config, catalog, sandbox, models, listener, shutdown, upstreams, plugins } =
            self;
        let listener = match listener {
            Some(listener) => listener,
            None => bind(&config.server).await?,
        };
        let shutdown = shutdown.unwrap_or_else(|| Box::pin(std::future::pending()));
        let gauges: Vec<server::Gauge> =
            vec![("sandbox", Box::new(move || json!(sandbox.usage())))];
        let hooks = server::Hooks { gauges, plugins: Some(Box::new(plugins.clone())) };
        let app = server::App::new(
            config.server,
            catalog,
            models,
            config.agent,
            config.budget,
            config.keys,
            hooks,
        );
        upstreams.tasks.spawn({
            let (plugins, stop) = (plugins.clone(), upstreams.stop.clone());
            async move { plugins.watch(stop).await }
        });
        let served = server::serve(listener, app, shutdown).await;
        upstreams.stop().await;
        served.context("cannot serve")
    }

    /// Stops every upstream server and waits until they are gone.
    pub async fn stop(self) {
        self.upstreams.stop().await;
    }
}

/// Opens the configured address.
pub async fn bind(settings: &server::Settings) -> anyhow::Result<TcpListener> {
    TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("cannot listen on {}", settings.listen))
}

impl Builder {
    /// Serves on this listener, and not on the configured address.
    #[must_use]
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Stops when this completes. Without it, the gateway runs until its future is dropped.
    #[must_use]
    pub fn shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Some(Box::pin(signal));
        self
    }

    /// Adds a tool of the embedding program, `internal-<name>`. It goes through the same door as
    /// any other: models may call it after an approval, or at once if [`Builder::native_policy`]
    /// says so.
    #[must_use]
    pub fn register_tool<F, R>(
        mut self,
        name: &str,
        description: &str,
        input_schema: Value,
        body: F,
    ) -> Self
    where
        F: Fn(Map<String, Value>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        self.native.register(name, description, input_schema, body);
        self
    }

    /// Says what the embedding program's tools may do; without it, all may be executed and none
    /// automatically.
    #[must_use]
    pub fn native_policy(mut self, policy: Policy) -> Self {
        self.native_policy = policy;
        self
    }

    /// Loads every plugin and starts to connect to every server. A source that cannot be had is
    /// marked so in the catalog and harms no other.
    pub async fn start(self) -> anyhow::Result<Gateway> {
        let config = self.config;
        config.server.check().context("the server's settings are not safe")?;
        let models = Models::new(&config.providers)?;
        let sandbox = Sandbox::new(&config.sandbox)?;
        let upstreams = Upstreams::new(&config).context("no threads for upstream servers")?;
        let catalog = Catalog::new();
        let progress = MultiProgress::new();
        let plugins = Plugins::new(catalog.clone(), sandbox.clone(), &config, progress);
        let gateway = Gateway {
            plugins,
            catalog,
            sandbox,
            models,
            listener: self.listener,
            shutdown: self.shutdown,
            upstreams,
            config,
        };
        gateway.add_native(self.native, self.native_policy);
        gateway.connect_upstreams();
        gateway.plugins.load_all().await;
        gateway.load_code_mode().await?;
        Ok(gateway)
    }
}
