//! A gateway as the program holds it.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    sync::{OnceCell, SetOnce},
    time::{Instant, timeout_at},
};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use super::{
    GatewayError, Reloader, follow, key_values::ShowKeyValue, management, parts::GatewayParts,
    serving::Serving, warnings,
};
use crate::native::ProgramTools;
use airlock_agent::approvals::Approvals;
use airlock_catalog::{Catalog, ToolSource};
use airlock_core::door::{Caller, Filter, Origin, ScriptLanguage, VirtualKey};
use airlock_management::{Service, SetupToken};
use airlock_sandbox::Sandbox;
use airlock_server::LiveApp;

/// The longest time that the program may set; a longer one is cut to it. The sum of an instant and a much longer time
/// panics.
pub(super) const MAX_TIME: Duration = Duration::from_hours(24 * 365);

/// A gateway whose plugins are being loaded and whose MCP servers are connecting. Cheap to clone: clones are
/// the same gateway. It stops in order with [`Gateway::stop`]. When the last clone is dropped, it stops at
/// once: nothing is drained, and MCP servers are killed. A [`GatewayRequest`](super::GatewayRequest), a
/// [`GatewayService`](airlock_server::GatewayService) and the future of [`Gateway::serve`] are clones too; dropping
/// that future ends the requests on its sockets at once.
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
pub struct Gateway(pub(super) Arc<GatewayState>);

/// A gateway, as all clones of its handle share it.
pub(super) struct GatewayState {
    /// The state of request handlers, whether or not the gateway serves.
    pub(super) live: Arc<LiveApp>,
    /// The tools of the program.
    pub(super) tools: ProgramTools,
    /// The needs of serving; `None` once [`Gateway::serve`] was called.
    pub(super) to_serve: Mutex<Option<ToServe>>,
    /// Address that is served on, once it is known.
    pub(super) address: SetOnce<SocketAddr>,
    /// Cancelled when the gateway is to stop.
    pub(super) stopping: CancellationToken,
    /// The serving that has not ended.
    pub(super) serving: TaskTracker,
    /// Set once the gateway has stopped.
    pub(super) closed: OnceCell<()>,
    /// True once changes of the configuration and of plugins are watched.
    pub(super) is_watching: AtomicBool,
    /// True once the start is recorded, or is about to be.
    pub(super) has_recorded: AtomicBool,
    pub(super) parts: GatewayParts,
}

/// The needs of serving, beside the parts.
pub(super) struct ToServe {
    /// `None` to serve on the configured address.
    pub(super) listener: Option<TcpListener>,
    pub(super) shutdown: BoxFuture<'static, ()>,
    /// Makes the credentials of virtual keys that have none; `None` without a hook that shows them.
    pub(super) key_maker: Option<(Arc<Service>, ShowKeyValue)>,
}

impl Gateway {
    /// Makes the gateway of these parts, whose request handlers have the settings of `serving`.
    pub(super) fn new(
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
    /// its instances, for at most `limit` and at most a year.
    pub async fn settled(&self, limit: Duration, matters: impl Fn(&ToolSource) -> bool) {
        let GatewayParts { catalog, reloader, upstreams, .. } = &self.0.parts;
        let deadline = Instant::now() + limit.min(MAX_TIME);
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

airlock_strings::debug_fields!(Gateway {});

impl GatewayState {
    /// Begins to take changes and to reload plugins, once.
    pub(super) fn watch(&self) {
        if self.is_watching.swap(true, Ordering::Relaxed) {
            return;
        }
        let parts = &self.parts;
        warnings::report_unpinned(&parts.config);
        warnings::report_without_pins(&parts.config, |_| true);
        parts.keep_records();
        parts.sweep_stores();
        parts.publish_events();
        let plugins = parts.plugins.clone();
        parts.background.spawn(async move { plugins.watch().await });
        let reloader = parts.reloader.clone();
        parts.background.spawn(async move { reloader.watch().await });
        let followed = follow::follow(parts.reloader.clone(), parts.management.clone());
        parts.background.spawn(followed);
    }
}
