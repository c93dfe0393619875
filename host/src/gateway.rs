//! Wires the parts and runs until shutdown. The entry point for embedders.
//!
//! | module | purpose |
//! |---|---|
//! | `builder` | configuration → parts → [`Gateway`] |
//! | `background` | the background tasks |
//! | `upstreams` | the MCP servers |
//! | `certificate` | the certificate of the listener, and its renewal |
//! | `control` | the controls of calls and of requests to models, which act as one |
//! | `code_mode` | code mode and its executors |
//! | `reload` | takes changes of the configuration file and of the entries in the store |
//! | `serving` | the settings of requests, which a reload replaces as a whole |
//! | `follow` | follows the entries and the operators in the store |
//! | `key_values` | credentials of virtual keys that have none in the file |
//! | `limits` | the limits of callers and the prices, which follow the configuration |
//! | `recording` | the records: the call log and the audit log |
//! | `management` | the management API of the gateway, and its Unix socket |
//! | `warnings` | warns about settings that weaken the gateway |

mod background;
mod builder;
mod certificate;
mod code_mode;
mod control;
mod error;
mod follow;
mod key_values;
mod limits;
mod management;
mod recording;
mod reload;
mod serving;
mod upstreams;
mod warnings;

pub use self::{builder::GatewayBuilder, error::GatewayError, reload::Reloader};

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::{
    net::TcpListener,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use self::{
    background::Background, certificate::Certificate, code_mode::LiveCodeMode,
    key_values::ShowKeyValue, serving::Serving, upstreams::ServerThreads,
};
use airlock_agent::approvals::Approvals;
use airlock_catalog::{Catalog, ToolSource};
use airlock_config::Config;
use airlock_core::door::{Caller, Filter, Keys, LiveKeys, Origin, ScriptLanguage};
use airlock_limits::Limiter;
use airlock_management::{Service, SetupToken};
use airlock_plugin::Plugins;
use airlock_records::Recorder;
use airlock_sandbox::Sandbox;
use airlock_scripts::CodeMode;
use airlock_server::{self as server, Management};
use airlock_store::LazyDatabase;

/// Problem of settings that the server refuses.
const UNSAFE: &str = "the server's settings are not safe";
/// Problem of a certificate that cannot be used.
const UNUSABLE_TLS: &str = "the gateway cannot serve HTTPS";
/// Time for the settings of the store to be read before the first request is answered. Later ones are
/// answered too, with the reason.
const SETTINGS_PATIENCE: Duration = Duration::from_secs(1);

/// Time for the other gateways of the store to be told that this one stops. Without, they notice it
/// later.
const LEAVE: Duration = Duration::from_secs(1);

/// A gateway whose plugins are being loaded and whose MCP servers are connecting.
pub struct Gateway {
    config: Config,
    catalog: Arc<Catalog>,
    sandbox: Sandbox,
    /// The state that survives a restart.
    database: LazyDatabase,
    /// The settings of requests.
    serving: Arc<Serving>,
    /// `None` to serve on the configured address.
    listener: Option<TcpListener>,
    shutdown: BoxFuture<'static, ()>,
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
    /// Makes the credentials of virtual keys that have none; `None` if nobody could be shown them.
    key_maker: Option<(Arc<Service>, ShowKeyValue)>,
    /// Cancelled when the plugins and the script executor are loaded, or have failed to.
    loaded: CancellationToken,
    background: Background,
    /// Keeps the limits of callers.
    limiter: Arc<Limiter>,
    /// Dropped after `background`, which cancels its tasks: servers that have not stopped are killed.
    upstreams: ServerThreads,
}

impl Gateway {
    /// Returns a builder for a gateway with this configuration.
    pub fn builder(config: Config) -> GatewayBuilder {
        GatewayBuilder::new(config)
    }

    /// Returns the catalog of all tools.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the sandbox, for example to read the usage of its pool.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the reloader, which takes changes of the configuration file, of the entries in the store,
    /// and of plugins.
    pub fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    /// Returns a caller with the operator's own view: no filter headers, no key, and the clients of all
    /// owners.
    pub fn caller(&self, origin: Origin) -> Caller {
        self.caller_in(origin, None)
    }

    /// Waits until the executor of a language is loaded, if a client is in code mode.
    #[cfg(feature = "cli")]
    pub(crate) async fn load_executor(
        &self,
        language: Option<ScriptLanguage>,
    ) -> Result<(), GatewayError> {
        match self.code_mode.needed_executor(language) {
            Some(executor) => Ok(executor.load().await?),
            None => Ok(()),
        }
    }

    /// Returns the same caller, whose scripts are in `language`; in that of the configuration if it is `None`.
    pub(crate) fn caller_in(&self, origin: Origin, language: Option<ScriptLanguage>) -> Caller {
        let filter = Filter::of_operator().with_language(language);
        let view = self.catalog.snapshot().view(&filter, None);
        Caller::new(view, origin, self.config.budget)
    }

    /// Waits until every source for which `matters` returns true has connected or failed once, with all
    /// its instances, for at most `limit`.
    pub async fn settled(&self, limit: Duration, matters: impl Fn(&ToolSource) -> bool) {
        let deadline = Instant::now() + limit;
        // Before, there are no sources.
        let _ = timeout_at(deadline, self.reloader.settings_read().cancelled()).await;
        self.catalog.settled(deadline, &matters).await;
        let snapshot = self.catalog.snapshot();
        let clients = snapshot.clients().filter(|client| matters(client));
        let clients: Vec<_> = clients.map(|client| client.name.clone()).collect();
        let _ = timeout_at(deadline, self.upstreams.0.settled(&clients)).await;
    }

    /// Returns a future that completes when every plugin and the script executor is loaded, or has
    /// failed to.
    pub fn loaded(&self) -> impl Future<Output = ()> + Send + use<> {
        self.loaded.clone().cancelled_owned()
    }

    /// Returns a future that completes with the setup token, to be shown once to who operates the gateway:
    /// its holder makes the first operator of the management API. `None` if there is an operator, or if
    /// the API is disabled. It waits while the store cannot be used.
    pub fn setup_token(&self) -> impl Future<Output = Option<SetupToken>> + Send + use<> {
        let management = self.management.clone();
        async move {
            let management = management?;
            management::first_token(&management).await
        }
    }

    /// Returns the address that [`Gateway::run`] will serve on; `None` without a listener.
    pub fn local_addr(&self) -> Option<io::Result<SocketAddr>> {
        self.listener.as_ref().map(TcpListener::local_addr)
    }

    /// Reads the certificate of the listener, unless that has happened. [`Gateway::run`] does the same; a
    /// program that announces its address may do it before. Fails if the certificate cannot be used.
    pub fn load_certificate(
        &self,
    ) -> impl Future<Output = Result<(), GatewayError>> + Send + use<> {
        let certificate = self.certificate.clone();
        async move {
            let Some(certificate) = certificate else { return Ok(()) };
            certificate.start().await.map_err(GatewayError::configuration(UNUSABLE_TLS))
        }
    }

    /// Serves until shutdown, lets requests in flight end, then stops every MCP server.
    pub async fn run(mut self) -> Result<(), GatewayError> {
        self.load_certificate().await?;
        if let Some(certificate) = self.certificate.clone() {
            self.background.spawn(async move { certificate.watch().await });
        }
        warnings::report_local_callers(&self.config);
        warnings::report_switch(self.config.tools_off);
        let is_stopped = tokio::select! {
            biased;
            started = recording::record_start(self.records.as_ref()) => {
                started?;
                false
            }
            // A long audit log takes a while to be opened.
            () = &mut self.shutdown => true,
        };
        if is_stopped {
            self.background.stop().await;
            recording::record_stop(self.records.as_ref()).await;
            return Ok(());
        }
        self.watch_plugins();
        if let Some((service, show)) = self.key_maker.take() {
            let is_wanted = !self.config.keys_without_value.is_empty();
            let reloader = self.reloader.clone();
            self.background.spawn(key_values::make(service, reloader, show, is_wanted));
        }
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => bind(&self.config.server).await?,
        };
        let replicas = self.replicas(&listener)?;
        let hooks = server::Hooks { replicas: replicas.clone(), ..self.hooks() };
        let socket = management::socket(&self.config.server.management).await;
        if let Some(url) = external_url(&self.config.server, &listener) {
            if let Some(management) = &self.management {
                management.serve_logins_at(url.clone());
            }
            self.upstreams.0.serve_logins_at(url);
        }
        let app = self.serving.serve(hooks);
        let _ = timeout(SETTINGS_PATIENCE, self.reloader.settings_read().cancelled()).await;
        let stopping = CancellationToken::new();
        let until = stopping.clone().cancelled_owned();
        let announced = replicas.map(|replicas| {
            self.background.spawn(async move { replicas.announce_until(until).await })
        });
        let shutdown = async {
            self.shutdown.await;
            // Other gateways open sessions elsewhere while this one drains.
            stopping.cancel();
        };
        let served = server::serve(listener, socket, app, shutdown).await;
        stopping.cancel();
        if let Some(announced) = announced {
            let _ = timeout(LEAVE, announced).await;
        }
        self.limiter.flush().await;
        self.background.stop().await;
        recording::record_stop(self.records.as_ref()).await;
        served.map_err(GatewayError::configuration(UNSAFE))
    }

    /// Begins to record what is not a call, and to remove what is old.
    fn keep_records(&self) {
        let Some(recorder) = self.records.clone() else { return };
        let approvals = self.approvals();
        self.background.spawn(async move { approvals.sweep().await });
        self.background.spawn(recording::follow_changes(self.database.clone(), recorder.clone()));
        self.background.spawn(async move { recorder.sweep().await });
    }

    /// Begins to take changes of the configuration file and of the entries in the store, and to reload
    /// plugins when their files change, as [`Gateway::run`] does. For a program that does not serve HTTP.
    pub fn watch_plugins(&self) {
        warnings::report_unpinned(&self.config);
        warnings::report_without_pins(&self.config, |_| true);
        self.keep_records();
        let plugins = self.plugins.clone();
        self.background.spawn(async move { plugins.watch().await });
        let reloader = self.reloader.clone();
        self.background.spawn(async move { reloader.watch().await });
        self.background.spawn(follow::follow(self.reloader.clone(), self.management.clone()));
    }

    /// Stops every MCP server and every background task, and waits until they have ended.
    pub async fn stop(self) {
        self.limiter.flush().await;
        self.background.stop().await;
        if let Some(recorder) = &self.records {
            recorder.stop().await;
        }
    }

    /// Returns the list of calls that wait for an approval.
    pub(crate) fn approvals(&self) -> Approvals {
        let acts = recording::acts(self.records.as_ref());
        Approvals::new(self.database.clone()).with_acts(acts)
    }

    /// Returns the gateways that share the store; `None` if no URL of this one is configured. Fails if
    /// others cannot be reached over TLS.
    fn replicas(
        &self,
        listener: &TcpListener,
    ) -> Result<Option<Arc<server::Replicas>>, GatewayError> {
        let Some(url) = &self.config.server.replica_url else { return Ok(None) };
        let port = listener.local_addr().map_or(0, |address| address.port());
        let tls = &self.config.server.replica_tls;
        let replicas = server::Replicas::new(self.database.clone(), url, port, tls);
        let replicas =
            replicas.map_err(GatewayError::configuration("`server.replica_url` cannot be used"))?;
        Ok(Some(Arc::new(replicas)))
    }

    /// Returns the parts that the HTTP server uses.
    fn hooks(&self) -> server::Hooks {
        let approvals = self.approvals();
        let mut metrics = Registry::default();
        metrics.register_collector(Box::new(self.upstreams.0.metrics()));
        self.code_mode.now().register_metrics(&mut metrics);
        if let Some(recorder) = &self.records {
            recorder.register_metrics(&mut metrics);
        }
        let sandbox = self.sandbox.clone();
        let records = self.records.clone();
        server::Hooks {
            catalog: self.catalog.clone(),
            keys: self.keys.clone(),
            waiting: Arc::new(approvals.clone()),
            approvals,
            gauges: vec![("sandbox", Box::new(move || json!(sandbox.usage())))],
            metrics,
            plugins: Arc::new(self.reloader.clone()),
            upstreams: self.upstreams.0.clone(),
            logins: self.upstreams.0.clone(),
            database: self.database.clone(),
            replicas: None,
            management: self.management.clone().map(|service| service as Arc<dyn Management>),
            settings_read: self.reloader.settings_read().clone(),
            tls: self.certificate.as_ref().map(|certificate| certificate.listener().clone()),
            audit_key: Box::new(move || records.as_ref()?.public_key()),
        }
    }
}

/// Parts that the command line shows or uses.
#[cfg_attr(not(feature = "cli"), allow(dead_code))]
impl Gateway {
    /// Returns the pinned definitions of the MCP servers.
    pub(crate) fn upstream_pins(&self) -> &airlock_upstream::pins::Pins {
        &self.upstreams.0.pins
    }

    /// Returns the virtual keys of this moment.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.keys.snapshot()
    }

    /// Returns code mode.
    pub(crate) fn code_mode(&self) -> Arc<CodeMode> {
        self.code_mode.now()
    }
}

/// Binds the configured address.
pub(crate) async fn bind(settings: &server::Settings) -> Result<TcpListener, GatewayError> {
    let address = settings.listen;
    TcpListener::bind(address).await.map_err(|source| GatewayError::Listen { address, source })
}

/// Returns the URL at which the browsers of users reach the gateway; `None` if it is not known.
fn external_url(settings: &server::Settings, listener: &TcpListener) -> Option<Url> {
    if settings.external_url.is_some() {
        return settings.external_url.clone();
    }
    let address = listener.local_addr().ok().filter(|address| address.ip().is_loopback())?;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    Url::parse(&format!("{scheme}://{address}")).ok()
}
