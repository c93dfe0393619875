//! The login as it was read last, and what is known of its tokens.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::secrets::Redactor;
use airlock_store::login::UpstreamLogin;

/// Time after which the store is read again, so that a login or a logout is noticed.
const REREAD: Duration = Duration::from_secs(5);
/// Time for which a token that the server has refused twice is not sent again.
const REJECTED: Duration = Duration::from_mins(1);
/// Time after a refresh that failed in which none is attempted.
const PAUSE: Duration = Duration::from_secs(5);

/// Least time between two refreshes because the server refuses a token.
const REPLACEMENT: Duration = Duration::from_secs(30);

/// State of the login of one server. Its tokens are redacted from the moment that they are
/// known.
pub(super) struct LoginState {
    redactor: Arc<Redactor>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    login: Option<Arc<UpstreamLogin>>,
    /// Time at which the store was read.
    read: Option<Instant>,
    /// Access token that the server refuses although it is new.
    rejected: Option<(String, Instant)>,
    /// Refresh token that is refused, with the error code.
    refused: Option<(String, String)>,
    paused_until: Option<Instant>,
    /// Time of the last refresh because the server refuses a token.
    replaced: Option<Instant>,
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
        let known = inner.login.as_ref();
        let is_new = known.is_none_or(|known| known.access_token != login.access_token);
        if is_new {
            inner.paused_until = None;
        }
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

    /// Records that the server refuses a token although it is new.
    pub(super) fn reject(&self, token: &str) {
        self.inner.lock().rejected = Some((token.to_owned(), Instant::now()));
    }

    /// Returns whether the server has refused the new token of a login within [`REJECTED`].
    pub(super) fn is_rejected(&self, login: &UpstreamLogin) -> bool {
        self.inner
            .lock()
            .rejected
            .as_ref()
            .is_some_and(|(token, at)| *token == login.access_token && at.elapsed() < REJECTED)
    }

    /// Records that the refresh token of a login is refused for good.
    pub(super) fn refuse_refresh(&self, login: &UpstreamLogin, code: &str) {
        self.inner.lock().refused =
            login.refresh_token.clone().map(|token| (token, code.to_owned()));
    }

    /// Returns the error code with which the refresh token of a login was refused.
    pub(super) fn refresh_refusal(&self, login: &UpstreamLogin) -> Option<String> {
        let inner = self.inner.lock();
        let (refused, code) = inner.refused.as_ref()?;
        (login.refresh_token.as_ref() == Some(refused)).then(|| code.clone())
    }

    /// Records that a refresh has failed.
    pub(super) fn pause(&self) {
        self.inner.lock().paused_until = Some(Instant::now() + PAUSE);
    }

    /// Returns whether a refresh has failed within [`PAUSE`].
    pub(super) fn is_paused(&self) -> bool {
        self.inner.lock().paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Returns whether a token that the server refuses may be replaced: once within [`REPLACEMENT`].
    /// The server decides what it refuses.
    pub(super) fn may_replace(&self) -> bool {
        let mut inner = self.inner.lock();
        let may = inner.replaced.is_none_or(|at| at.elapsed() >= REPLACEMENT);
        if may {
            inner.replaced = Some(Instant::now());
        }
        may
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
