//! Applies changed settings while the gateway runs: those of the configuration file, and the entries of the
//! store, which are added to the clients and virtual keys of the file or replace them. A few keys of the file
//! need a restart ([`airlock_config::effect`] lists them), and the log names those that have changed.
//!
//! ```text
//! file changed, SIGHUP, store changed, operator
//!        │  one at a time
//!        ▼
//! entries of the store → ConfigSource::load_made(entries) → switch → limits → keys → settings of requests
//!                           │ all settings are made             → code mode → groups → servers → plugins
//!                           └ fails: nothing changes
//! ```
//!
//! Nothing changes if the entries cannot be read. If the file is invalid or is not read in time, or a setting of
//! it cannot be used, none of it is applied, and the entries are merged into its last valid content. Plugins may
//! have to be compiled, which takes a minute; no other setting waits for that.

mod apply;
mod outcome;
mod plugins;
mod preview;
mod report;
mod request;
mod tenants;

use std::{
    io, mem,
    sync::{Arc, OnceLock, Weak, atomic::AtomicBool},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub(crate) use self::outcome::TakenEntries;
pub(super) use self::plugins::PluginLoads;
use self::{
    outcome::{KeyChanges, TakenKeys},
    plugins::PluginTurns,
    report::Reported,
    tenants::KnownTenants,
};
use super::{
    background::Tasks,
    certificate::Certificate,
    code_mode::LiveCodeMode,
    limits::KnownLimits,
    serving::{MadeSettings, Serving},
    upstreams::UpstreamServers,
};
use crate::program_server::ProgramServers;
use airlock_catalog::Catalog;
use airlock_config::{Config, ConfigError, ConfigSource, Fingerprint, Loaded, Merged, Source};
use airlock_core::{door::LiveKeys, file_version::FileVersion};
use airlock_limits::Limiter;
use airlock_lock::{FileReadings, WATCH_PERIOD, file_version};
use airlock_management::Service;
use airlock_plugin::{Configured, Plugins};
use airlock_sandbox::{OffLimits, Sandbox};
use airlock_store::{LazyDatabase, entries::Entries};
use airlock_strings::with_causes;

/// Keeps the clients and the keys of a running gateway as its configuration file and its store say.
/// Cheap to clone.
#[derive(Clone)]
pub struct Reloader(Arc<ReloaderParts>);

struct ReloaderParts {
    /// `None` if the configuration was not loaded from a file. The store is not read then either.
    source: Option<Arc<ConfigSource>>,
    parts: LiveParts,
    /// The configuration that the gateway was started with.
    started: Fingerprint,
    /// Files that were granted to no plugin at the start: the key of the listener, the store. The gateway uses them
    /// until its end, whatever the configuration names later.
    own_files: OffLimits,
    /// Cancelled once the entries of the store were read, or there are none.
    settings_read: CancellationToken,
    /// Held while settings are applied. It may be locked in the turn of the plugins, but not the reverse.
    taken: tokio::sync::Mutex<TakenSettings>,
    /// Readings of the file and of those that it names.
    readings: FileReadings,
    /// The same for comparisons with another content of the file.
    previews: FileReadings,
    /// The same for the definitions that rules about sinks are compared with.
    sink_readings: FileReadings,
    /// Place for a request that takes settings.
    requested: Arc<Semaphore>,
    /// Notified when settings with a virtual key without a credential were taken.
    key_value_lacking: Notify,
    /// The management API, which follows the operators of the file. It has the reloader itself.
    management: OnceLock<Weak<Service>>,
    plugin_turns: PluginTurns,
    /// True if the directories that may be granted have changed since plugins were loaded.
    checks_directories: AtomicBool,
}

/// Parts of a gateway that follow its settings. Cheap to clone.
#[derive(Clone)]
pub(super) struct LiveParts {
    /// The certificate of the listener; `None` for plain HTTP.
    pub(super) certificate: Option<Certificate>,
    pub(super) keys: LiveKeys,
    /// The limits of callers.
    pub(super) limiter: Arc<Limiter>,
    pub(super) serving: Arc<Serving>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) upstreams: Arc<UpstreamServers>,
    pub(super) plugins: Plugins,
    pub(super) sandbox: Sandbox,
    pub(super) code_mode: Arc<LiveCodeMode>,
    /// The store with the entries.
    pub(super) database: LazyDatabase,
    /// The tasks of the gateway.
    pub(super) tasks: Tasks,
    /// The MCP servers of the program.
    pub(super) servers: ProgramServers,
}

/// The settings that were taken last.
struct TakenSettings {
    fingerprint: Fingerprint,
    keys: TakenKeys,
    tenants: KnownTenants,
    limits: KnownLimits,
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
        let mut limits = KnownLimits::default();
        limits.replace(&config.limits, !must_read);
        let taken = TakenSettings {
            fingerprint: started.clone(),
            keys: config.into(),
            tenants: KnownTenants::new(&parts.keys.snapshot()),
            limits,
            version: None,
            entries: None,
            reported: Reported::default(),
            number: 0,
        };
        Self(Arc::new(ReloaderParts {
            source: config
                .file
                .clone()
                .map(|file| Arc::new(ConfigSource::new(file).with_vaults(config.vaults.clone()))),
            parts,
            started,
            own_files: config.sandbox.off_limits.clone(),
            settings_read,
            taken: tokio::sync::Mutex::new(taken),
            readings: FileReadings::new(1),
            previews: FileReadings::new(1),
            sink_readings: FileReadings::new(1),
            requested: Arc::new(Semaphore::new(1)),
            key_value_lacking: Notify::new(),
            management: OnceLock::new(),
            plugin_turns: PluginTurns::default(),
            checks_directories: AtomicBool::new(false),
        }))
    }

    /// Takes the configuration file and the entries of the store, reads the certificate of the listener
    /// again, and reloads every plugin whose component has changed.
    pub async fn reload_all(&self) {
        // Its outcome was logged.
        let _ = self.reload(None).await;
    }

    /// Returns the place of a request that takes settings, once no other request does.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.0.requested.clone().acquire_owned().await.ok()
    }

    /// Does the same as [`Self::reload_all`]. Fails, after the rest was done, if nothing of the file was
    /// taken. The `place` is free once the settings were taken.
    async fn reload(
        &self,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<TakenEntries, ConfigError> {
        let taken = self.take_file(place).await;
        if taken.as_ref().is_ok_and(TakenEntries::is_empty) {
            info!("nothing of the configuration file has changed that is taken now");
        }
        // After the keys: a file system that does not respond must not delay a revocation.
        if let Some(certificate) = &self.0.parts.certificate {
            certificate.reload(&self.0.parts.tasks).await;
        }
        let failed = self.0.parts.plugins.reload_all().await;
        taken.map(|taken| taken.with_failed(failed))
    }

    /// Sets the management API, which follows the operators of the file from now on.
    pub(super) fn manage(&self, management: &Arc<Service>) {
        let _ = self.0.management.set(Arc::downgrade(management));
    }

    /// Reads the entries of the store and applies them, with the file, before it returns. Fails if the
    /// store is not available or the file was never valid; nothing has changed then. Connecting to
    /// servers continues in the background. Dropping the future does not cancel the work.
    pub(super) async fn take_entries(
        &self,
        loads: PluginLoads,
    ) -> Result<TakenEntries, ConfigError> {
        self.take(Freshness::Present, loads, None).await.inspect_err(report_failure)
    }

    /// Returns the configuration file; `None` if the configuration was not loaded from one.
    pub(super) fn source(&self) -> Option<&Arc<ConfigSource>> {
        self.0.source.as_ref()
    }

    /// Does the same as [`Self::take_entries`], and leaves an error to the caller, who tries again.
    pub(super) async fn try_entries(
        &self,
        loads: PluginLoads,
    ) -> Result<TakenEntries, ConfigError> {
        self.take(Freshness::Present, loads, None).await
    }

    /// Returns whether a server is not connected because the operator has to log in.
    pub(super) fn needs_login(&self, client: &str) -> bool {
        self.0.parts.upstreams.needs_login(client)
    }

    /// Returns the token that is cancelled once the entries of the store were read, or there are none.
    pub(super) fn settings_read(&self) -> &CancellationToken {
        &self.0.settings_read
    }

    /// Waits until settings with a virtual key without a credential were taken.
    pub(super) async fn lacks_key_value(&self) {
        self.0.key_value_lacking.notified().await;
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
            let is_readable = !self.0.readings.is_overdue();
            if is_new && now.is_some() && now == before && is_readable {
                let this = self.clone();
                // It logs its own outcome. The next version does not wait until the plugins are compiled.
                self.0.parts.tasks.spawn(async move {
                    let _ = this.take_file(None).await;
                });
            }
            before = now;
        }
    }

    /// Takes the settings, with the last entries of the store if it is not available. Fails, and logs the
    /// reason, if the file is not valid, although the entries of the store were taken.
    async fn take_file(
        &self,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<TakenEntries, ConfigError> {
        let taken = self.take(Freshness::Last, PluginLoads::Awaited, place).await;
        let taken = taken.and_then(|mut taken| match taken.file_problem.take() {
            Some(problem) => Err(problem),
            None => Ok(taken),
        });
        taken.inspect_err(report_failure)
    }

    /// Reads the file and the entries, and takes them, in a task of its own: a caller who leaves does not
    /// leave a part of the changes undone, nor the `place` of its request to the next one.
    async fn take(
        &self,
        freshness: Freshness,
        loads: PluginLoads,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<TakenEntries, ConfigError> {
        let Some(source) = self.0.source.clone() else { return Ok(TakenEntries::default()) };
        let file_name = source.path().display().to_string();
        let this = self.clone();
        let (settle, settled) = oneshot::channel();
        let taking = async move {
            let taken = this.take_turn(source, freshness, settle).await;
            drop(place);
            taken
        };
        let taking = self.0.parts.tasks.spawn(taking);
        if loads == PluginLoads::Detached && settled.await.is_ok() {
            return Ok(TakenEntries::default());
        }
        match taking.await {
            Ok(Some(taken)) => taken,
            Err(lost) if lost.is_panic() => std::panic::resume_unwind(lost.into_panic()),
            Ok(None) | Err(_) => {
                let source = io::Error::other("the gateway stops");
                Err(ConfigError::Unreadable { file: file_name, source })
            }
        }
    }

    /// Waits for those who take settings already, then takes them. Sends to `settle` when all but the plugins
    /// were taken. Logs what it took.
    async fn take_turn(
        &self,
        source: Arc<ConfigSource>,
        freshness: Freshness,
        settle: oneshot::Sender<()>,
    ) -> Result<TakenEntries, ConfigError> {
        let mut taken = self.0.taken.lock().await;
        taken.version = self.version(source.clone()).await;
        let entries = self.entries(&mut taken, freshness).await?;
        let read = self.read(source, entries).await;
        let problem = read.as_ref().map_or_else(Some, |loaded| loaded.problem.as_ref());
        if problem.is_some_and(is_late) {
            // It is read again once it can be.
            taken.version = None;
        }
        let Loaded { merged, made, problem } = read?;
        let is_first = !self.0.settings_read.is_cancelled();
        let Merged { mut config, left_out, .. } = merged;
        self.0.parts.servers.join(&mut config);
        taken.reported.guards(&config);
        let removed = taken.tenants.replace(&config.keys, &tenants::refused(&config, &left_out));
        let servers = self.apply(&mut config, made, removed);
        let removed = taken.limits.replace(&config.limits, left_out.is_empty());
        self.0.parts.limiter.forget(removed);
        let reported = &mut taken.reported;
        reported.left_out(&left_out);
        reported.owners(&config.absent_owners);
        if !config.keys_without_value.is_empty() {
            self.0.key_value_lacking.notify_one();
        }
        let present = TakenKeys::from(&config);
        let keys = KeyChanges::new(&taken.keys, &present);
        let changes = preview::changes(&taken.fingerprint, &self.0.started, &keys, &config);
        taken.reported.pending(&changes.restart);
        let after = config.fingerprint.clone();
        let before = mem::replace(&mut taken.fingerprint, after.clone());
        taken.keys = present;
        taken.number += 1;
        let turn = self.0.plugin_turns.begin(taken.number);
        drop(taken);
        // Those who wait for the plugins too do not receive it.
        let _ = settle.send(());
        let outcome = Box::pin(self.apply_plugins(config, &turn, servers, keys)).await;
        drop(turn);
        let outcome = TakenEntries { changes, file_problem: problem, ..outcome };
        if !is_first {
            report::taken(&outcome, &before, &after);
        }
        Ok(outcome)
    }

    /// Returns the version of the file; `None` if it cannot be examined, or not in time.
    async fn version(&self, source: Arc<ConfigSource>) -> Option<FileVersion> {
        self.0.readings.read(move || FileVersion::read(source.path())).await.flatten()
    }

    /// Reads the configuration file, merges the entries into it, and makes its settings. A file that is not
    /// read in time must not keep the entries from being taken.
    async fn read(
        &self,
        source: Arc<ConfigSource>,
        entries: Entries,
    ) -> Result<Loaded<MadeSettings>, ConfigError> {
        let serving = self.0.parts.serving.clone();
        let entries = Arc::new(entries);
        let file = source.clone();
        let all = entries.clone();
        let readings = &self.0.readings;
        let loaded = readings.read(move || file.load_made(&all, |config| serving.make(config)));
        if let Some(loaded) = loaded.await {
            return loaded;
        }
        warn!(
            "the configuration file, or one that it names, is not read in time; its last valid content stays"
        );
        let merging = tokio::task::spawn_blocking(move || source.load_unread(&entries));
        merging.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))
    }

    /// Reads the entries of the store. A store that does not exist yet has none, and is not made.
    async fn entries(
        &self,
        taken: &mut TakenSettings,
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
}

/// Returns whether a gateway with this configuration has to read its store before it uses the clients
/// and the keys of the file, which entries of the store may replace or remove.
pub(super) fn must_read(config: &Config) -> bool {
    config.file.is_some() && !config.store.is_missing_file()
}

/// Returns whether a file was not read in time.
fn is_late(error: &ConfigError) -> bool {
    matches!(error, ConfigError::Unreadable { source, .. } if source.kind() == io::ErrorKind::TimedOut)
}

fn report_failure(error: &ConfigError) {
    let reason = with_causes(error);
    warn!(
        reason,
        "the configuration file is invalid or the store cannot be read, so none of its entries is applied"
    );
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
