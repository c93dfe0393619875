//! The MCP servers of a gateway: their connections, which follow the configuration while the gateway
//! runs, their pins, and the operator's control of them.
//!
//! A server whose connection is set up differently is replaced, and its tools stay in the catalog:
//!
//! ```text
//! old   ready ───────────────────────────┬─ running calls end ─┬─ stopped
//! new   connects ─ lists its tools ──────┤  at most DRAIN      │
//!       (or fails)                       └─ ready, or failed ──┴────────►
//! ```
//!
//! For a moment, both are connected. Calls that were decided on before the new server was ready go to
//! the old one.

mod control;
mod logins;

use std::{
    collections::{BTreeMap, BTreeSet},
    io, path,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::background::Tasks;
use airlock_catalog::{Catalog, SourceKind};
use airlock_config::{Client, Config, Disabled, Source};
use airlock_core::tool::{ClientName, Policy};
use airlock_mcp_client::Settings;
use airlock_mcp_oauth::Logins;
use airlock_store::LazyDatabase;
use airlock_upstream::{Accounts, Control, Runtime, UpstreamMetrics, pins::Pins, supervise};

/// Time for the running calls of a server that is replaced or removed: as much as a call has by default.
const DRAIN: Duration = Duration::from_secs(30);

/// Owns the threads of the connections. Dropping it kills the servers that have not stopped.
pub(super) struct ServerThreads(pub(super) Arc<UpstreamServers>);

impl Drop for ServerThreads {
    fn drop(&mut self) {
        drop(self.0.runtime.lock().take());
    }
}

/// The MCP servers of a gateway.
pub(super) struct UpstreamServers {
    /// The definitions that the operator has accepted.
    pub(super) pins: Pins,
    catalog: Arc<Catalog>,
    accounts: Accounts,
    tasks: Tasks,
    /// Threads of the connections, separate from those of the HTTP server: a slow, dead or flooding
    /// server does not delay other work. `None` before the first server.
    runtime: Mutex<Option<Runtime>>,
    present: Mutex<Present>,
}

/// The servers of the configuration that was taken last.
#[derive(Default)]
struct Present {
    running: BTreeMap<ClientName, RunningServer>,
    /// Servers that the configuration disables.
    disabled: Vec<Disabled>,
}

/// A server that is kept connected.
#[derive(Clone)]
struct RunningServer {
    policy: Policy,
    settings: Settings,
    control: Control,
    stop: CancellationToken,
}

/// Changes of the servers.
#[derive(Debug, Default)]
pub(super) struct ServerChanges {
    pub(super) added: Vec<ClientName>,
    pub(super) changed: Vec<ClientName>,
    pub(super) removed: Vec<ClientName>,
    /// Servers for which there are no threads. The next configuration tries again.
    pub(super) failed: Vec<ClientName>,
    /// True if a server was left out because its name still is that of a plugin.
    pub(super) is_incomplete: bool,
}

impl ServerChanges {
    /// Adds later changes.
    pub(super) fn extend(&mut self, later: Self) {
        self.added.extend(later.added);
        self.changed.extend(later.changed);
        self.removed.extend(later.removed);
        self.failed.extend(later.failed);
        self.is_incomplete = later.is_incomplete;
    }
}

impl UpstreamServers {
    /// Creates the servers of a gateway that has none yet.
    pub(super) fn new(
        config: &Config,
        catalog: &Arc<Catalog>,
        database: &LazyDatabase,
        tasks: &Tasks,
    ) -> Arc<Self> {
        Arc::new(Self {
            pins: Pins::new(config.lock.clone(), database.clone()),
            catalog: catalog.clone(),
            accounts: accounts(config, database),
            tasks: tasks.clone(),
            runtime: Mutex::default(),
            present: Mutex::new(Present {
                disabled: config.disabled.clone(),
                ..Present::default()
            }),
        })
    }

    /// Starts the threads if the configuration has servers, so that [`Self::configure`] finds them.
    /// Fails if the system does not start them.
    pub(super) fn prepare(&self, config: &Config) -> io::Result<()> {
        wanted(config).next().map_or(Ok(()), |_| self.runtime().map(drop))
    }

    /// Adds, changes and removes servers, so that those of `config` run. Connecting and stopping go on in
    /// the background. A changed policy is in force at once, and leaves the connection alone. Must not
    /// run twice at a time.
    pub(super) fn configure(self: &Arc<Self>, config: &Config) -> ServerChanges {
        let mut changes =
            ServerChanges { removed: self.remove(config), ..ServerChanges::default() };
        for (client, settings) in wanted(config) {
            self.connect(client, settings, &mut changes);
        }
        self.present.lock().disabled.clone_from(&config.disabled);
        changes
    }

    /// Waits until all instances of these servers have listed their tools or have failed to.
    pub(super) async fn settled(&self, clients: &[ClientName]) {
        for server in clients.iter().filter_map(|client| self.find(client.as_str())) {
            server.control.settled().await;
        }
    }

    /// Returns the metrics of all servers, those included that are disabled.
    pub(super) fn metrics(self: &Arc<Self>) -> UpstreamMetrics {
        let servers = self.clone();
        UpstreamMetrics::new(move || servers.controls())
    }

    /// Returns the controls of all servers; `None` for those that are disabled.
    fn controls(&self) -> BTreeMap<ClientName, Option<Control>> {
        let present = self.present.lock();
        let running = present.running.iter();
        let running = running.map(|(client, server)| (client, Some(server.control.clone())));
        let disabled = present.disabled.iter().map(|client| (&client.name, None));
        disabled.chain(running).map(|(client, control)| (client.clone(), control)).collect()
    }

    fn find(&self, client: &str) -> Option<RunningServer> {
        self.present.lock().running.get(client).cloned()
    }

    /// Returns whether a server is not connected because the operator has to log in.
    pub(super) fn needs_login(&self, client: &str) -> bool {
        self.find(client).is_some_and(|server| server.control.needs_login())
    }

    /// Removes the servers that are not in `config`. Returns their names.
    fn remove(&self, config: &Config) -> Vec<ClientName> {
        let wanted: BTreeSet<_> = wanted(config).map(|(client, _)| &client.name).collect();
        let mut present = self.present.lock();
        let removed = present.running.extract_if(.., |name, _| !wanted.contains(name));
        let removed: Vec<_> = removed.collect();
        drop(present);
        let removed = removed.into_iter().map(|(client, server)| {
            self.catalog.remove_client(&client);
            self.pins.remove(client.as_str());
            if config.disabled.iter().any(|disabled| disabled.name == client) {
                // It may come back with its users.
                info!(%client, "upstream server disabled");
            } else {
                info!(%client, "upstream server removed");
                self.forget_servers(&client, None);
            }
            self.tasks.spawn(retire(server));
            client
        });
        removed.collect()
    }

    /// Makes one server run with these settings.
    fn connect(
        self: &Arc<Self>,
        client: &Client,
        settings: &Settings,
        changes: &mut ServerChanges,
    ) {
        let name = &client.name;
        let present = self.find(name.as_str());
        if present.is_none() && self.is_plugin(name) {
            changes.is_incomplete = true;
            return;
        }
        let policy_before = present.as_ref().map(|server| &server.policy);
        let is_same = present.as_ref().is_some_and(|server| server.settings == *settings);
        if is_same && policy_before == Some(&client.policy) {
            return;
        }
        let runtime = if is_same { None } else { self.runtime_or_report(name) };
        if !is_same && runtime.is_none() {
            return changes.failed.push(name.clone());
        }
        self.set_policy(client, settings, policy_before);
        match (present, runtime) {
            (None, Some(runtime)) => {
                self.start(client, settings, None, &runtime);
                changes.added.push(name.clone());
            }
            (Some(old), Some(runtime)) => {
                self.replace(client, settings, old, &runtime);
                changes.changed.push(name.clone());
            }
            (Some(server), None) => {
                server.control.policy_changed();
                self.keep(name, RunningServer { policy: client.policy.clone(), ..server });
                changes.changed.push(name.clone());
            }
            (None, None) => {}
        }
    }

    /// Sets the policy in the catalog, to which a new server is added.
    fn set_policy(&self, client: &Client, settings: &Settings, before: Option<&Policy>) {
        match before {
            None => {
                let kind = SourceKind::Server(settings.transport.connection_type());
                self.catalog.add_client(&client.name, kind, client.policy.clone());
            }
            Some(before) if *before != client.policy => {
                self.catalog.set_policy(&client.name, client.policy.clone());
            }
            Some(_) => {}
        }
    }

    /// Starts one task that keeps a server connected.
    fn start(
        &self,
        client: &Client,
        settings: &Settings,
        predecessor: Option<&Control>,
        runtime: &Handle,
    ) {
        let stop = self.tasks.stopping().child_token();
        let (control, task) = supervise(
            settings,
            &self.pins.add(settings),
            &self.accounts,
            self.catalog.clone(),
            predecessor,
            &stop,
            runtime,
        );
        self.tasks.spawn_on(runtime, task);
        let policy = client.policy.clone();
        self.keep(
            &client.name,
            RunningServer { policy, settings: settings.clone(), control, stop },
        );
    }

    fn keep(&self, client: &ClientName, server: RunningServer) {
        self.present.lock().running.insert(client.clone(), server);
    }

    /// Starts a server in the place of `old`, which is stopped once the new one is ready or has failed.
    fn replace(
        self: &Arc<Self>,
        client: &Client,
        settings: &Settings,
        old: RunningServer,
        runtime: &Handle,
    ) {
        self.start(client, settings, Some(&old.control), runtime);
        info!(client = %client.name, "upstream server is replaced, because its settings have changed");
        self.forget_servers(&client.name, Some(settings));
        if old.control.has_started() {
            self.tasks.spawn(hand_over(self.clone(), client.name.clone(), old));
        } else {
            // It has no tools yet, so no call needs it.
            old.stop.cancel();
        }
    }

    fn is_plugin(&self, name: &ClientName) -> bool {
        let snapshot = self.catalog.snapshot();
        snapshot.clients().any(|client| client.name == *name && client.kind == SourceKind::Plugin)
    }

    fn runtime_or_report(&self, client: &ClientName) -> Option<Handle> {
        let runtime = self.runtime();
        runtime.inspect_err(|error| error!(%client, %error, "no threads for upstream servers")).ok()
    }

    /// Returns the threads of the connections, which are started for the first server.
    fn runtime(&self) -> io::Result<Handle> {
        let mut runtime = self.runtime.lock();
        if self.tasks.stopping().is_cancelled() {
            return Err(io::Error::other("the gateway stops"));
        }
        if let Some(runtime) = &*runtime {
            return Ok(runtime.handle().clone());
        }
        let started = Runtime::new()?;
        Ok(runtime.insert(started).handle().clone())
    }
}

/// Returns the accounts at the servers. Their reasons name the configuration file by its whole path: the
/// operator need not be in the directory in which the gateway was started.
fn accounts(config: &Config, database: &LazyDatabase) -> Accounts {
    let accounts = Accounts::new(Logins::new(database.clone()));
    match &config.file {
        Some(file) => accounts.with_config(&path::absolute(file).unwrap_or_else(|_| file.clone())),
        None => accounts,
    }
}

/// Returns the servers of a configuration.
fn wanted(config: &Config) -> impl Iterator<Item = (&Client, &Settings)> {
    config.clients.iter().filter_map(|client| match &client.source {
        Source::Upstream(settings) => Some((client, settings)),
        Source::Plugin(_) => None,
    })
}

/// Stops a server once the one that has its name is ready or has failed. That one may be replaced
/// meanwhile, before it is ready.
async fn hand_over(servers: Arc<UpstreamServers>, client: ClientName, old: RunningServer) {
    while let Some(latest) = servers.find(client.as_str())
        && !latest.control.has_started()
    {
        latest.control.started().await;
    }
    retire(old).await;
}

/// Stops a server that gets no new calls, once its running calls have ended, or after [`DRAIN`].
async fn retire(server: RunningServer) {
    server.control.drain(DRAIN).await;
    server.stop.cancel();
}
