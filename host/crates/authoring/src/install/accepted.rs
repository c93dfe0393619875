//! The plugins of a configuration, and the lock that records which of them were accepted.

use std::path::{Path, PathBuf};

use super::{Obstacle, WrittenKeys, obstacle::LoadDecision};
use crate::{Component, ComponentError};
use airlock_compile::CompileHook;
use airlock_config::{Client, Config, Source};
use airlock_core::tool::ClientName;
use airlock_lock::{FILE_NAME as LOCK_FILE, Lock, LockError, Pin};
use airlock_plugin::{Configured, Drift, Metadata};

/// A configuration's plugins and its lock.
#[derive(Clone)]
pub struct AcceptedPlugins {
    /// Path of the lock file.
    pub path: PathBuf,
    /// The accepted state; empty if there is no lock file yet.
    pub lock: Lock,
    /// True if no lock file lists plugins, so that every configured plugin is loaded.
    pub is_new: bool,
    plugins: Vec<Configured>,
    /// The lock as it was read.
    read: Option<Lock>,
}

/// A plugin as it is now, compared with its accepted state.
pub struct ComparedPlugin {
    /// The configured component.
    pub component: Component,
    /// Its differences; `None` if it is the accepted one.
    pub drift: Option<Drift>,
    /// Reasons that it would not be loaded. Without a drift nothing about it would be accepted, so that
    /// only a missing signature is one.
    pub obstacles: Vec<Obstacle>,
    /// Notes about grants that differ from the requests, and values that the gateway will need; none without a drift.
    pub notes: Vec<String>,
    /// The state to accept.
    pub pin: Pin,
}

/// Reason that the accepted state of plugins cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The lock file cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// No plugin has the name.
    #[error("no plugin is named {name:?}; configured: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names of all plugins.
        known: String,
    },
    /// The component of a plugin cannot be read.
    #[error("the plugin {client} cannot be read")]
    Component {
        /// Its name in the configuration.
        client: ClientName,
        /// The cause.
        source: ComponentError,
    },
}

impl AcceptedPlugins {
    /// Reads the lock beside `config`, which has these clients.
    pub fn read(clients: &[Client], config: &Path) -> Result<Self, AcceptError> {
        let path = config.with_file_name(LOCK_FILE);
        let lock = Lock::load(&path)?;
        let plugins = clients.iter().filter_map(|client| match &client.source {
            Source::Plugin(settings) => Some(Configured {
                client: client.name.clone(),
                policy: client.policy.clone(),
                settings: (**settings).clone(),
            }),
            Source::Upstream(_) => None,
        });
        let plugins = plugins.collect();
        let is_new = !lock.as_ref().is_some_and(Lock::is_of_plugins);
        Ok(Self { path, is_new, lock: lock.clone().unwrap_or_default(), plugins, read: lock })
    }

    /// Returns the plugins with these names, or all of them if `names` is empty.
    pub fn select(&self, names: &[String]) -> Result<Vec<Configured>, AcceptError> {
        if names.is_empty() {
            return Ok(self.plugins.clone());
        }
        let selected = names.iter().map(|name| {
            let found = self.plugins.iter().find(|plugin| plugin.client.as_str() == name);
            found
                .cloned()
                .ok_or_else(|| AcceptError::Unknown { name: name.clone(), known: self.known() })
        });
        selected.collect()
    }

    /// Returns the current holder of a name, as a lock: the accepted state, or the metadata of the
    /// configured component if none were accepted. It has no rights if that component cannot be
    /// read. `None` if the name is free.
    pub(super) async fn holder(
        &self,
        client: &ClientName,
        on_compile: &CompileHook,
    ) -> Option<Lock> {
        if self.lock.pin(client).is_some() {
            return Some(self.lock.clone());
        }
        let plugin = self.plugins.iter().find(|plugin| plugin.client == *client)?;
        // Of a component that cannot be read nothing was accepted, so everything is a wider request.
        let metadata =
            Component::read_source(&plugin.settings.component, on_compile).await.map_or_else(
                |_| Metadata::new(b"", Vec::new(), None, Vec::new()),
                |component| component.metadata,
            );
        Some(Lock::of_one(metadata.pin(client)))
    }

    /// Returns another client than `name` under which a plugin with this id is configured and
    /// accepted.
    pub(super) fn with_id(&self, id: &str, name: &ClientName) -> Option<&ClientName> {
        let mut others =
            self.plugins.iter().map(|plugin| &plugin.client).filter(|client| *client != name);
        others.find(|client| self.lock.pin(client).is_some_and(|pin| pin.id.as_deref() == Some(id)))
    }

    /// Returns the names of all plugins, for a message.
    pub(super) fn known(&self) -> String {
        let names: Vec<_> = self.plugins.iter().map(|plugin| plugin.client.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Returns the plugins that the gateway will refuse because they were not accepted.
    pub fn unpinned(&self) -> Vec<&ClientName> {
        self.plugins
            .iter()
            .map(|plugin| &plugin.client)
            .filter(|client| self.lock.pin(client).is_none())
            .collect()
    }

    /// Compares one plugin of `config` with its accepted state.
    pub async fn compare(
        &self,
        Configured { client, policy, settings }: &Configured,
        config: &Config,
        on_compile: &CompileHook,
    ) -> Result<ComparedPlugin, AcceptError> {
        let component = Component::read_source(&settings.component, on_compile).await;
        let mut component = component
            .map_err(|source| AcceptError::Component { client: client.clone(), source })?;
        let signed = component.authenticate(&config.publishers);
        let pin = self.next_pin(client, &component);
        let metadata = &component.metadata;
        let was = self.lock.pin(client).and_then(|pin| pin.publisher.as_deref());
        let drift = Drift::between(&self.lock, client, metadata, &settings.grant, policy);
        let drift = drift.map(|drift| {
            let is_other = drift.is_of_component();
            if is_other { drift.with_publisher(was, pin.publisher.as_deref()) } else { drift }
        });
        let LoadDecision { mut obstacles, notes } = if drift.is_some() {
            LoadDecision::new(&component, client, config, &[], &WrittenKeys::default())
        } else {
            LoadDecision::default()
        };
        // The accepted component needs no signature again: its digest is that of the signed one.
        let is_kept = drift.is_none() && config.publishers.check_pin(Some(&pin)).is_ok();
        let unsigned = signed.err().filter(|_| !is_kept);
        obstacles.extend(unsigned.map(|error| Obstacle::Invalid(error.to_string())));
        Ok(ComparedPlugin { component, drift, obstacles, notes, pin })
    }

    /// Returns the state to accept of a component. If it is the accepted one, it keeps its source and its publisher
    /// unless it has others: a server that leaves out the signature must not remove the publisher, without whom the
    /// next build would need none.
    pub(super) fn next_pin(&self, client: &ClientName, component: &Component) -> Pin {
        let own = component.pin(client);
        match self.lock.pin(client).filter(|accepted| accepted.component == own.component) {
            Some(accepted) => Pin {
                source: own.source.clone().or_else(|| accepted.source.clone()),
                publisher: own.publisher.clone().or_else(|| accepted.publisher.clone()),
                ..own
            },
            None => own,
        }
    }

    /// Writes the lock file. Fails if it has changed since it was read: a question may have been open
    /// for long.
    pub fn save(&self) -> Result<(), AcceptError> {
        Ok(self.lock.save_over(&self.path, self.read.as_ref())?)
    }
}
