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
    Gateway, GatewayError, Reloader,
    background::Background,
    certificate::Certificate,
    code_mode::LiveCodeMode,
    control::Controls,
    follow,
    key_values::ShowKeyValue,
    limits, management, recording,
    reload::{LiveParts, PluginLoads, configured, must_read},
    serving::Serving,
    upstreams::{ServerThreads, UpstreamServers},
};
use crate::native::{BadNativeTool, NativeTool, NativeTools};
use airlock_catalog::Catalog;
use airlock_config::{self as config, Config};
use airlock_core::{
    door::{CallControl, LiveKeys},
    model_control::ModelControl,
    tool::{Allowlist, Policy, Trust},
};
use airlock_limits::Limiter;
use airlock_management::NewKeyValue;
use airlock_plugin::{self as plugin, CompileHook, Plugins};
use airlock_records::Recorder;
use airlock_sandbox::{Sandbox, UseRecorder};
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
    on_new_key: Option<ShowKeyValue>,
    controls: Controls,
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
            on_new_key: None,
            controls: Controls::default(),
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

    /// Calls `hook` with the credential that [`Gateway::run`] makes for a virtual key of the configuration
    /// file that has none, for who operates the gateway: it is not shown again. Without a hook, none is
    /// made, and such a key is refused.
    #[must_use]
    pub fn on_new_key(mut self, hook: impl Fn(&NewKeyValue) + Send + Sync + 'static) -> Self {
        self.on_new_key = Some(Arc::new(hook));
        self
    }

    /// Adds a control of tool calls: it is asked before each call that the door admits, whatever makes it, and
    /// told of its end and of the calls that the door refuses. It can refuse a call and cannot admit one. It
    /// follows the gateway's own limits and records, and those that were added before.
    #[must_use]
    pub fn with_call_control(mut self, control: Arc<dyn CallControl>) -> Self {
        self.controls.add_calls(control);
        self
    }

    /// Adds a control of the requests to models: it is asked before each, and told of its end. It follows the
    /// gateway's own limits and records, and those that were added before.
    #[must_use]
    pub fn with_model_control(mut self, control: Arc<dyn ModelControl>) -> Self {
        self.controls.add_models(control);
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
        let sandbox = Sandbox::new(&config.sandbox)?;
        let settings = config.store_settings();
        let settings = settings.map_err(GatewayError::configuration("the store cannot be used"))?;
        let database = LazyDatabase::new(settings);
        let records = recording::start(&config, &database)?;
        let acts = recording::acts(records.as_ref());
        let catalog = Catalog::new();
        let limiter = Limiter::new(database.clone());
        limits::follow(&limiter, &config);
        let controls = controls(records.as_ref(), &limiter, self.controls);
        let serving = Serving::new(&config, &catalog, &database, controls.of_models())?;
        let serving = Arc::new(serving);
        if let Some(control) = controls.of_calls() {
            catalog.set_control(control);
        }
        catalog.switch_off(config.tools_off);
        catalog.set_groups(config.groups.clone());
        let must_read = must_read(&config);
        self.native.publish(&catalog, self.native_policy);
        let background = Background::new();
        let upstreams = UpstreamServers::new(&config, &catalog, &database, background.tasks());
        upstreams.record_logins_in(acts.clone());
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
        let runs = serving.now().runs;
        let on_compile = self.on_compile.as_ref();
        let code_mode = LiveCodeMode::new(&config, &catalog, &sandbox, runs, on_compile);
        let code_mode = Arc::new(code_mode);
        let parts = LiveParts {
            certificate: certificate.clone(),
            keys: keys.clone(),
            limiter: limiter.clone(),
            serving: serving.clone(),
            catalog: catalog.clone(),
            upstreams: upstreams.clone(),
            plugins: plugins.clone(),
            sandbox: sandbox.clone(),
            code_mode: code_mode.clone(),
            database: database.clone(),
            tasks: background.tasks().clone(),
        };
        let reloader = Reloader::new(&config, parts, must_read);
        let service = management::service(
            &config, &database, &reloader, &catalog, &plugins, &limiter, &acts,
        )?;
        reloader.manage(&service);
        let key_maker = self.on_new_key.map(|show| (service.clone(), show));
        let management = Some(service).filter(|_| !config.server.management.disabled);
        let followed = catalog.clone();
        let following = code_mode.now();
        background.spawn(async move { following.follow(&followed).await });
        let loaded = CancellationToken::new();
        let load = Load {
            reloader: reloader.clone(),
            unreadable,
            plugins: plugins.clone(),
            code_mode: code_mode.clone(),
            loaded: loaded.clone().drop_guard(),
        };
        let loading = background.spawn(load.run());
        let gateway = Gateway {
            config,
            catalog,
            sandbox,
            database,
            serving,
            listener: self.listener,
            shutdown: self.shutdown,
            code_mode,
            plugins,
            reloader,
            certificate,
            management,
            keys,
            records,
            key_maker,
            loaded,
            background,
            limiter,
            upstreams: ServerThreads(upstreams),
        };
        Ok((gateway, loading))
    }
}

/// Returns the controls of a gateway, the embedder's own last. The records are first, so that they have the
/// refusals of the others.
fn controls(recorder: Option<&Arc<Recorder>>, limiter: &Arc<Limiter>, own: Controls) -> Controls {
    let mut controls = Controls::default();
    if let Some(recorder) = recorder {
        recording::control(&mut controls, recorder, limiter);
    }
    controls.add_calls(limiter.clone());
    controls.add_models(limiter.clone());
    controls.append(own);
    controls
}

/// Work of a gateway that has just been made.
struct Load {
    reloader: Reloader,
    unreadable: Unreadable,
    plugins: Plugins,
    code_mode: Arc<LiveCodeMode>,
    /// Dropped at the end.
    loaded: DropGuard,
}

impl Load {
    /// Reads the settings of the store, then loads the plugins, then the script executor.
    async fn run(self) -> Result<(), GatewayError> {
        let Self { reloader, unreadable, plugins, code_mode, loaded: _loaded } = self;
        match unreadable {
            Unreadable::Fail if !reloader.settings_read().is_cancelled() => {
                let taken = reloader.try_entries(PluginLoads::Awaited).await;
                taken.map_err(GatewayError::configuration("the settings cannot be read"))?;
            }
            Unreadable::Fail | Unreadable::Retry => follow::first_reading(reloader).await,
        }
        plugins.reload_all().await;
        let Some(executor) = code_mode.needed_executor(None) else { return Ok(()) };
        executor.load().await.inspect_err(|error| {
            error!(error = %with_causes(error), "the script executor cannot be loaded");
        })?;
        Ok(())
    }
}
