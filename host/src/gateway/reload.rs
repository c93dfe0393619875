//! Takes changed settings while the gateway runs: the clients and the virtual keys of the configuration
//! file, and the entries of the store that stand beside them or in their place; the roles, environments
//! and groups of tools of the file, and the switch of all tools. Everything else in the file is taken at
//! the next start, and the log names the keys that have changed.
//!
//! ```text
//! file changed, SIGHUP, store changed, operator
//!        │  one at a time
//!        ▼
//! entries of the store → ConfigSource::load(entries) → switch → keys → groups → servers → plugins
//! ```
//!
//! Nothing changes if the entries cannot be read. If the file is invalid, nothing of it is taken, and the
//! entries are merged into its last valid content. Plugins may have to be compiled, which takes a minute;
//! no other setting waits for that.

mod outcome;
mod preview;
mod report;

use std::{
    collections::BTreeSet,
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::{BoxFuture, join};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::outcome::KeyChanges;
pub(crate) use self::outcome::TakenEntries;
use self::report::Reported;
use super::{
    background::Tasks,
    certificate::Certificate,
    upstreams::{ServerChanges, UpstreamServers},
    warnings,
};
use airlock_catalog::Catalog;
use airlock_config::{Config, ConfigError, ConfigSource, Fingerprint, Loaded, Merged, Source};
use airlock_core::door::{Keys, LiveKeys};
use airlock_lock::{FileVersion, WATCH_PERIOD, file_version};
use airlock_plugin::{Configured, PluginError, Plugins, Reconfigured, Reloaded, StoreError};
use airlock_sandbox::{OffLimits, Sandbox};
use airlock_server::{NotReloaded, Reload};
use airlock_store::{LazyDatabase, entries::Entries};
use airlock_strings::with_causes;

/// Keeps the clients and the keys of a running gateway as its configuration file and its store say.
/// Cheap to clone.
#[derive(Clone)]
pub struct Reloader(Arc<Inner>);

struct Inner {
    /// `None` if the configuration was not loaded from a file. The store is not read then either.
    source: Option<Arc<ConfigSource>>,
    parts: LiveParts,
    /// The configuration that the gateway was started with.
    started: Fingerprint,
    /// Files that were granted to no plugin at the start. The gateway goes on using them, whatever the
    /// configuration says now: the key of the listener, the store.
    own_files: OffLimits,
    /// Cancelled once the entries of the store were read, or there are none.
    settings_read: CancellationToken,
    taken: tokio::sync::Mutex<Taken>,
    /// Number of the configuration whose plugins were taken last. Held while they are loaded.
    plugins_taken: tokio::sync::Mutex<u64>,
}

/// Parts of a gateway that follow its settings.
pub(super) struct LiveParts {
    /// The certificate of the listener; `None` for plain HTTP.
    pub(super) certificate: Option<Certificate>,
    pub(super) keys: LiveKeys,
    /// True once requests need a virtual key. It stays true, so that the removal of the last key opens
    /// nothing.
    pub(super) requires_key: Arc<AtomicBool>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) upstreams: Arc<UpstreamServers>,
    pub(super) plugins: Plugins,
    pub(super) sandbox: Sandbox,
    /// True if scripts can run. Code mode is set up at the start.
    pub(super) has_code_mode: bool,
    /// The store with the entries.
    pub(super) database: LazyDatabase,
    /// The tasks of the gateway.
    pub(super) tasks: Tasks,
}

/// The settings that were taken last.
struct Taken {
    fingerprint: Fingerprint,
    keys: Keys,
    /// Version of the file that was read last, valid or not.
    version: Option<FileVersion>,
    /// The entries that were read last; `None` if the store was not read yet.
    entries: Option<Entries>,
    reported: Reported,
    /// Number of configurations that were taken.
    number: u64,
}

/// Entries of the store that a change of the settings needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// The present ones.
    Present,
    /// The last ones that were read, if the store is not available at present. A changed file is not to
    /// wait for the store.
    Last,
}

impl Reloader {
    /// Creates a reloader of a gateway that was started with `config`. With `must_read`, the gateway has
    /// neither clients nor keys until the entries of the store were read, see [`must_read`].
    pub(super) fn new(config: &Config, parts: LiveParts, must_read: bool) -> Self {
        let started = config.fingerprint.clone();
        let settings_read = CancellationToken::new();
        if !must_read {
            settings_read.cancel();
        }
        let taken = Taken {
            fingerprint: started.clone(),
            keys: config.keys.clone(),
            version: None,
            entries: None,
            reported: Reported::default(),
            number: 0,
        };
        Self(Arc::new(Inner {
            source: config.file.clone().map(|file| Arc::new(ConfigSource::new(file))),
            parts,
            started,
            own_files: config.sandbox.off_limits.clone(),
            settings_read,
            taken: tokio::sync::Mutex::new(taken),
            plugins_taken: tokio::sync::Mutex::new(0),
        }))
    }

    /// Takes the clients and the virtual keys of the configuration file and the store, reads the certificate
    /// of the listener again, and reloads every plugin whose component has changed.
    pub async fn reload_all(&self) {
        match self.take_file(Freshness::Last).await {
            Ok(outcome) if outcome.is_empty() => {
                info!("no client or virtual key of the configuration file has changed");
            }
            // Both were logged.
            Ok(_) | Err(_) => {}
        }
        // After the keys: a file system that does not respond must not delay a revocation.
        if let Some(certificate) = &self.0.parts.certificate {
            certificate.reload().await;
        }
        self.0.parts.plugins.reload_all().await;
    }

    /// Reads the entries of the store and takes them, with the file, before it returns. Fails if the
    /// store is not available or the file was never valid; nothing has changed then. Connecting to
    /// servers goes on in the background. Dropping the future does not cancel what it does.
    pub(crate) async fn take_entries(&self) -> Result<TakenEntries, ConfigError> {
        self.take(Freshness::Present).await.inspect_err(report_failure)
    }

    /// Returns the configuration file; `None` if the configuration was not loaded from one.
    pub(super) fn source(&self) -> Option<&Arc<ConfigSource>> {
        self.0.source.as_ref()
    }

    /// Does the same as [`Self::take_entries`], and leaves an error to the caller, who tries again.
    pub(super) async fn try_entries(&self) -> Result<TakenEntries, ConfigError> {
        self.take(Freshness::Present).await
    }

    /// Returns the token that is cancelled once the entries of the store were read, or there are none.
    pub(super) fn settings_read(&self) -> &CancellationToken {
        &self.0.settings_read
    }

    /// Returns the flag that is true once requests need a virtual key.
    pub(super) fn requires_key(&self) -> &Arc<AtomicBool> {
        &self.0.parts.requires_key
    }

    /// Returns the store whose changes are to be followed; `None` if the configuration has no file.
    pub(super) fn followed(&self) -> Option<&LazyDatabase> {
        self.0.source.as_ref().map(|_| &self.0.parts.database)
    }

    /// Takes the settings whenever the configuration file changes. Returns only if there is no file. A
    /// file must look the same in two checks before it is read, so that no half-written file is read.
    pub(super) async fn watch(&self) {
        let Some(file) = self.0.source.as_ref().map(|source| source.path()) else { return };
        let mut ticks = tokio::time::interval(WATCH_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            ticks.tick().await;
            let now = file_version(file).await;
            let is_new = self.0.taken.lock().await.version != now;
            if is_new && now.is_some() && now == before {
                // It logs its own outcome.
                let _ = self.take_file(Freshness::Last).await;
            }
            before = now;
        }
    }

    /// Takes the settings. Fails, and logs the reason, if the file is not valid, although the entries of
    /// the store were taken.
    async fn take_file(&self, freshness: Freshness) -> Result<TakenEntries, ConfigError> {
        let taken = self.take(freshness).await;
        let taken = taken.and_then(|mut taken| match taken.file_problem.take() {
            Some(problem) => Err(problem),
            None => Ok(taken),
        });
        taken.inspect_err(report_failure)
    }

    /// Reads the file and the entries, and takes them, in a task of its own: a caller who leaves does not
    /// leave a part of the changes undone.
    async fn take(&self, freshness: Freshness) -> Result<TakenEntries, ConfigError> {
        let Some(source) = self.0.source.clone() else { return Ok(TakenEntries::default()) };
        let file_name = source.path().display().to_string();
        let this = self.clone();
        let taking = async move { this.take_turn(source, freshness).await };
        match self.0.parts.tasks.spawn(taking).await {
            Ok(Some(taken)) => taken,
            Err(lost) if lost.is_panic() => std::panic::resume_unwind(lost.into_panic()),
            Ok(None) | Err(_) => {
                let source = io::Error::other("the gateway stops");
                Err(ConfigError::Unreadable { file: file_name, source })
            }
        }
    }

    /// Waits for those who take settings already, then takes them. Logs what it took.
    async fn take_turn(
        &self,
        source: Arc<ConfigSource>,
        freshness: Freshness,
    ) -> Result<TakenEntries, ConfigError> {
        let mut taken = self.0.taken.lock().await;
        taken.version = file_version(source.path()).await;
        let entries = self.entries(&mut taken, freshness).await?;
        let Loaded { merged, problem } = read(source, entries).await?;
        let is_first = !self.0.settings_read.is_cancelled();
        let Merged { mut config, left_out, .. } = merged;
        let servers = self.apply(&mut config);
        let reported = &mut taken.reported;
        reported.left_out(&left_out);
        reported.pending(&self.0.started, &config, self.0.parts.has_code_mode);
        let fingerprint = mem::replace(&mut taken.fingerprint, config.fingerprint.clone());
        let keys = KeyChanges::new(&taken.keys, &config.keys);
        taken.keys = config.keys.clone();
        taken.number += 1;
        let number = taken.number;
        drop(taken);
        let outcome = self.apply_plugins(&config, number, servers, keys).await;
        if !is_first {
            report::taken(&outcome, &fingerprint, &config);
        }
        Ok(TakenEntries { file_problem: problem, ..outcome })
    }

    /// Reads the entries of the store. A store that does not exist yet has none, and is not made.
    async fn entries(
        &self,
        taken: &mut Taken,
        freshness: Freshness,
    ) -> Result<Entries, ConfigError> {
        let database = &self.0.parts.database;
        // One that disappears after it was read is an error: what it revoked stays revoked.
        if taken.entries.is_none() && database.location().is_missing_file() {
            return Ok(Entries::default());
        }
        match (outcome::read_entries(database).await, &taken.entries) {
            (Err(_), Some(last)) if freshness == Freshness::Last => Ok(last.clone()),
            (Err(error), _) => Err(error),
            (Ok(entries), _) => Ok(taken.entries.insert(entries).clone()),
        }
    }

    /// Makes the switch, the keys, the groups and the servers follow a configuration. The switch comes
    /// first if it takes the tools away, and last if it gives them back. A request that begins between the
    /// other steps may combine new keys with the groups and policies before: any order of these steps has
    /// changes for which that permits more than either configuration does, for as long as this function
    /// runs.
    fn apply(&self, config: &mut Config) -> ServerChanges {
        let LiveParts { keys, requires_key, catalog, upstreams, has_code_mode, .. } = &self.0.parts;
        if config.tools_off {
            self.switch_tools(true);
        }
        for client in &mut config.clients {
            // A client is left out of code mode if the gateway has none.
            client.policy.code_mode &= has_code_mode;
        }
        requires_key.fetch_or(config.server.require_virtual_key, Ordering::Relaxed);
        let before = keys.snapshot();
        keys.replace(config.keys.clone());
        catalog.set_groups(config.groups.clone());
        upstreams.forget_tenants(removed_tenants(&before, &config.keys));
        let changes = upstreams.configure(config);
        if !config.tools_off {
            self.switch_tools(false);
        }
        changes
    }

    fn switch_tools(&self, is_off: bool) {
        if self.0.parts.catalog.switch_off(is_off) {
            info!(is_off, "the switch of all tools has changed");
            warnings::report_switch(is_off);
        }
    }

    /// Makes the plugins follow the configuration with this number, unless those of a later one did.
    async fn apply_plugins(
        &self,
        config: &Config,
        number: u64,
        mut servers: ServerChanges,
        keys: KeyChanges,
    ) -> TakenEntries {
        let LiveParts { upstreams, plugins, sandbox, .. } = &self.0.parts;
        let mut last = self.0.plugins_taken.lock().await;
        if number < *last {
            self.0.settings_read.cancel();
            return TakenEntries::new(servers, Reconfigured::default(), keys);
        }
        *last = number;
        let is_first = !self.0.settings_read.is_cancelled();
        let off_limits = config.sandbox.off_limits.clone().union(&self.0.own_files);
        let has_other_limits = sandbox.set_off_limits(off_limits);
        // What was revoked is gone by now. The first plugins are in the catalog before requests are.
        let (plugins, ()) = join(plugins.configure(configured(config), has_other_limits), async {
            self.0.settings_read.cancel();
        })
        .await;
        if servers.is_incomplete {
            // A server waited for a plugin with its name to go.
            servers.extend(upstreams.configure(config));
        }
        if !is_first {
            report::weaknesses(config, &servers, &plugins);
        }
        TakenEntries::new(servers, plugins, keys)
    }
}

/// Returns the scopes of the tenants that have no key any more.
fn removed_tenants(before: &Keys, now: &Keys) -> Vec<[u8; 32]> {
    let present: BTreeSet<_> = now.iter().map(|key| key.tenant().scope()).collect();
    let before = before.iter().map(|key| key.tenant().scope());
    before.filter(|scope| !present.contains(scope)).collect()
}

/// Returns whether a gateway with this configuration has to read its store before it uses the clients
/// and the keys of the file, which entries of the store may replace or remove.
pub(super) fn must_read(config: &Config) -> bool {
    config.file.is_some() && !config.store.is_missing_file()
}

fn report_failure(error: &ConfigError) {
    let reason = with_causes(error);
    warn!(
        reason,
        "the configuration file is invalid or the store cannot be read, so no entry of it is taken"
    );
}

/// Reads the configuration file, and merges the entries into it.
async fn read(source: Arc<ConfigSource>, entries: Entries) -> Result<Loaded, ConfigError> {
    let reading = tokio::task::spawn_blocking(move || source.load(&entries)).await;
    reading.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))
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

impl Reload for Reloader {
    fn digest(&self, client: &str) -> Option<String> {
        self.0.parts.plugins.digest(client)
    }

    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>> {
        Box::pin(async move {
            let taken = self.take_file(Freshness::Last).await;
            let taken = taken.map_err(|error| NotReloaded::Configuration(with_causes(&error)))?;
            let is_taken =
                taken.added.iter().chain(&taken.changed).any(|taken| taken.as_str() == client);
            let reloaded = self.0.parts.plugins.reload(client).await;
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
