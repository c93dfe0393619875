//! The management API of a gateway, or of a command that has only the store.

use std::{mem, sync::Arc};

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, Semaphore};
use tracing::{info, warn};
use url::Url;

use crate::{
    config::RunningSettings,
    gateway::Apply,
    oidc::OidcLogins,
    operators::LiveOperators,
    plugin::Inspections,
    refusal::Result,
    setup::{Setup, SetupToken},
    token::NoRandomness,
};
use airlock_config::{Config, ConfigSource, StoreKeyError};
use airlock_core::act::Acts;
use airlock_lock::FileReadings;
use airlock_operator_api::{ConfiguredOperator, ManagementSettings};
use airlock_store::{Database, LazyDatabase, Unavailable, operators::StoredOperator};

/// Maximum requests that read the whole configuration at the same time. Each holds all entries, up to
/// 64 MiB of them, several times.
const READERS: usize = 2;

/// Settings of the API.
#[derive(Debug, Clone)]
pub struct ServiceSettings {
    /// The configuration file; `None` for a configuration that was not loaded from one, whose elements
    /// cannot be changed.
    pub source: Option<Arc<ConfigSource>>,
    /// The store, which has the changed elements and the operators.
    pub database: LazyDatabase,
    /// Operators of the configuration file at the start.
    pub operators: Vec<ConfiguredOperator>,
    /// Settings that the gateway was started with.
    pub running: RunningSettings,
    /// True if the store seals secrets. If not, elements with secrets in plain text are refused.
    pub seals_secrets: bool,
    /// True if the gateway keeps a call log.
    pub has_call_log: bool,
    /// Logins of operators at an identity provider; `None` if there are none, and for a command.
    pub oidc: Option<OidcLogins>,
    /// Record of logouts and erasures. Changes are recorded in the store.
    pub acts: Acts,
}

impl ServiceSettings {
    /// Returns the settings of the API for a configuration, whose store is `database`.
    pub fn new(config: &Config, database: LazyDatabase) -> Self {
        Self {
            source: config
                .file
                .clone()
                .map(|file| Arc::new(ConfigSource::new(file).with_vaults(config.vaults.clone()))),
            database,
            operators: config.server.management.operators.clone(),
            running: RunningSettings::new(config),
            seals_secrets: config.store_seal.is_some(),
            has_call_log: config.records.call_log.is_some(),
            oidc: None,
            acts: Acts::default(),
        }
    }
}

/// The management API.
pub struct Service {
    pub(crate) settings: ServiceSettings,
    pub(crate) setup: Setup,
    pub(crate) operators: LiveOperators,
    /// Settings that are in force.
    pub(crate) running: ArcSwap<RunningSettings>,
    /// Held while the operators are read, so that an older reading does not replace a newer one. True if
    /// the last reading has failed.
    refreshing: Mutex<bool>,
    /// Places for requests that read the whole configuration.
    pub(crate) readers: Semaphore,
    /// Turn of the changes of this gateway: of several at a time, all but one would be made again and again.
    pub(crate) changing: Semaphore,
    /// Readings of the configuration file by requests.
    pub(crate) readings: FileReadings,
    /// Readings of the secrets that plugins are granted.
    pub(crate) secret_readings: FileReadings,
    /// Components that requests have inspected.
    pub(crate) inspections: Inspections,
    /// `None` for a command: running gateways notice the changes in the store.
    pub(crate) gateway: Option<Arc<dyn Apply>>,
}

impl Service {
    /// Creates the API. Of the operators, only those of the file are known until
    /// [`Service::refresh_operators`].
    pub fn new(settings: ServiceSettings, gateway: Option<Arc<dyn Apply>>) -> Arc<Self> {
        let operators = LiveOperators::default();
        operators.replace_in_file(settings.operators.clone());
        let running = ArcSwap::from_pointee(settings.running.clone());
        Arc::new(Self {
            settings,
            setup: Setup::default(),
            operators,
            running,
            refreshing: Mutex::default(),
            readers: Semaphore::new(READERS),
            changing: Semaphore::new(1),
            readings: FileReadings::new(READERS),
            secret_readings: FileReadings::new(READERS),
            inspections: Inspections::new(),
            gateway,
        })
    }

    /// Creates the API for a command, which changes the store of a configuration. Nothing is read yet.
    /// Fails if a key of the store cannot be read.
    pub fn of_store(config: &Config) -> Result<Arc<Self>, StoreKeyError> {
        let database = LazyDatabase::new(config.store_settings()?);
        Ok(Self::new(ServiceSettings::new(config, database), None))
    }

    /// Reads the operators of the store, for example because they have changed. Those that were read
    /// before stay if it cannot be used. A store that does not exist yet is not made. With an operator, a
    /// setup token is no longer valid. Logs the first of several failures, and the end of them.
    pub async fn refresh_operators(&self) -> Result<(), Unavailable> {
        let mut is_failing = self.refreshing.lock().await;
        let stored = self.stored_operators().await;
        let was_failing = mem::replace(&mut *is_failing, stored.is_err());
        match &stored {
            Err(error) if !was_failing => {
                warn!(%error, "the operators of the store cannot be read right now");
            }
            Ok(_) if was_failing => info!("the operators of the store are read again"),
            Ok(_) | Err(_) => {}
        }
        self.operators.replace_stored(stored?);
        if self.has_operator() {
            self.setup.end();
        }
        Ok(())
    }

    /// Follows the configuration file: replaces its operators, and the rules by which people of an identity
    /// provider are operators. A token that is not in the file any more is refused at once, and so is a
    /// session that was opened under other rules.
    pub fn follow(&self, settings: &ManagementSettings) {
        self.operators.replace_in_file(settings.operators.clone());
        if let Some(logins) = &self.settings.oidc {
            logins.follow(settings.oidc.as_ref());
        }
        if self.has_operator() {
            self.setup.end();
        }
    }

    /// Replaces the settings that are shown as those in force.
    pub fn set_running(&self, running: RunningSettings) {
        self.running.store(Arc::new(running));
    }

    /// Makes a setup token if there is no operator; `None` if there is one, or if an administrator can log in
    /// at an identity provider. The operators must have been read.
    pub fn begin_setup(&self) -> Result<Option<SetupToken>, NoRandomness> {
        (!self.has_operator()).then(|| self.setup.begin()).transpose()
    }

    /// Returns whether the first operator need not be made with a setup token.
    fn has_operator(&self) -> bool {
        let logins = self.settings.oidc.as_ref();
        !self.operators.is_empty() || logins.is_some_and(OidcLogins::makes_admins)
    }

    /// Sets the URL at which browsers reach the gateway. The first one counts.
    pub fn serve_logins_at(&self, base: Url) {
        if let Some(oidc) = &self.settings.oidc {
            oidc.serve_at(base);
        }
    }

    pub(crate) async fn stored_operators(&self) -> Result<Vec<StoredOperator>, Unavailable> {
        match self.settings.database.existing().await? {
            Some(database) => database.operators().await,
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn database(&self) -> Result<&Database> {
        Ok(self.settings.database.available().await?)
    }
}
