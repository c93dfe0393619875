//! Implements the server's [`Reload`] trait for the plugins.

use futures_util::future::BoxFuture;

use crate::{
    plugin::{PluginError, Plugins, Reloaded},
    server::{NotReloaded, Reload},
    text::with_causes,
};

impl Reload for Plugins {
    fn digest(&self, client: &str) -> Option<String> {
        Plugins::digest(self, client)
    }

    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>> {
        Box::pin(async move {
            let reloaded = Plugins::reload(self, client).await;
            reloaded
                .map(|reloaded| reloaded == Reloaded::Swapped)
                .map_err(|error| not_reloaded(&error))
        })
    }
}

/// Converts an error with its whole chain of causes, because only operators may reload.
fn not_reloaded(error: &PluginError) -> NotReloaded {
    let reason = with_causes(error);
    match error {
        PluginError::Unknown(client) => NotReloaded::Unknown(client.clone()),
        PluginError::Refused(_)
        | PluginError::Drift(_)
        | PluginError::Widened(_)
        | PluginError::Lock(_) => NotReloaded::Undecided(reason),
        PluginError::Load(_)
        | PluginError::Metadata(_)
        | PluginError::NoTools(_)
        | PluginError::Store(_)
        | PluginError::Egress(_) => NotReloaded::Unusable(reason),
    }
}
