//! The MCP servers of a gateway: their pins, their connections, and the operator's control of them.

use std::{collections::BTreeMap, io, sync::Arc};

use futures_util::future::BoxFuture;

use super::background::Background;
use airlock_catalog::{Catalog, SourceKind};
use airlock_config::{Config, Disabled, Source};
use airlock_core::tool::ClientName;
use airlock_mcp_client::Logins;
use airlock_server::{NotDone, Upstreams};
use airlock_store::LazyDatabase;
use airlock_upstream::{Control, ControlError, Runtime, UpstreamMetrics, pins::Pins, supervise};

/// Owns the MCP servers of a gateway.
pub(super) struct UpstreamServers {
    /// The definitions that the operator has accepted.
    pub(super) pins: Pins,
    /// The operator's control of them.
    pub(super) controls: Arc<Controls>,
    /// Threads of the connections; `None` if there are no servers. Dropping it kills the servers that
    /// have not stopped.
    _runtime: Option<Runtime>,
}

impl UpstreamServers {
    /// Adds the servers to the catalog, and starts one task for each, on a runtime separate from that
    /// of the HTTP server: a slow, dead or flooding server does not delay other work. Fails if the
    /// system starts no threads for it.
    pub(super) fn connect(
        config: &Config,
        catalog: &Arc<Catalog>,
        database: &LazyDatabase,
        background: &Background,
    ) -> io::Result<Self> {
        let servers = config.clients.iter().filter_map(|client| match &client.source {
            Source::Upstream(settings) => Some((client, settings)),
            Source::Plugin(_) => None,
        });
        let servers: Vec<_> = servers.collect();
        let settings = servers.iter().map(|(_, settings)| *settings);
        let pins = Pins::new(config.lock.clone(), database.clone(), settings);
        let logins = Logins::new(database.clone());
        let runtime = (!servers.is_empty()).then(Runtime::new).transpose()?;
        let mut active = BTreeMap::new();
        for (client, settings) in servers {
            let kind = SourceKind::Server(settings.transport.connection_type());
            catalog.add_client(&client.name, kind, client.policy.clone());
            let runtime = runtime.as_ref().expect("it was made for these servers").handle();
            let (control, task) = supervise(
                settings.clone(),
                pins.client(client.name.as_str()).expect("each of these servers has pins"),
                &logins,
                catalog.clone(),
                background.stopping(),
                runtime,
            );
            active.insert(client.name.clone(), control);
            background.spawn_on(runtime, task);
        }
        let controls = Arc::new(Controls { active, disabled: config.disabled.clone() });
        Ok(Self { pins, controls, _runtime: runtime })
    }

    /// Returns the metrics of all servers, those included that are disabled.
    pub(super) fn metrics(&self, catalog: Arc<Catalog>) -> UpstreamMetrics {
        let disabled = self.controls.disabled.iter().map(|client| &client.name);
        UpstreamMetrics::new(catalog, &self.controls.active, disabled)
    }
}

/// The operator's control of all MCP servers.
pub(super) struct Controls {
    /// Of the servers that are connected.
    active: BTreeMap<ClientName, Control>,
    /// Servers that the configuration disables.
    disabled: Vec<Disabled>,
}

impl Controls {
    fn find(&self, client: &str) -> Result<&Control, NotDone> {
        self.active.get(client).ok_or_else(|| NotDone::Unknown(client.to_owned()))
    }
}

impl Upstreams for Controls {
    fn reconnect<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<(), NotDone>> {
        Box::pin(async move { self.find(client)?.reconnect().await.map_err(not_done) })
    }

    fn refresh<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<usize, NotDone>> {
        Box::pin(async move { self.find(client)?.refresh().await.map_err(not_done) })
    }

    fn logs(&self, client: &str) -> Option<Vec<String>> {
        self.find(client).ok().map(Control::logs)
    }

    fn disabled(&self) -> Vec<(String, &'static str)> {
        self.disabled
            .iter()
            .map(|client| (client.name.to_string(), client.connection_type))
            .collect()
    }
}

fn not_done(error: ControlError) -> NotDone {
    match error {
        ControlError::InProgress => NotDone::InProgress,
        ControlError::Failed(reason) => NotDone::Failed(reason),
        ControlError::Stopping => NotDone::Stopping,
    }
}
