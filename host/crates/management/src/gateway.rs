//! The running gateway, as the API needs it: it takes changes, inspects plugins, and returns its state.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use airlock_config::{ConfigError, Problem};
use airlock_limits::Limiter;
use airlock_plugin::{InspectError, Metadata};
use airlock_strings::with_causes;

/// The running gateway, which takes changed elements.
pub trait Apply: Send + Sync + 'static {
    /// Takes the elements of the file and the store. Waits until the plugins are loaded if it
    /// `awaits_plugins`, which may have to be compiled. Dropping the future does not undo what was taken.
    fn apply(&self, awaits_plugins: bool) -> BoxFuture<'_, Result<(), NotApplied>>;

    /// Waits until a client is connected or has failed, for at most `limit`. Fails with the reason if it is
    /// not connected for any other reason than a login.
    fn connected<'a>(
        &'a self,
        client: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<FirstConnection, NotApplied>>;

    /// Compiles a component with nothing granted, and returns its metadata with its tools. Fails if it
    /// cannot be loaded.
    fn inspect(&self, component: Arc<[u8]>) -> BoxFuture<'_, Result<Metadata, InspectError>>;

    /// Returns the state of a plugin; `None` if there is none with this name.
    fn plugin(&self, client: &str) -> Option<PluginState>;

    /// Returns what keeps the limits; `None` if nothing does.
    fn limiter(&self) -> Option<&Limiter> {
        None
    }

    /// Returns what would change if the configuration file had this content. Fails if the settings of
    /// the store cannot be read.
    fn preview(&self, file: Value) -> BoxFuture<'_, Result<Preview, NotApplied>>;
}

/// Outcome of the first connection of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstConnection {
    /// It is connected, and its tools are listed.
    Ready,
    /// The operator has to log in at its server. The gateway connects by itself afterwards.
    NeedsLogin {
        /// Reason with the command to run.
        reason: String,
    },
}

/// State of a plugin on a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginState {
    /// State of its source of tools, such as `connected`.
    pub phase: &'static str,
    /// Reason that it is not connected.
    pub reason: Option<String>,
    /// Digest of the component that is loaded.
    pub digest: Option<String>,
}

/// Reason that the running gateway has not taken a change, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotApplied(pub String);

impl From<ConfigError> for NotApplied {
    fn from(error: ConfigError) -> Self {
        Self(with_causes(&error))
    }
}

/// Changes that a configuration file would make.
#[derive(Debug, Default, Serialize)]
pub struct Preview {
    /// Problems, for which nothing of the file would be taken.
    pub errors: Vec<Problem>,
    /// Clients that differ.
    pub clients: Differences,
    /// Virtual keys that differ.
    pub virtual_keys: Differences,
    /// Other keys that differ and are taken while the gateway runs.
    pub settings: Vec<String>,
    /// Other keys of the file that differ from those with which the gateway was started, and are taken
    /// only when it is restarted.
    pub restart: Vec<String>,
}

/// Elements that differ, by their names.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Those that the gateway does not have.
    pub added: Vec<String>,
    /// Those that it has with other settings.
    pub changed: Vec<Changed>,
    /// Those that it would not have any more.
    pub removed: Vec<String>,
}

/// An element that differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// Keys of the element whose values differ, where they are known.
    pub keys: Vec<String>,
}

impl Preview {
    /// Returns whether the file is valid and would change nothing.
    pub fn is_empty(&self) -> bool {
        let Self { errors, clients, virtual_keys, settings, restart } = self;
        errors.is_empty()
            && clients.is_empty()
            && virtual_keys.is_empty()
            && settings.is_empty()
            && restart.is_empty()
    }
}

impl Differences {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}
