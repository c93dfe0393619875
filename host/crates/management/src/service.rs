//! The management API of a gateway, or of a command that has only the store.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};

use crate::{
    operators::{LiveOperators, describe},
    preview::Preview,
    refusal::{forbidden, refusal},
    route::Act,
    setup::{Setup, SetupToken},
    token::NoRandomness,
};
use airlock_config::{Config, ConfigError, ConfigSource, StoreKeyError};
use airlock_core::operator::Operator;
use airlock_server::{ConfiguredOperator, Management, ManagementRefusal, ManagementRequest};
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
    /// Operators of the configuration file.
    pub operators: Vec<ConfiguredOperator>,
    /// True if the store seals secrets. If not, elements with secrets in plain text are refused.
    pub seals_secrets: bool,
}

impl ServiceSettings {
    /// Returns the settings of the API for a configuration, whose store is `database`.
    pub fn new(config: &Config, database: LazyDatabase) -> Self {
        Self {
            source: config.file.clone().map(|file| Arc::new(ConfigSource::new(file))),
            database,
            operators: config.server.management.operators.clone(),
            seals_secrets: config.store_seal.is_some(),
        }
    }
}

/// The running gateway, which takes changed elements.
pub trait Apply: Send + Sync + 'static {
    /// Takes the elements of the file and the store. Dropping the future does not undo what was taken.
    fn apply(&self) -> BoxFuture<'_, Result<(), NotApplied>>;

    /// Waits until a client is connected or has failed, for at most `limit`. Returns the number of its
    /// tools.
    fn connected<'a>(
        &'a self,
        client: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<usize, NotApplied>>;

    /// Returns what would change if the configuration file had this content. Fails if the settings of
    /// the store cannot be read.
    fn preview(&self, file: Value) -> BoxFuture<'_, Result<Preview, NotApplied>>;
}

/// Reason that the running gateway has not taken a change, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotApplied(pub String);

/// The management API.
pub struct Service {
    pub(crate) settings: ServiceSettings,
    pub(crate) setup: Setup,
    operators: LiveOperators,
    /// Held while the operators are read, so that an older reading does not replace a newer one.
    refreshing: Mutex<()>,
    /// Places for requests that read the whole configuration.
    pub(crate) readers: Semaphore,
    /// `None` for a command: running gateways notice the changes in the store.
    pub(crate) gateway: Option<Arc<dyn Apply>>,
}

impl Service {
    /// Creates the API. Of the operators, only those of the file are known until
    /// [`Service::refresh_operators`].
    pub fn new(settings: ServiceSettings, gateway: Option<Arc<dyn Apply>>) -> Arc<Self> {
        let operators = LiveOperators::default();
        operators.replace(&settings.operators, Vec::new());
        Arc::new(Self {
            settings,
            setup: Setup::default(),
            operators,
            refreshing: Mutex::default(),
            readers: Semaphore::new(READERS),
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
    /// setup token is no longer valid.
    pub async fn refresh_operators(&self) -> Result<(), Unavailable> {
        let _turn = self.refreshing.lock().await;
        let stored = self.stored_operators().await?;
        self.operators.replace(&self.settings.operators, stored);
        if !self.operators.is_empty() {
            self.setup.end();
        }
        Ok(())
    }

    /// Makes a setup token if there is no operator; `None` if there is one. The operators must have
    /// been read.
    pub fn begin_setup(&self) -> Result<Option<SetupToken>, NoRandomness> {
        self.operators.is_empty().then(|| self.setup.begin()).transpose()
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
            Act::ShowSession => Ok(json!({"operator": describe(actor)})),
            Act::ListOperators => self.list_operators().await,
            Act::AddOperator => self.add_operator(actor, body).await,
            Act::RemoveOperator(name) => self.remove_operator(actor, &name).await,
            Act::AddClient => self.add_client(actor, body).await,
            Act::UpdateClient(name) => self.update_client(actor, &name, body).await,
            Act::RemoveClient(name) => self.remove_client(actor, &name).await,
            Act::ListKeys => self.list_keys(&request.query).await,
            Act::CreateKey => self.create_key(actor, body).await,
            Act::ShowKey(id) => self.show_key(&id).await,
            Act::UpdateKey(id) => self.update_key(actor, &id, body).await,
            Act::DeleteKey(id) => self.delete_key(actor, &id).await,
            Act::RotateKey(id) => self.rotate_key(actor, &id, body).await,
            Act::RotateKeys => self.rotate_keys(actor, body).await,
            Act::ListChanges => self.list_changes(&request.query).await,
            Act::Revert(id) => self.revert(actor, id).await,
            Act::ListSettings => self.list_settings().await,
            Act::Preview => self.preview(body).await,
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
