//! The login of one server, as the store has it and as it was read last.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::{
    bearer::{Bearer, RefusedRequest},
    error::{AuthorizationError, LoginNeeded, LoginReason},
    state::LoginState,
};
use crate::{
    backoff::RefreshBackoff,
    http_settings::{HttpSettings, InvalidSettings},
    logins::{LoginsUnavailable, StoredLogin},
    outbound::Outbound,
};
use airlock_core::{tool::ClientName, unix_time::unix_milliseconds};
use airlock_store::{Clock, login::UpstreamLogin};

/// The login of one server.
pub(super) struct TokenSource {
    pub(super) client: ClientName,
    pub(super) stored: StoredLogin,
    /// Settings of the server, for `outbound`.
    pub(super) http: HttpSettings,
    /// Empty until the files of TLS are read.
    pub(super) outbound: OnceCell<Outbound>,
    pub(super) clock: Clock,
    pub(super) state: LoginState,
    /// Backoff that all connections with this login share.
    pub(super) backoff: Arc<RefreshBackoff>,
    /// True if the gateway registers its client at the authorization server, so that another login mends
    /// that the client is refused.
    pub(super) registers: bool,
    /// Scopes of the settings, which no server can extend; empty if there are none.
    pub(super) permitted: Vec<String>,
}

/// The login that the store has, by what a request may do with its token.
pub(super) enum StoredToken {
    /// It is sent. The operator may have none.
    Valid(Option<Arc<UpstreamLogin>>),
    /// It is sent, and refreshed meanwhile.
    Expiring(Arc<UpstreamLogin>),
    /// It has expired or was refused, so it is refreshed first.
    Rejected(Arc<UpstreamLogin>),
}

impl TokenSource {
    /// Returns the known token if it can be sent without a look into the store.
    pub(super) fn ready(&self) -> Option<Result<Option<Bearer>, AuthorizationError>> {
        if !self.state.is_recent() {
            return None;
        }
        match self.state.login() {
            None if self.stored.has_holder() => None,
            None => Some(Ok(None)),
            Some(login) if self.backoff.is_rejected(&login) => None,
            Some(login) if self.is_expired(&login) => None,
            Some(login)
                if self.is_due(&login)
                    && self.backoff.paused(&login).is_none()
                    && self.backoff.refresh_refusal(&login).is_none() =>
            {
                None
            }
            Some(login) => Some(Bearer::new(login).map(Some)),
        }
    }

    /// Returns the known login if its token can be sent, however old the look into the store is.
    pub(super) fn usable(&self) -> Option<Arc<UpstreamLogin>> {
        let login = self.state.login();
        login.filter(|login| !self.is_expired(login) && !self.backoff.is_rejected(login))
    }

    /// Returns the client for the authorization server, for which the files of TLS are read once.
    pub(super) async fn outbound(&self) -> Result<&Outbound, InvalidSettings> {
        self.outbound.get_or_try_init(|| Outbound::open(&self.http)).await
    }

    /// Reads the login, for a request in place of the one that was refused.
    pub(super) async fn look_up(
        &self,
        refused: &RefusedRequest,
    ) -> Result<StoredToken, AuthorizationError> {
        let login = match self.read().await {
            Ok(login) => login,
            // The known token is good for as long as it lasts.
            Err(error) => match self.state.login().filter(|login| !self.is_expired(login)) {
                Some(login) if matches!(refused, RefusedRequest::None) => Some(login),
                _ => return Err(error.into()),
            },
        };
        let Some(login) = login else {
            return match refused {
                RefusedRequest::None if !self.stored.has_holder() => Ok(StoredToken::Valid(None)),
                _ => Err(self.needs(LoginReason::Missing)),
            };
        };
        if self.backoff.is_rejected(&login) {
            return Err(self.needs(LoginReason::Rejected));
        }
        if refused.has(&login) {
            let is_replaceable = login.refresh_token.is_some() && self.backoff.may_replace();
            return if is_replaceable {
                Ok(StoredToken::Rejected(login))
            } else {
                Err(AuthorizationError::NoOther)
            };
        }
        Ok(if !self.is_due(&login) {
            StoredToken::Valid(Some(login))
        } else if self.is_expired(&login) {
            StoredToken::Rejected(login)
        } else {
            StoredToken::Expiring(login)
        })
    }

    /// Reads the login. Tokens that could not be stored are stored first. As long as that fails, they
    /// are used in place of the version that they replace.
    pub(super) async fn read(&self) -> Result<Option<Arc<UpstreamLogin>>, LoginsUnavailable> {
        let Some((replaced, login)) = self.state.unstored() else {
            return Ok(self.state.remember(self.stored.read().await?));
        };
        let renewed = self.stored.renew(&replaced, UpstreamLogin::clone(&login)).await;
        let is_unstored = renewed.is_err()
            && match self.stored.read().await {
                Ok(present) => present.is_some_and(|present| present.access_token == replaced),
                Err(_) => true,
            };
        if is_unstored {
            return Ok(Some(self.state.keep(UpstreamLogin::clone(&login))));
        }
        self.state.clear_unstored();
        Ok(self.state.remember(self.stored.read().await?))
    }

    /// Returns the error of a request that needs a login. The user of a caller is not sent to log in for
    /// what no login of a user mends.
    pub(super) fn needs(&self, reason: LoginReason) -> AuthorizationError {
        let has_holder = self.stored.has_holder();
        match reason {
            LoginReason::Declined if has_holder => AuthorizationError::Declined,
            LoginReason::Limited(named) if has_holder => AuthorizationError::Limited(named),
            reason => {
                let operator_of = (!has_holder).then(|| self.client.clone());
                LoginNeeded { operator_of, reason }.into()
            }
        }
    }

    /// Returns whether a token is to be refreshed: a minute before it expires, or after half its life
    /// if that is short; but not in its first second.
    pub(super) fn is_due(&self, login: &UpstreamLogin) -> bool {
        let Some(expires) = login.expires_ms else { return false };
        let now = unix_milliseconds((self.clock)());
        let life = expires.saturating_sub(login.obtained_ms);
        let margin = (life / 2).clamp(0, 60_000);
        now >= expires.saturating_sub(margin) && now >= login.obtained_ms.saturating_add(1_000)
    }

    /// Returns whether the token of a login has expired.
    pub(super) fn is_expired(&self, login: &UpstreamLogin) -> bool {
        let now = unix_milliseconds((self.clock)());
        login.expires_ms.is_some_and(|expires| now >= expires)
    }
}
