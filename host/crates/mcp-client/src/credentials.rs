//! The credentials of one server: the secrets of its settings, which are redacted, and its login.

use std::{future::pending, sync::Arc};

use super::{
    connector::OpenError,
    oauth::{Authorizer, Logins},
    secrets::Redactor,
    settings::Settings,
};
use airlock_core::secret::Scrubber;
use airlock_strings::with_causes;

/// The credentials of one server, for all its connections.
#[derive(Default)]
pub struct Credentials {
    redactor: Arc<Redactor>,
    authorizer: Option<Arc<Authorizer>>,
}

impl Credentials {
    /// Creates the credentials. Fails if the secrets cannot be redacted, or if the settings of the login
    /// can never work.
    pub fn new(settings: &Settings, logins: &Logins) -> Result<Self, OpenError> {
        let redactor = Redactor::new(settings.transport.secrets());
        let redactor = Arc::new(redactor.map_err(|error| OpenError::Invalid(with_causes(&error)))?);
        let http = settings.transport.http();
        let authorizer = http.and_then(|http| {
            http.oauth.as_ref()?;
            Some(Authorizer::new(&settings.name, http, logins, redactor.clone()))
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
