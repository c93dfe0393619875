//! Reloads that operators request over HTTP. Only one of them takes settings at a time, so that those that
//! wait do not delay a change that an operator makes, such as the removal of a key.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::Reloader;
use airlock_operator_api::{NotReloaded, Reload};
use airlock_plugin::{PluginError, Reloaded, StoreError};
use airlock_strings::with_causes;

impl Reload for Reloader {
    fn digest(&self, client: &str) -> Option<String> {
        self.0.parts.plugins.digest(client)
    }

    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>> {
        Box::pin(async move {
            let place = self.place().await;
            let taken = self.take_file(place).await;
            let taken = taken.map_err(|error| NotReloaded::Configuration(with_causes(&error)))?;
            let is_taken =
                taken.added.iter().chain(&taken.changed).any(|taken| taken.as_str() == client);
            let reloaded = self.0.parts.plugins.reload(client).await;
            reloaded
                .map(|reloaded| reloaded == Reloaded::Swapped || is_taken)
                .map_err(|error| not_reloaded(&error))
        })
    }

    fn reload_all(&self) -> BoxFuture<'_, Result<Value, NotReloaded>> {
        Box::pin(async move {
            if self.0.source.is_none() {
                let reason = "the gateway was started without a configuration file".to_owned();
                return Err(NotReloaded::Configuration(reason));
            }
            let place = self.place().await;
            let this = self.clone();
            // In a task of its own: a client that leaves does not leave a part undone.
            match self.0.parts.tasks.spawn(async move { this.reload(place).await }).await {
                Ok(Some(taken)) => taken
                    .map(|taken| taken.describe())
                    .map_err(|error| NotReloaded::Configuration(with_causes(&error))),
                Err(lost) if lost.is_panic() => std::panic::resume_unwind(lost.into_panic()),
                Ok(None) | Err(_) => Err(NotReloaded::Unusable("the gateway stops".to_owned())),
            }
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
        | PluginError::Entries(StoreError::Unassigned(_))
        | PluginError::Lock(_)
        | PluginError::Signature(_) => NotReloaded::Undecided(reason),
        PluginError::Load(_)
        | PluginError::Metadata(_)
        | PluginError::Absent(_)
        | PluginError::Unavailable(_)
        | PluginError::NoTools(_)
        | PluginError::Store(_)
        | PluginError::Entries(StoreError::Unavailable(_))
        | PluginError::Egress(_) => NotReloaded::Unusable(reason),
    }
}
