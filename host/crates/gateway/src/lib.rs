//! The gateway as a program sees it that embeds one: [`Gateway`], its requests, and the tools and servers of the
//! program. It makes the parts from the configuration, serves and stops. The package `airlock` re-exports it.
//!
//! | module | purpose |
//! |---|---|
//! | `builder` | what a gateway is made of, and the start |
//! | `assemble` | configuration → parts → [`Gateway`] |
//! | `serve` | serves HTTP, on sockets of its own and inside another server; stops in order |
//! | `background` | the background tasks |
//! | `upstreams` | the MCP servers |
//! | `certificate` | the certificate of the listener, and its renewal |
//! | `control` | the policies and the controls of calls, and those of requests to models, which act as one |
//! | `events` | the events for operators: what the parts tell, on one bus |
//! | `dry_run` | connects to a server that is not configured, and keeps nothing |
//! | `code_mode` | code mode and its executors |
//! | `reload` | takes changes of the configuration file and of the entries in the store |
//! | `serving` | the settings of requests, which a reload replaces as a whole |
//! | `follow` | follows the entries and the operators in the store |
//! | `key_values` | credentials of virtual keys that have none in the file |
//! | `limits` | the limits of callers and the prices, which follow the configuration |
//! | `recording` | the records: the call log and the audit log |
//! | `metrics` | the metrics, of all parts and of calls |
//! | `management` | the management API of the gateway, and its Unix socket |
//! | `warnings` | warns about settings that weaken the gateway |
//! | `request` | the requests of the program |
//! | `native` | the tools of the program |
//! | `program_server` | the MCP servers of the program |
//! | [`command_line`] | parts for the command line of the package `airlock` |

mod assemble;
mod background;
mod builder;
mod certificate;
mod code_mode;
pub mod command_line;
mod control;
mod dry_run;
mod error;
mod events;
mod follow;
mod key_values;
mod limits;
mod management;
mod metrics;
mod native;
mod program_server;
mod recording;
mod reload;
mod replay;
mod request;
mod serve;
mod serving;
mod upstreams;
mod warnings;

pub use self::{
    builder::GatewayBuilder,
    error::GatewayError,
    native::{BadNativeTool, NativeTool, ProgramTools, ToolContext, ToolEffect},
    program_server::{BadServer, ProgramServer},
    reload::Reloader,
    request::{
        CallReply, CallToApprove, ChatEvent, ChatEvents, ChatFailure, ChatReply, GatewayRequest,
        PendingApproval, RequestBuilder, RequestError,
    },
};

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::{OnceCell, SetOnce},
    time::{Instant, timeout_at},
};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use self::{
    background::Background, certificate::Certificate, code_mode::LiveCodeMode,
    dry_run::DryGateways, metrics::GatewayMetrics, replay::Replayer, serve::ToServe,
    serving::Serving, upstreams::ServerThreads,
};
use airlock_agent::approvals::Approvals;
use airlock_catalog::{Catalog, ToolSource};
use airlock_config::Config;
use airlock_core::door::{Caller, Filter, LiveKeys, Origin, ScriptLanguage, VirtualKey};
use airlock_limits::Limiter;
use airlock_management::{Service, SetupToken};
use airlock_operator_api::{LiveCalls, Management, OperatorHooks};
use airlock_plugin::Plugins;
use airlock_records::Recorder;
use airlock_sandbox::Sandbox;
use airlock_server::{self as server, HttpMetrics, LiveApp, ShownMetrics};
use airlock_store::LazyDatabase;

/// Problem of settings that the server refuses.
const UNSAFE: &str = "the server's settings are not safe";
/// Problem of a certificate that cannot be used.
const UNUSABLE_TLS: &str = "the gateway cannot serve HTTPS";

/// A gateway whose plugins are being loaded and whose MCP servers are connecting. Cheap to clone: clones are
/// the same gateway. It stops in order with [`Gateway::stop`]; when the last clone is dropped, it stops at
/// once.
///
/// ```no_run
/// # async fn embed() -> Result<(), Box<dyn std::error::Error>> {
/// use airlock::{Gateway, config::Config};
///
/// let config = Config::parse(r#"{"server": {"listen": "127.0.0.1:8080"}}"#, "embedded", &|_| None)?;
/// let gateway = Gateway::builder(config).start().await?;
/// let serving = tokio::spawn(gateway.serve());
/// for tool in gateway.request().open()?.tools().await? {
///     println!("{}", tool.name);
/// }
/// gateway.stop().await;
/// serving.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gateway(Arc<GatewayState>);

/// A gateway, as all clones of its handle share it.
struct GatewayState {
    /// The state of request handlers, whether or not the gateway serves.
    live: Arc<LiveApp>,
    /// The tools of the program.
    tools: ProgramTools,
    /// The needs of serving; `None` once [`Gateway::serve`] was called.
    to_serve: Mutex<Option<ToServe>>,
    /// Address that is served on, once it is known.
    address: SetOnce<SocketAddr>,
    /// Cancelled when the gateway is to stop.
    stopping: CancellationToken,
    /// The serving that has not ended.
    serving: TaskTracker,
    /// Set once the gateway has stopped.
    closed: OnceCell<()>,
    /// True once changes of the configuration and of plugins are watched.
    is_watching: AtomicBool,
    /// True once the start is recorded, or is about to be.
    has_recorded: AtomicBool,
    parts: GatewayParts,
}

/// The parts of a gateway.
struct GatewayParts {
    config: Config,
    catalog: Arc<Catalog>,
    sandbox: Sandbox,
    /// The state that survives a restart.
    database: LazyDatabase,
    code_mode: Arc<LiveCodeMode>,
    plugins: Plugins,
    reloader: Reloader,
    /// The certificate of the listener; `None` for plain HTTP.
    certificate: Option<Certificate>,
    /// The management API; `None` if it is disabled.
    management: Option<Arc<Service>>,
    /// The virtual keys that are accepted.
    keys: LiveKeys,
    /// The records; `None` if the configuration has none.
    records: Option<Arc<Recorder>>,
    metrics: GatewayMetrics,
    /// Cancelled when the plugins and the script executor are loaded, or have failed to.
    loaded: CancellationToken,
    background: Background,
    /// Keeps the limits of callers.
    limiter: Arc<Limiter>,
    /// The calls that run, and the bus of events.
    live_calls: LiveCalls,
    /// Dropped after `background`, which cancels its tasks: servers that have not stopped are killed.
    upstreams: ServerThreads,
}

impl Gateway {
    /// Returns a builder for a gateway with this configuration.
    pub fn builder(config: Config) -> GatewayBuilder {
        GatewayBuilder::new(config)
    }

    fn new(
        parts: GatewayParts,
        serving: &Arc<Serving>,
        tools: ProgramTools,
        to_serve: ToServe,
    ) -> Self {
        let address = to_serve.listener.as_ref().and_then(|listener| listener.local_addr().ok());
        Self(Arc::new(GatewayState {
            live: serving.serve(parts.hooks(serving)),
            tools,
            to_serve: Mutex::new(Some(to_serve)),
            address: SetOnce::new_with(address),
            stopping: CancellationToken::new(),
            serving: TaskTracker::new(),
            closed: OnceCell::new(),
            is_watching: AtomicBool::new(false),
            has_recorded: AtomicBool::new(false),
            parts,
        }))
    }

    /// Returns the catalog of all tools.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.0.parts.catalog
    }

    /// Returns the sandbox, for example to read the usage of its pool.
    pub fn sandbox(&self) -> &Sandbox {
        &self.0.parts.sandbox
    }

    /// Returns the reloader, which takes changes of the configuration file, of the entries in the store,
    /// and of plugins.
    pub fn reloader(&self) -> &Reloader {
        &self.0.parts.reloader
    }

    /// Returns the tools of the program, which may be registered, replaced and removed at any time.
    pub fn tools(&self) -> &ProgramTools {
        &self.0.tools
    }

    /// Begins a request of the program: to list tools, to call one, to run a script or to chat, with the same
    /// rules as a request over HTTP.
    pub fn request(&self) -> RequestBuilder {
        RequestBuilder::new(self.clone())
    }

    /// Returns a caller with the operator's own view: no filter headers, no key, and the clients of all
    /// owners.
    pub fn caller(&self, origin: Origin) -> Caller {
        self.caller_in(origin, None)
    }

    /// Returns the same caller, whose scripts are in `language`; in that of the configuration if it is `None`.
    pub(crate) fn caller_in(&self, origin: Origin, language: Option<ScriptLanguage>) -> Caller {
        let parts = &self.0.parts;
        let filter = Filter::of_operator().with_language(language);
        let view = parts.catalog.snapshot().view(&filter, None);
        Caller::new(view, origin, parts.config.budget)
    }

    /// Waits until every source for which `matters` returns true has connected or failed once, with all
    /// its instances, for at most `limit`.
    pub async fn settled(&self, limit: Duration, matters: impl Fn(&ToolSource) -> bool) {
        let GatewayParts { catalog, reloader, upstreams, .. } = &self.0.parts;
        let deadline = Instant::now() + limit;
        // Before, there are no sources.
        let _ = timeout_at(deadline, reloader.settings_read().cancelled()).await;
        catalog.settled(deadline, &matters).await;
        let snapshot = catalog.snapshot();
        let clients = snapshot.clients().filter(|client| matters(client));
        let clients: Vec<_> = clients.map(|client| client.name.clone()).collect();
        let _ = timeout_at(deadline, upstreams.0.settled(&clients)).await;
    }

    /// Returns a future that completes when every plugin and the script executor is loaded, or has
    /// failed to.
    pub fn loaded(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.parts.loaded.clone().cancelled_owned()
    }

    /// Returns a future that completes with the setup token, to be shown once to who operates the gateway:
    /// its holder makes the first operator of the management API. `None` if there is an operator, or if
    /// the API is disabled. It waits while the store cannot be used.
    pub fn setup_token(&self) -> impl Future<Output = Option<SetupToken>> + Send + use<> {
        let management = self.0.parts.management.clone();
        async move {
            let management = management?;
            management::first_token(&management).await
        }
    }

    /// Returns the address that [`Gateway::serve`] serves on. `None` if it is not known yet: without a
    /// listener of the program, the configured address is bound only then.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.address.get().copied()
    }

    /// Waits for the address that [`Gateway::serve`] serves on. Without a call of it that succeeds, it waits for
    /// ever.
    pub async fn bound_addr(&self) -> SocketAddr {
        *self.0.address.wait().await
    }

    /// Reads the certificate of the listener, unless that has happened. [`Gateway::serve`] does the same; a
    /// program that announces its address may do it before. Fails if the certificate cannot be used.
    pub fn load_certificate(
        &self,
    ) -> impl Future<Output = Result<(), GatewayError>> + Send + use<> {
        self.0.parts.load_certificate()
    }

    /// Returns the state of request handlers.
    pub(crate) fn live(&self) -> &LiveApp {
        &self.0.live
    }

    /// Finds the virtual key with a credential, if it is accepted at this moment.
    pub(crate) fn find_key(&self, credential: &str) -> Option<Arc<VirtualKey>> {
        self.0.parts.keys.find(credential, None, SystemTime::now())
    }

    /// Returns the list of calls that wait for an approval.
    pub(crate) fn approvals(&self) -> Approvals {
        self.0.parts.approvals()
    }

    /// Returns whether the settings in the store were read, so that requests may begin.
    pub(crate) fn has_settings(&self) -> bool {
        self.0.parts.reloader.settings_read().is_cancelled()
    }

    /// Counts a request of the program until the result is dropped; `None` if the gateway stops, or has stopped.
    pub(crate) fn enter(&self) -> Option<TaskTrackerToken> {
        self.0.live.enter().filter(|_| !self.0.stopping.is_cancelled())
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

impl GatewayState {
    /// Begins to take changes and to reload plugins, once.
    fn watch(&self) {
        if self.is_watching.swap(true, Ordering::Relaxed) {
            return;
        }
        let parts = &self.parts;
        warnings::report_unpinned(&parts.config);
        warnings::report_without_pins(&parts.config, |_| true);
        parts.keep_records();
        parts.publish_events();
        let plugins = parts.plugins.clone();
        parts.background.spawn(async move { plugins.watch().await });
        let reloader = parts.reloader.clone();
        parts.background.spawn(async move { reloader.watch().await });
        let followed = follow::follow(parts.reloader.clone(), parts.management.clone());
        parts.background.spawn(followed);
    }
}

impl GatewayParts {
    fn load_certificate(&self) -> impl Future<Output = Result<(), GatewayError>> + Send + use<> {
        let certificate = self.certificate.clone();
        async move {
            let Some(certificate) = certificate else { return Ok(()) };
            certificate.start().await.map_err(GatewayError::configuration(UNUSABLE_TLS))
        }
    }

    /// Begins to record what is not a call, and to remove what is old.
    fn keep_records(&self) {
        let Some(recorder) = self.records.clone() else { return };
        let approvals = self.approvals();
        self.background.spawn(async move { approvals.sweep().await });
        self.background.spawn(recording::follow_changes(self.database.clone(), recorder.clone()));
        self.background.spawn(async move { recorder.sweep().await });
    }

    /// Begins to publish changes of the sources of tools and of the store.
    fn publish_events(&self) {
        let bus = self.live_calls.bus();
        self.background.spawn(events::follow_catalog(bus.clone(), self.catalog.clone()));
        self.background.spawn(events::follow_store(bus.clone(), self.database.clone()));
    }

    fn approvals(&self) -> Approvals {
        let acts = self.metrics.acts.before(self.records.as_ref());
        let acts = events::published(self.live_calls.bus(), acts);
        Approvals::new(self.database.clone()).with_acts(acts)
    }

    /// Returns the parts that the request handlers use.
    fn hooks(&self, serving: &Arc<Serving>) -> server::Hooks {
        let operators = self.operators();
        let http = HttpMetrics::new();
        let sandbox = self.sandbox.clone();
        let records = self.records.clone();
        server::Hooks {
            catalog: self.catalog.clone(),
            keys: self.keys.clone(),
            waiting: Arc::new(operators.approvals.clone()),
            operators: Arc::new(operators),
            gauges: vec![("sandbox", Box::new(move || json!(sandbox.usage())))],
            metrics: ShownMetrics::new(metrics::registry(self, serving, &http)),
            http,
            logins: self.upstreams.0.clone(),
            database: self.database.clone(),
            settings_read: self.reloader.settings_read().clone(),
            tls: self.certificate.as_ref().map(|certificate| certificate.listener().clone()),
            audit_key: Box::new(move || records.as_ref()?.public_key()),
        }
    }

    /// Returns the parts that operators use.
    fn operators(&self) -> OperatorHooks {
        let file = self.reloader.source().map(|source| source.path());
        OperatorHooks {
            approvals: self.approvals(),
            live_calls: self.live_calls.clone(),
            dry_runs: Some(Arc::new(DryGateways::new(file, &self.config.vaults))),
            replays: Some(Arc::new(Replayer::new(self.code_mode.clone()))),
            events: self.live_calls.bus().clone(),
            plugins: Arc::new(self.reloader.clone()),
            upstreams: self.upstreams.0.clone(),
            management: self.management.clone().map(|service| service as Arc<dyn Management>),
        }
    }
}
