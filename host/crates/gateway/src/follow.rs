//! Follows the entries and the operators of the store, which operators change while gateways run.
//!
//! A store in a file that does not exist is looked for and not made: a gateway without entries needs
//! none. Each change applies the settings again; after a failure, the gateway tries again each second. The plugins of a
//! change may have to be compiled, and the next change, which may revoke a key, does not wait for that.

use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};

use futures_util::future::join;
use tokio::time::sleep;
use tracing::{info, warn};

use super::reload::{PluginLoads, Reloader, TakenEntries};
use airlock_config::ConfigError;
use airlock_management::Service;
use airlock_store::{
    Database, LazyDatabase,
    changes::{ChangeKind, Changes},
};
use airlock_strings::with_causes;

/// Interval at which a store that does not exist is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// Time before the settings are read again after a failure. It does not grow: until the settings are read,
/// the gateway is not ready, and the store makes its own pauses between attempts to reach a server.
const RETRY: Duration = Duration::from_secs(1);
/// Time before the settings are read again if changes cannot be noticed.
const UNNOTICED: Duration = Duration::from_mins(1);

/// The settings of a gateway, and the store that has them.
trait FollowedSettings {
    /// Returns whether the store is in a file that does not exist.
    fn is_missing(&self) -> bool;

    /// Reads the settings and takes them.
    async fn take(&self) -> Result<TakenEntries, ConfigError>;

    /// Waits until settings have changed. Returns at the first call if they were ever changed. Returns
    /// false if changes cannot be noticed.
    async fn changed(&mut self) -> bool;
}

/// Takes the entries of the store whenever they have changed. Returns only if the configuration has no
/// file.
pub(super) async fn follow(reloader: Reloader, management: Option<Arc<Service>>) {
    if let Some(store) = FollowedStore::new(reloader, PluginLoads::Detached) {
        let operators = follow_operators(store.database.clone(), management);
        match join(follow_settings(store), operators).await {}
    }
}

/// Reads the operators of the store again whenever they have changed, and each minute if changes cannot
/// be noticed. Nothing else waits for it. Never returns.
async fn follow_operators(database: LazyDatabase, management: Option<Arc<Service>>) -> Infallible {
    let Some(management) = management else { return pending().await };
    while database.location().is_missing_file() {
        sleep(LOOK).await;
    }
    loop {
        refresh_operators(&management).await;
        let Ok(opened) = database.open().await else { continue };
        let mut changes = opened.changes();
        while let Some(kinds) = changes.next().await {
            if kinds.contains(&ChangeKind::Operators) {
                refresh_operators(&management).await;
            }
        }
        sleep(UNNOTICED).await;
    }
}

/// Takes the entries of the store for the first time, unless that has happened, and waits until the plugins
/// are loaded. Tries again after a failure.
pub(super) async fn first_reading(reloader: Reloader) {
    let was_read = reloader.settings_read().is_cancelled();
    let store = FollowedStore::new(reloader, PluginLoads::Awaited);
    if let Some(store) = store.filter(|_| !was_read) {
        take_until_done(&store).await;
    }
}

async fn follow_settings(mut settings: impl FollowedSettings) -> Infallible {
    while settings.is_missing() {
        sleep(LOOK).await;
    }
    loop {
        take_until_done(&settings).await;
        if !settings.changed().await {
            sleep(UNNOTICED).await;
        }
    }
}

/// Applies the settings. Tries again after a failure, which is logged when it begins and when it is over.
async fn take_until_done(settings: &impl FollowedSettings) {
    let mut logged = None;
    while let Err(error) = settings.take().await {
        let reason = with_causes(&error);
        let problem = problem(&error, &reason);
        if logged.as_deref() != Some(problem) {
            logged = Some(problem.to_owned());
            warn!(
                reason,
                "the configuration file is invalid or the store cannot be read, so none of its entries is applied; the gateway tries again"
            );
        }
        sleep(RETRY).await;
    }
    if logged.is_some() {
        info!("the configuration file and the store are read again");
    }
}

/// Returns what distinguishes a failure from those that the log has. A store that is away has several
/// reasons in turn: the failed connection, and the pause after it.
fn problem<'e>(error: &'e ConfigError, reason: &'e str) -> &'e str {
    match error {
        ConfigError::Unreadable { file, .. } => file,
        ConfigError::Invalid { .. } => reason,
    }
}

struct FollowedStore {
    reloader: Reloader,
    database: LazyDatabase,
    loads: PluginLoads,
    /// `None` until the database is open.
    changes: Option<Changes>,
}

impl FollowedStore {
    /// Returns the store of a gateway; `None` if its configuration has no file.
    fn new(reloader: Reloader, loads: PluginLoads) -> Option<Self> {
        let database = reloader.followed().cloned()?;
        Some(Self { reloader, database, loads, changes: None })
    }
}

impl FollowedSettings for FollowedStore {
    fn is_missing(&self) -> bool {
        self.database.location().is_missing_file()
    }

    async fn take(&self) -> Result<TakenEntries, ConfigError> {
        self.reloader.try_entries(self.loads).await
    }

    async fn changed(&mut self) -> bool {
        if self.changes.is_none() {
            // It was opened to take the settings.
            self.changes = self.database.open().await.ok().map(Database::changes);
        }
        let Some(changes) = &mut self.changes else { return false };
        while let Some(kinds) = changes.next().await {
            if kinds.contains(&ChangeKind::Config) || kinds.contains(&ChangeKind::Keys) {
                return true;
            }
        }
        false
    }
}

/// Reads the operators until it succeeds: one that was removed must not stay. A failure is logged by the
/// reading itself.
pub(super) async fn refresh_operators(management: &Service) {
    while management.refresh_operators().await.is_err() {
        sleep(RETRY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, io, pin::pin};

    use tokio::time::{Instant, timeout};

    use super::*;

    /// A store that is made after some looks, and fails some times.
    #[derive(Default)]
    struct FakeStore {
        missing: Cell<u32>,
        failures: Cell<u32>,
        takes: Cell<u32>,
        changes: u32,
    }

    impl FollowedSettings for &mut FakeStore {
        fn is_missing(&self) -> bool {
            let left = self.missing.get();
            self.missing.set(left.saturating_sub(1));
            left > 0
        }

        async fn take(&self) -> Result<TakenEntries, ConfigError> {
            self.takes.set(self.takes.get() + 1);
            let left = self.failures.get();
            self.failures.set(left.saturating_sub(1));
            if left == 0 {
                return Ok(TakenEntries::default());
            }
            Err(ConfigError::Unreadable { file: "store".to_owned(), source: io::Error::other("x") })
        }

        async fn changed(&mut self) -> bool {
            match self.changes {
                0 => std::future::pending().await,
                _ => self.changes -= 1,
            }
            true
        }
    }

    async fn follow_for(store: &mut FakeStore, time: Duration) -> u32 {
        let _ = timeout(time, follow_settings(&mut *store)).await;
        store.takes.get()
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_read_once_it_exists_and_again_at_each_change() {
        let mut store = FakeStore { missing: 3.into(), changes: 2, ..FakeStore::default() };
        assert_eq!(follow_for(&mut store, Duration::from_millis(2_999)).await, 0);
        let mut store = FakeStore { missing: 3.into(), changes: 2, ..FakeStore::default() };
        assert_eq!(follow_for(&mut store, Duration::from_secs(4)).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn settings_are_taken_within_a_second_after_an_outage_of_any_length() {
        let mut store = FakeStore { failures: 100.into(), ..FakeStore::default() };
        assert_eq!(follow_for(&mut store, Duration::from_millis(99_999)).await, 100);
        let mut store = FakeStore { failures: 100.into(), ..FakeStore::default() };
        assert_eq!(follow_for(&mut store, Duration::from_millis(100_001)).await, 101);
    }

    #[test]
    fn the_reasons_of_one_outage_are_one_problem_and_those_of_an_invalid_file_are_several() {
        let file = "store".to_owned();
        let source = io::Error::other("refused");
        let away = ConfigError::Unreadable { file: file.clone(), source };
        assert_eq!(problem(&away, "refused"), problem(&away, "paused"));
        let invalid = ConfigError::Invalid { file, problems: Vec::new() };
        assert_ne!(problem(&invalid, "one"), problem(&invalid, "other"));
    }

    /// A store whose changes cannot be noticed.
    struct Deaf(Cell<u32>);

    impl FollowedSettings for &Deaf {
        fn is_missing(&self) -> bool {
            false
        }

        async fn take(&self) -> Result<TakenEntries, ConfigError> {
            self.0.set(self.0.get() + 1);
            Ok(TakenEntries::default())
        }

        async fn changed(&mut self) -> bool {
            false
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_whose_changes_are_not_noticed_is_read_once_a_minute() {
        let store = Deaf(Cell::new(0));
        let begun = Instant::now();
        let mut following = pin!(follow_settings(&store));
        let time = Duration::from_millis(3 * 60_000 - 1);
        let _ = timeout(time, &mut following).await;
        assert!(begun.elapsed() >= time);
        assert_eq!(store.0.get(), 3);
    }
}
