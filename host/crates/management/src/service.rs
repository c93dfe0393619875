//! The management API of a gateway, or of a command that has only the store.

use std::{mem, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};
use tracing::{info, warn};
use url::Url;

use crate::{
    config::RunningSettings,
    oidc::OidcLogins,
    operators::{LiveOperators, describe, rights},
    plugin::Inspections,
    preview::Preview,
    refusal::{forbidden, refusal},
    route::Act,
    setup::{Setup, SetupToken},
    token::NoRandomness,
};
use airlock_config::{Config, ConfigError, ConfigSource, StoreKeyError};
use airlock_core::{act::Acts, door::Membership, operator::Operator};
use airlock_limits::Limiter;
use airlock_lock::FileReadings;
use airlock_operator_api::{
    ConfiguredOperator, Management, ManagementRefusal, ManagementRequest, ManagementSettings,
    OperatorLogins,
};
use airlock_plugin::{InspectError, Metadata};
use airlock_store::{Database, LazyDatabase, Unavailable, operators::StoredOperator};
use airlock_strings::with_causes;

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
            oidc: None,
            acts: Acts::default(),
        }
    }
}

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
        if self.settings.database.location().is_missing_file() {
            return Ok(Vec::new());
        }
        self.settings.database.available().await?.operators().await
    }

    pub(crate) async fn database(&self) -> Result<&Database, ManagementRefusal> {
        let opened = self.settings.database.available().await;
        opened.map_err(|error| crate::refusal::unavailable(&error))
    }

    async fn respond(
        &self,
        operator: Option<&Operator>,
        request: ManagementRequest,
    ) -> Result<Value, ManagementRefusal> {
        let act = Act::find(&request.method, &request.path)?;
        let Some(right) = act.right() else { return self.set_up(request).await };
        let Some(actor) = operator else { return Err(no_operator(self.setup.is_active())) };
        if !actor.role.has(right) {
            return Err(forbidden(format!(
                "the operator {:?} has the role {:?}, which does not permit this",
                actor.name,
                actor.role.name()
            )));
        }
        let body = request.body;
        match act {
            Act::SetUp => unreachable!("it needs no right"),
            Act::ShowSession => {
                Ok(json!({"operator": describe(actor), "rights": rights(actor.role)}))
            }
            Act::EndSession => self.end_session(actor, request.session).await,
            Act::ListSessions => self.list_sessions(&request.query).await,
            Act::RevokeSession(id) => self.revoke_session(actor, &id).await,
            Act::ListOperators => self.list_operators().await,
            Act::AddOperator => self.add_operator(actor, body).await,
            Act::RemoveOperator(name) => self.remove_operator(actor, &name).await,
            Act::AddClient => self.add_client(actor, body).await,
            Act::UpdateClient(name) => self.update_client(actor, &name, body).await,
            Act::RemoveClient(name) => self.remove_client(actor, &name).await,
            Act::ListPlugins => self.list_plugins(&request.query).await,
            Act::InstallPlugin => {
                self.install_plugin(actor, &request.query, request.component).await
            }
            Act::ShowPlugin(name) => self.show_plugin(&name).await,
            Act::UpdatePlugin(name) => self.update_plugin(actor, &name, body).await,
            Act::RemovePlugin(name) => self.remove_plugin(actor, &name).await,
            Act::AcceptPlugin(name) => self.accept_plugin(actor, &name, body).await,
            Act::ListKeys => self.list_keys(&request.query).await,
            Act::CreateKey => self.create_key(actor, body).await,
            Act::ShowKey(id) => self.show_key(&id).await,
            Act::UpdateKey(id) => self.update_key(actor, &id, body).await,
            Act::DeleteKey(id) => Box::pin(self.delete_key(actor, &id)).await,
            Act::RotateKey(id) => self.rotate_key(actor, &id, body).await,
            Act::RotateKeys => self.rotate_keys(actor, body).await,
            Act::ListElements(listed) => self.list_elements(listed, &request.query).await,
            Act::CreateElement(listed) => self.create_element(actor, listed, body).await,
            Act::ShowElement(listed, id) => self.show_element(listed, &id).await,
            Act::UpdateElement(listed, id) => self.update_element(actor, listed, &id, body).await,
            Act::DeleteElement(listed, id) => self.delete_element(actor, listed, &id).await,
            Act::AttachKey(listed, id, key) => {
                self.attach_key(actor, listed, &id, &key, true).await
            }
            Act::DetachKey(listed, id, key) => {
                self.attach_key(actor, listed, &id, &key, false).await
            }
            Act::ListBudgets => self.list_budgets(&request.query).await,
            Act::ListRateLimits => self.list_rate_limits(&request.query).await,
            Act::SetOverride(owner, id, budget) => {
                self.set_override(actor, owner, &id, &budget, body).await
            }
            Act::ClearOverride(owner, id, budget) => {
                self.clear_override(actor, owner, &id, &budget).await
            }
            Act::ShowConfig => self.show_config().await,
            Act::UpdateConfig => self.update_config(actor, body).await,
            Act::ListChanges => self.list_changes(&request.query).await,
            Act::Revert(id) => self.revert(actor, id).await,
            Act::ListSettings => self.list_settings().await,
            Act::Preview => self.preview(body).await,
            Act::Logs(kind, wanted) => self.logs(actor, kind, wanted, &request.query, body).await,
        }
    }
}

impl Management for Service {
    fn operator(&self, token: &str) -> Option<Arc<Operator>> {
        self.operators.find(token, self.settings.database.now())
    }

    fn answer<'a>(
        &'a self,
        operator: Option<&'a Operator>,
        request: ManagementRequest,
    ) -> BoxFuture<'a, Result<Value, ManagementRefusal>> {
        Box::pin(self.respond(operator, request))
    }

    fn quota<'a>(
        &'a self,
        membership: &'a Membership,
    ) -> BoxFuture<'a, Result<Value, ManagementRefusal>> {
        Box::pin(self.show_quota(membership))
    }

    fn logins(&self) -> Option<&dyn OperatorLogins> {
        self.settings.oidc.as_ref().map(|oidc| oidc as &dyn OperatorLogins)
    }
}

impl From<ConfigError> for NotApplied {
    fn from(error: ConfigError) -> Self {
        Self(with_causes(&error))
    }
}

fn no_operator(is_new: bool) -> ManagementRefusal {
    let way = if is_new {
        "this gateway has no operator yet: send its setup token to POST /api/session/setup"
    } else {
        "send the token of an operator as `Authorization: Bearer …`"
    };
    refusal(
        StatusCode::UNAUTHORIZED,
        "operator_required",
        format!("an operator is required; {way}"),
    )
}
