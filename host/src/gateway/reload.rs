//! Takes changed plugin entries of the configuration file while the gateway runs. Everything else in
//! the file is taken at the next start, and the log names the keys that have changed.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tracing::{info, warn};

use super::warnings::report_unpinned;
use airlock_config::{Config, ConfigError, Fingerprint, Source};
use airlock_core::tool::{ClientName, INTERNAL_CLIENT};
use airlock_lock::{FileVersion, WATCH_PERIOD, file_version};
use airlock_plugin::{Configured, PluginError, Plugins, Reconfigured, Reloaded, StoreError};
use airlock_sandbox::Sandbox;
use airlock_server::{NotReloaded, Reload};
use airlock_strings::{cut, with_causes};

/// Longest list of keys or clients in a line of the log, in bytes. A file may have thousands.
const MAX_LISTED: usize = 1_000;
/// End of the key that puts a client into code mode.
const CODE_MODE: &str = "is_code_mode_client";
/// End of the key that sets the layout of a client's virtual files.
const BINDING_LEVEL: &str = "code_mode_binding_level";

/// Keeps the plugins of a running gateway as its configuration file says. Cheap to clone.
#[derive(Clone)]
pub struct Reloader(Arc<Inner>);

struct Inner {
    /// `None` if the configuration was not loaded from a file.
    file: Option<PathBuf>,
    plugins: Plugins,
    sandbox: Sandbox,
    /// The configuration that the gateway was started with.
    started: Fingerprint,
    /// Names of the clients that are no plugins. No plugin can take one of them before a restart.
    others: BTreeSet<ClientName>,
    /// True if scripts can run. Code mode is set up at the start.
    has_code_mode: bool,
    taken: tokio::sync::Mutex<Taken>,
}

/// The configuration that was taken last.
struct Taken {
    fingerprint: Fingerprint,
    /// Version of the file that was read last, valid or not.
    version: Option<FileVersion>,
    /// Keys that were reported as taken at the next start.
    pending: Vec<String>,
}

impl Reloader {
    /// Creates a reloader for the plugins of a gateway that was started with `config`.
    pub(super) fn new(
        config: &Config,
        plugins: Plugins,
        sandbox: Sandbox,
        has_code_mode: bool,
    ) -> Self {
        let plugin_names: BTreeSet<_> = configured(config).map(|plugin| plugin.client).collect();
        let active = config.clients.iter().map(|client| &client.name);
        let disabled = config.disabled.iter().map(|client| &client.name);
        let others = active.chain(disabled).filter(|name| !plugin_names.contains(*name)).cloned();
        let internal = ClientName::parse(INTERNAL_CLIENT).ok();
        let started = config.fingerprint.clone();
        let taken = Taken { fingerprint: started.clone(), version: None, pending: Vec::new() };
        Self(Arc::new(Inner {
            file: config.file.clone(),
            plugins,
            sandbox,
            started,
            others: others.chain(internal).collect(),
            has_code_mode,
            taken: tokio::sync::Mutex::new(taken),
        }))
    }

    /// Takes the plugin entries of the configuration file, and reloads every plugin whose component
    /// has changed.
    pub async fn reload_all(&self) {
        match self.take().await {
            Ok(outcome) if outcome.is_empty() => {
                info!("no plugin entry of the configuration file has changed");
            }
            // Both were logged.
            Ok(_) | Err(_) => {}
        }
        self.0.plugins.reload_all().await;
    }

    /// Takes the plugin entries whenever the configuration file changes. Returns only if there is no
    /// file. A file must look the same in two checks before it is read, so that no half-written file
    /// is read.
    pub(super) async fn watch(&self) {
        let Some(file) = &self.0.file else { return };
        let mut ticks = tokio::time::interval(WATCH_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            ticks.tick().await;
            let now = file_version(file).await;
            let is_new = self.0.taken.lock().await.version != now;
            if is_new && now.is_some() && now == before {
                // It logs its own outcome.
                let _ = self.take().await;
            }
            before = now;
        }
    }

    /// Reads the configuration file and takes its plugin entries. Logs what it took. If the file is
    /// invalid, no entry changes; components that have changed are reloaded all the same.
    async fn take(&self) -> Result<Reconfigured, ConfigError> {
        let Some(file) = &self.0.file else { return Ok(Reconfigured::default()) };
        let mut taken = self.0.taken.lock().await;
        taken.version = file_version(file).await;
        let path = file.clone();
        let config = tokio::task::spawn_blocking(move || Config::load(&path)).await;
        let config = config.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
        let config = config.inspect_err(|error| {
            let reason = with_causes(error);
            warn!(file = %file.display(), reason, "the configuration file is invalid, so no entry of it is taken");
        })?;
        let outcome = self.configure(&config).await;
        Self::report(&config, &taken, &outcome);
        self.report_pending(&config, &mut taken);
        taken.fingerprint = config.fingerprint;
        Ok(outcome)
    }

    async fn configure(&self, config: &Config) -> Reconfigured {
        let is_changed = self.0.sandbox.set_off_limits(config.sandbox.off_limits.clone());
        let entries = configured(config).filter(|plugin| !self.0.others.contains(&plugin.client));
        let entries = entries.map(|plugin| self.without_scripts(plugin));
        self.0.plugins.configure(entries, is_changed).await
    }

    /// Leaves a plugin out of code mode if the gateway has none.
    fn without_scripts(&self, mut plugin: Configured) -> Configured {
        plugin.policy.code_mode &= self.0.has_code_mode;
        plugin
    }

    fn report(config: &Config, taken: &Taken, outcome: &Reconfigured) {
        let Reconfigured { added, changed, rechecked, removed, failed } = outcome;
        if outcome.is_empty() {
            return;
        }
        let differences = taken.fingerprint.differences(&config.fingerprint);
        let changed = changed.iter().map(|client| {
            let own =
                differences.iter().filter(|key| key.client.as_deref() == Some(client.as_str()));
            let keys: Vec<_> = own.map(|key| key.path.as_str()).collect();
            format!("{client} ({})", keys.join(", "))
        });
        let changed: Vec<_> = changed.collect();
        info!(
            added = names(added),
            changed = cut(changed.join("; "), MAX_LISTED),
            rechecked = names(rechecked),
            removed = names(removed),
            failed = names(failed),
            "plugin entries of the configuration file taken"
        );
        report_unpinned(config);
    }

    /// Logs the keys that differ from those of the start and are not taken, if they have changed since
    /// they were last logged.
    fn report_pending(&self, config: &Config, taken: &mut Taken) {
        let pending = self.pending(config);
        if pending != taken.pending && !pending.is_empty() {
            let keys = cut(pending.join(", "), MAX_LISTED);
            warn!(
                keys,
                "changed in the configuration file, and taken only when the gateway is restarted"
            );
        }
        taken.pending = pending;
    }

    /// Returns the keys that differ from those of the start and are not taken.
    fn pending(&self, config: &Config) -> Vec<String> {
        let mut pending = Vec::new();
        for key in self.0.started.differences(&config.fingerprint) {
            let Some(client) = &key.client else {
                pending.push(key.path.clone());
                continue;
            };
            let entry = format!("mcp.client_configs[name = {client:?}]");
            let is_late =
                key.path == BINDING_LEVEL || (key.path == CODE_MODE && !self.0.has_code_mode);
            if self.is_plugin(client, config) {
                pending.extend(is_late.then(|| format!("{entry}.{}", key.path)));
            } else if pending.last() != Some(&entry) {
                pending.push(entry);
            }
        }
        pending
    }

    /// Returns whether the entry of a client is a plugin's, before and after the change.
    fn is_plugin(&self, client: &str, config: &Config) -> bool {
        if self.0.others.contains(client) {
            return false;
        }
        let is_plugin = configured(config).any(|plugin| plugin.client.as_str() == client);
        let active = config.clients.iter().map(|client| &client.name);
        let mut names = active.chain(config.disabled.iter().map(|client| &client.name));
        is_plugin || !names.any(|name| name.as_str() == client)
    }
}

/// Returns the plugins of a configuration.
pub(super) fn configured(config: &Config) -> impl Iterator<Item = Configured> {
    config.clients.iter().filter_map(|client| match &client.source {
        Source::Plugin(settings) => Some(Configured {
            client: client.name.clone(),
            policy: client.policy.clone(),
            settings: (**settings).clone(),
        }),
        Source::Upstream(_) => None,
    })
}

fn names(clients: &[ClientName]) -> String {
    let names: Vec<_> = clients.iter().map(ClientName::as_str).collect();
    cut(names.join(", "), MAX_LISTED)
}

impl Reload for Reloader {
    fn digest(&self, client: &str) -> Option<String> {
        self.0.plugins.digest(client)
    }

    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>> {
        Box::pin(async move {
            let taken = self.take().await;
            let taken = taken.map_err(|error| NotReloaded::Configuration(with_causes(&error)))?;
            let is_taken =
                taken.added.iter().chain(&taken.changed).any(|taken| taken.as_str() == client);
            let reloaded = self.0.plugins.reload(client).await;
            reloaded
                .map(|reloaded| reloaded == Reloaded::Swapped || is_taken)
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
        | PluginError::Entries(StoreError::Unassigned(_))
        | PluginError::Lock(_) => NotReloaded::Undecided(reason),
        PluginError::Load(_)
        | PluginError::Metadata(_)
        | PluginError::NoTools(_)
        | PluginError::Store(_)
        | PluginError::Entries(StoreError::Unavailable(_))
        | PluginError::Egress(_) => NotReloaded::Unusable(reason),
    }
}
