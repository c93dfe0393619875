//! Implements the server's [`Upstreams`] trait for the controls of MCP servers.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;

use airlock_config::Disabled;
use airlock_core::tool::ClientName;
use airlock_server::{NotDone, Upstreams};
use airlock_upstream::{Control, ControlError};

/// The operator's control of all MCP servers.
pub(super) struct Controls {
    /// Of the servers that are connected.
    pub(super) active: BTreeMap<ClientName, Control>,
    /// Servers that the configuration disables.
    pub(super) disabled: Vec<Disabled>,
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
