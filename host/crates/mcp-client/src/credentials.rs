//! The credentials of one server: the secrets of its settings, which are redacted, and its login.

use std::{future::pending, sync::Arc};

use super::{
    connector::OpenError,
    oauth::{Authorizer, Logins, login_id},
    secrets::Redactor,
    settings::Settings,
};
use airlock_core::secret::Scrubber;
use airlock_store::{OwnerId, login::LoginId};
use airlock_strings::with_causes;

/// The credentials of one server, for all its connections.
#[derive(Default)]
pub struct Credentials {
    redactor: Arc<Redactor>,
    authorizer: Option<Arc<Authorizer>>,
}

impl Credentials {
    /// Creates the credentials, with the operator's login. Fails if the secrets cannot be redacted, or if
    /// the settings of the login can never work.
    pub fn new(settings: &Settings, logins: &Logins) -> Result<Self, OpenError> {
        Self::build(settings, logins, None)
    }

    /// Creates the credentials with the login of one holder. Fails as [`Self::new`] does.
    pub fn of_holder(
        settings: &Settings,
        logins: &Logins,
        holder: OwnerId,
    ) -> Result<Self, OpenError> {
        Self::build(settings, logins, Some(holder))
    }

    fn build(
        settings: &Settings,
        logins: &Logins,
        holder: Option<OwnerId>,
    ) -> Result<Self, OpenError> {
        let redactor = Redactor::new(settings.transport.secrets());
        let redactor = Arc::new(redactor.map_err(|error| OpenError::Invalid(with_causes(&error)))?);
        let http = settings.transport.http();
        let authorizer = http.and_then(|http| {
            http.oauth.as_ref()?;
            let mut id = login_id(&settings.name, http);
            id.holder = holder;
            Some(Authorizer::new(&settings.name, http, logins.stored(id), redactor.clone()))
        });
        Ok(Self { redactor, authorizer: authorizer.transpose()?.map(Arc::new) })
    }

    /// Returns the scrubber for all present secrets.
    pub fn scrubber(&self) -> Arc<Scrubber> {
        self.redactor.scrubber()
    }

    /// Returns the redactor, whose scrubber is replaced when the tokens of the login change.
    pub(super) fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Names the login of a holder at the server of these settings; `None` if the server has none.
    pub fn login_of(settings: &Settings, holder: OwnerId) -> Option<LoginId> {
        let http = settings.transport.http().filter(|http| http.oauth.is_some())?;
        Some(login_id(&settings.name, http).of_holder(holder))
    }

    /// Returns the source of access tokens; `None` if the server needs no login.
    pub(super) fn authorizer(&self) -> Option<&Arc<Authorizer>> {
        self.authorizer.as_ref()
    }

    /// Waits until the operator has logged in at the server again.
    pub async fn login_changed(&self) {
        match &self.authorizer {
            Some(authorizer) => authorizer.changed().await,
            None => pending().await,
        }
    }
}
