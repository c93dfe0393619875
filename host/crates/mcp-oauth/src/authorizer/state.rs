//! The login as a connection has read it last.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::secrets::Redactor;
use airlock_store::login::UpstreamLogin;

/// Time after which the store is read again, so that a login or a logout is noticed.
pub(crate) const REREAD: Duration = Duration::from_secs(5);

/// State of the login of one server. Its tokens are redacted from the moment that they are
/// known.
pub(super) struct LoginState {
    redactor: Arc<Redactor>,
    inner: Mutex<LastLogin>,
}

#[derive(Default)]
struct LastLogin {
    login: Option<Arc<UpstreamLogin>>,
    /// Time at which the store was read.
    read: Option<Instant>,
    /// Login that is not stored yet, with the access token that it replaces in the store.
    unstored: Option<(String, Arc<UpstreamLogin>)>,
}

impl LoginState {
    pub(super) fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, inner: Mutex::default() }
    }

    /// Records the login that the store has, and returns it.
    pub(super) fn remember(&self, login: Option<UpstreamLogin>) -> Option<Arc<UpstreamLogin>> {
        if let Some(login) = login {
            return Some(self.keep(login));
        }
        let mut inner = self.inner.lock();
        inner.login = None;
        inner.read = Some(Instant::now());
        None
    }

    /// Records a login, and returns it.
    pub(super) fn keep(&self, login: UpstreamLogin) -> Arc<UpstreamLogin> {
        let secrets = [
            ("access token", Some(login.access_token.clone())),
            ("refresh token", login.refresh_token.clone()),
            ("client secret", login.client_secret.clone()),
        ];
        self.redactor
            .add_tokens(secrets.into_iter().filter_map(|(name, token)| Some((name, token?))));
        let login = Arc::new(login);
        let mut inner = self.inner.lock();
        inner.login = Some(login.clone());
        inner.read = Some(Instant::now());
        login
    }

    /// Returns the login that was read or stored last.
    pub(super) fn login(&self) -> Option<Arc<UpstreamLogin>> {
        self.inner.lock().login.clone()
    }

    /// Returns whether the store was read within [`REREAD`].
    pub(super) fn is_recent(&self) -> bool {
        self.inner.lock().read.is_some_and(|read| read.elapsed() < REREAD)
    }

    /// Records a login that could not be stored in place of the version `token`, and returns it.
    pub(super) fn keep_unstored(&self, token: &str, login: UpstreamLogin) -> Arc<UpstreamLogin> {
        let login = self.keep(login);
        self.inner.lock().unstored = Some((token.to_owned(), login.clone()));
        login
    }

    /// Returns the login that is not stored yet, with the access token that it replaces.
    pub(super) fn unstored(&self) -> Option<(String, Arc<UpstreamLogin>)> {
        self.inner.lock().unstored.clone()
    }

    /// Records that no login remains to be stored.
    pub(super) fn clear_unstored(&self) {
        self.inner.lock().unstored = None;
    }
}
