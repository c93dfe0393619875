//! Makes a gateway: the configuration → the parts → the gateway.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::error;

use super::{
    Gateway, GatewayBuilder, GatewayError, Reloader,
    background::{Background, Tasks},
    certificate::Certificate,
    code_mode::LiveCodeMode,
    control::Controls,
    dry_run::DryGateways,
    events, follow,
    gateway::ToServe,
    limits, management,
    metrics::GatewayMetrics,
    parts::GatewayParts,
    recording,
    reload::{LiveParts, PluginLoads, configured, must_read},
    serving::Serving,
    upstreams::{ServerThreads, UpstreamServers},
};
use crate::native::ProgramTools;
use airlock_catalog::Catalog;
use airlock_compile::CompileHook;
use airlock_config::{self as config, Config};
use airlock_core::{act::Acts, door::LiveKeys};
use airlock_guards::{DefinitionReview, GuardLoadError, Guards};
use airlock_operator_api::{EventBus, LiveCalls};
use airlock_plugin::{self as plugin, Plugins};
use airlock_sandbox::Sandbox;
use airlock_scripts::runs::Runs;
use airlock_store::LazyDatabase;
use airlock_strings::with_causes;

/// Task that reads the settings of the store and loads the plugins and the script executor. Returns
/// `None` if the gateway stops before.
pub(super) type Loading = JoinHandle<Option<Result<(), GatewayError>>>;

/// Decision about settings of the store that cannot be read at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The gateway does not start.
    Fail,
    /// It tries again, and answers no request until then.
    Retry,
}

/// Guards of calls and of definitions, which are not loaded yet.
struct UnloadedGuards {
    calls: Arc<Guards>,
    definitions: Arc<DefinitionReview>,
}

/// Adds the guards and the rules about sinks to a catalog. Returns the guards; `None` if there are none. Their decisions
/// about definitions are recorded as acts.
fn narrow(catalog: &Catalog, config: &Config, acts: &Acts) -> Option<UnloadedGuards> {
    // Without rules, the sources are not followed.
    if !config.sinks.0.is_empty() {
        catalog.set_sinks(Arc::new(config.sinks.clone()));
    }
    let calls = Guards::new(&config.guards)?;
    catalog.set_guards(calls.clone());
    let definitions = Arc::new(DefinitionReview::new(calls.clone(), acts.clone()));
    catalog.set_definition_guards(definitions.clone());
    Some(UnloadedGuards { calls, definitions })
}

/// Makes the parts and the gateway of them, with the task that loads its plugins.
pub(super) fn assemble(
    builder: GatewayBuilder,
    unreadable: Unreadable,
) -> Result<(Gateway, Loading), GatewayError> {
    let mut config = builder.config;
    builder.servers.join(&mut config);
    let sandbox = Sandbox::new(&config.sandbox)?;
    let database = database(&config)?;
    let limiter = limits::start(&config, &database);
    let records = recording::start(&config, &database, &limiter)?;
    let metrics = GatewayMetrics::default();
    let acts = metrics.acts.before(records.as_ref());
    let live_calls = LiveCalls::new(EventBus::new());
    let mut controls = builder.controls;
    controls.add_calls(Arc::new(live_calls.clone()));
    let controls = controls.between(&limiter, records.as_ref());
    let controls = controls.observed_by(Arc::new(metrics.calls.clone()));
    let catalog = catalog(&config, &controls);
    let unloaded = narrow(&catalog, &config, &acts);
    let guards = unloaded.as_ref().map(|guards| guards.calls.clone());
    let tools = ProgramTools::new(&catalog, builder.native_policy, builder.native)
        .map_err(GatewayError::configuration("the tools of the program cannot be offered"))?;
    let models = controls.of_models();
    let runs = Runs::new(config.runs, database.clone());
    let runs = events::published_runs(live_calls.bus(), &runs, &acts);
    let serving = Serving::new(&config, &catalog, &database, runs, builder.models, models)?;
    let background = Background::new();
    let upstreams = upstreams(&config, &catalog, &database, &acts, background.tasks())?;
    let runs = serving.now().runs;
    let on_compile = builder.on_compile.as_ref();
    let code_mode = LiveCodeMode::new(&config, &catalog, &sandbox, runs, on_compile);
    let resources = plugin::Resources {
        on_compile: builder.on_compile.clone(),
        recorder: builder.recorder,
        ..resources(&config, &catalog, &sandbox, &database)
    };
    // Entries of the store may replace or remove the clients and the keys of the file.
    let must_read = must_read(&config);
    let live = LiveParts {
        certificate: config.server.tls.clone().map(Certificate::new),
        keys: LiveKeys::default(),
        limiter,
        serving: Arc::new(serving),
        catalog,
        upstreams,
        plugins: Plugins::new(resources, configured(&config).take_while(|_| !must_read)),
        sandbox,
        code_mode: Arc::new(code_mode),
        database,
        tasks: background.tasks().clone(),
        servers: builder.servers,
    };
    live.plugins.announce();
    if !must_read {
        live.upstreams.configure(&config);
        live.keys.replace(config.keys.clone());
    }
    let reloader = Reloader::new(&config, live.clone(), must_read);
    let service = management::service(&config, &live, &reloader, &acts)?;
    reloader.manage(&service);
    let loaded = CancellationToken::new();
    let load = Load {
        guards: unloaded.map(|guards| GuardLoad {
            guards,
            sandbox: live.sandbox.clone(),
            on_compile: builder.on_compile,
        }),
        reloader: reloader.clone(),
        unreadable,
        plugins: live.plugins.clone(),
        code_mode: live.code_mode.clone(),
        loads_executor: builder.loads_executor,
        loaded: loaded.clone().drop_guard(),
    };
    let loading = load.start(&live.catalog, &background);
    let key_maker = builder.on_new_key.map(|show| (service.clone(), show));
    let to_serve = ToServe { listener: builder.listener, shutdown: builder.shutdown, key_maker };
    let file = reloader.source().map(|source| source.path());
    let dry_runs = Arc::new(DryGateways::new(file, &config.vaults));
    let parts = GatewayParts {
        catalog: live.catalog,
        sandbox: live.sandbox,
        database: live.database,
        code_mode: live.code_mode,
        plugins: live.plugins,
        guards,
        reloader,
        certificate: live.certificate,
        management: Some(service).filter(|_| !config.server.management.disabled),
        keys: live.keys,
        records,
        metrics,
        dry_runs,
        loaded,
        background,
        limiter: live.limiter,
        live_calls,
        upstreams: ServerThreads(live.upstreams),
        config,
    };
    Ok((Gateway::new(parts, &live.serving, tools, to_serve), loading))
}

/// Returns the store of a configuration. It is opened when it is first needed.
fn database(config: &Config) -> Result<LazyDatabase, GatewayError> {
    let settings = config.store_settings();
    let settings = settings.map_err(GatewayError::configuration("the store cannot be used"))?;
    Ok(LazyDatabase::new(settings))
}

/// Makes the catalog, which has no tools yet.
fn catalog(config: &Config, controls: &Controls) -> Arc<Catalog> {
    let catalog = Catalog::new();
    if let Some(control) = controls.of_calls() {
        catalog.set_control(control);
    }
    if let Some(policy) = controls.of_policies() {
        catalog.set_call_policy(policy);
    }
    catalog.switch_off(config.tools_off);
    catalog.set_groups(config.groups.clone());
    catalog
}

/// Returns what the plugins are loaded with, without the hooks of the program.
fn resources(
    config: &Config,
    catalog: &Arc<Catalog>,
    sandbox: &Sandbox,
    database: &LazyDatabase,
) -> plugin::Resources {
    plugin::Resources {
        catalog: catalog.clone(),
        sandbox: sandbox.clone(),
        lock: config.lock.clone(),
        publishers: config.publishers.clone(),
        store: database.clone(),
        environment: config::environment,
        on_compile: None,
        recorder: None,
    }
}

/// Makes the part that connects to MCP servers. Fails if the system starts no threads for them.
fn upstreams(
    config: &Config,
    catalog: &Arc<Catalog>,
    database: &LazyDatabase,
    acts: &Acts,
    tasks: &Tasks,
) -> Result<Arc<UpstreamServers>, GatewayError> {
    let upstreams = UpstreamServers::new(config, catalog, database, tasks);
    upstreams.record_logins_in(acts.clone());
    upstreams.prepare(config).map_err(GatewayError::Threads)?;
    Ok(upstreams)
}

/// Guards whose components are loaded at the start.
struct GuardLoad {
    guards: UnloadedGuards,
    sandbox: Sandbox,
    on_compile: Option<Arc<CompileHook>>,
}

/// Work of a gateway that has just been made.
struct Load {
    /// `None` if there are no guards.
    guards: Option<GuardLoad>,
    reloader: Reloader,
    unreadable: Unreadable,
    plugins: Plugins,
    code_mode: Arc<LiveCodeMode>,
    /// False if the executor is left to the first script.
    loads_executor: bool,
    /// Dropped at the end.
    loaded: DropGuard,
}

impl GuardLoad {
    /// Loads the guards. Lists of tools are decided from now on, also if a guard cannot be loaded.
    async fn run(self) -> Result<(), GuardLoadError> {
        let UnloadedGuards { calls, definitions } = &self.guards;
        let loaded = calls.load(&self.sandbox, self.on_compile.as_deref()).await;
        definitions.begin();
        loaded
    }
}

impl Load {
    /// Starts the task that does the work, and the one by which code mode follows the catalog.
    fn start(self, catalog: &Arc<Catalog>, background: &Background) -> Loading {
        let catalog = catalog.clone();
        let following = self.code_mode.now();
        background.spawn(async move { following.follow(&catalog).await });
        background.spawn(self.run())
    }

    /// Loads the guards, reads the settings of the store, then loads the plugins, then the script executor if it is
    /// requested. If guards cannot be loaded and this must not fail the start, the gateway runs without them, and
    /// refuses the calls in their scope.
    async fn run(self) -> Result<(), GatewayError> {
        let Self {
            guards,
            reloader,
            unreadable,
            plugins,
            code_mode,
            loads_executor,
            loaded: _loaded,
        } = self;
        if let Some(load) = guards
            && let Err(error) = load.run().await
        {
            error!(error = %with_causes(&error), "the calls of a guard that is not loaded are refused");
            if unreadable == Unreadable::Fail {
                return Err(GatewayError::Guard(error));
            }
        }
        match unreadable {
            Unreadable::Fail if !reloader.settings_read().is_cancelled() => {
                let taken = reloader.try_entries(PluginLoads::Awaited).await;
                taken.map_err(GatewayError::configuration("the settings cannot be read"))?;
            }
            Unreadable::Fail | Unreadable::Retry => follow::first_reading(reloader).await,
        }
        plugins.reload_all().await;
        let executor = code_mode.needed_executor(None).filter(|_| loads_executor);
        let Some(executor) = executor else { return Ok(()) };
        executor.load().await.inspect_err(|error| {
            error!(error = %with_causes(error), "the script executor cannot be loaded");
        })?;
        Ok(())
    }
}
