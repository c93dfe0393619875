//! Refreshes the tokens of a login, once among all processes that share the store.
//!
//! ```text
//!            ┌───────────── Changed, due again ◄─┐
//!            ▼                                   │
//!          claim ─┬─► Claimed ─► request ─┬─► new tokens ─► stored, or kept until they can be
//!            ▲    │                       ├─► refused ────► the operator has to log in
//!            │    │                       └─► failed ─────► paused
//!            ├────┼─► Busy: another process refreshes
//!            │    ├─► Changed: another process has refreshed
//!            wait └─► Gone: the operator has logged out
//! ```

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use super::{
    error::{AuthorizationError, LoginReason},
    source::TokenSource,
};
use crate::{
    backoff::RefreshPaused,
    outbound,
    refresh::refresh,
    token_endpoint::{INVALID_GRANT, TokenError},
};
use airlock_store::login::{RefreshClaim, UpstreamLogin};
use airlock_strings::with_causes;

/// Time for which a refresh is claimed. The request and storing its result take less.
pub(super) const CLAIM: Duration = outbound::TIMEOUT.saturating_add(Duration::from_secs(10));
/// Interval at which the claim of another process is looked at.
const CLAIM_POLL: Duration = Duration::from_millis(100);

impl TokenSource {
    /// Refreshes the tokens, unless another process does. Returns the login with new tokens.
    pub(super) async fn renew(
        &self,
        login: Arc<UpstreamLogin>,
    ) -> Result<Arc<UpstreamLogin>, AuthorizationError> {
        if let Some(code) = self.backoff.refresh_refusal(&login) {
            return Err(self.needs(LoginReason::Refused(code)));
        }
        if login.refresh_token.is_none() {
            return Err(self.needs(LoginReason::Expired));
        }
        match self.backoff.paused(&login) {
            Some(RefreshPaused::Failure) => return Err(AuthorizationError::Paused),
            Some(RefreshPaused::Client(code)) => return Err(self.client_refused(code)),
            None => {}
        }
        // The store has a refresh token that was used.
        if self.state.unstored().is_some() {
            return Err(AuthorizationError::Unstored);
        }
        // Before the claim, which has time for the request alone.
        if let Err(error) = self.outbound().await {
            self.backoff.pause(&login);
            return Err(TokenError::from(error).into());
        }
        let deadline = Instant::now() + CLAIM;
        let mut token = login.access_token.clone();
        while Instant::now() < deadline {
            match self.stored.claim(&token, CLAIM).await? {
                RefreshClaim::Claimed(login) => return self.refresh(login).await,
                RefreshClaim::Gone => {
                    self.state.remember(None);
                    return Err(self.needs(LoginReason::Missing));
                }
                RefreshClaim::Changed(login) => {
                    token.clone_from(&login.access_token);
                    let login = self.state.keep(login);
                    if !self.is_due(&login) {
                        return Ok(login);
                    }
                }
                RefreshClaim::Busy => sleep(CLAIM_POLL).await,
            }
        }
        Err(AuthorizationError::Busy)
    }

    /// Refreshes the tokens of a login that is claimed.
    pub(super) async fn refresh(
        &self,
        login: UpstreamLogin,
    ) -> Result<Arc<UpstreamLogin>, AuthorizationError> {
        let client = &self.client;
        let error = match self.request(&login).await {
            Ok(renewed) => {
                info!(%client, "access token of an upstream server refreshed");
                return self.store(&login.access_token, renewed).await;
            }
            Err(error) => error,
        };
        // An attempt is not made again at once, whether the claim can be ended or not.
        let _ = self.stored.release(&login.access_token).await;
        // Another process may have used the refresh token first.
        if let Some(present) = self.stored.read().await?
            && present.access_token != login.access_token
        {
            return Ok(self.state.keep(present));
        }
        warn!(%client, error = with_causes(&error), "access token of an upstream server not refreshed");
        match error {
            TokenError::Refused(code) if !self.stored.has_holder() => {
                self.backoff.refuse_refresh(&login, &code);
                Err(self.needs(LoginReason::Refused(code)))
            }
            TokenError::Refused(code) if code == INVALID_GRANT => {
                // First, for a store that cannot be written.
                self.backoff.pause(&login);
                self.stored.void(&login.access_token).await?;
                self.state.remember(None);
                Err(self.needs(LoginReason::Refused(code)))
            }
            // It says nothing about the login, which may be renewed once the client is accepted again.
            TokenError::Refused(code) => {
                error!(%client, code, "an authorization server refuses the client of the gateway");
                self.backoff.pause_for_client(&login, &code);
                Err(self.client_refused(code))
            }
            error => {
                self.backoff.pause(&login);
                Err(error.into())
            }
        }
    }

    /// Returns the error of a login that is not renewed because the client of the gateway is refused.
    /// Another login has another client, if the gateway registers it; else the operator has to act.
    fn client_refused(&self, code: String) -> AuthorizationError {
        if self.registers {
            self.needs(LoginReason::Refused(code))
        } else {
            AuthorizationError::Client(code)
        }
    }

    async fn request(&self, login: &UpstreamLogin) -> Result<UpstreamLogin, TokenError> {
        refresh(self.outbound().await?, login, || (self.clock)()).await
    }

    /// Stores refreshed tokens, which are lost otherwise: if that fails, each look into the store tries
    /// it again. Returns the login that is to be used.
    async fn store(
        &self,
        token: &str,
        renewed: UpstreamLogin,
    ) -> Result<Arc<UpstreamLogin>, AuthorizationError> {
        match self.stored.renew(token, renewed.clone()).await {
            Ok(true) => return Ok(self.state.keep(renewed)),
            Ok(false) => {}
            Err(error) => {
                let client = &self.client;
                let error = with_causes(&error);
                error!(%client, error, "refreshed tokens of an upstream server were not stored yet");
                return Ok(self.state.keep_unstored(token, renewed));
            }
        }
        // The operator has logged in or out meanwhile.
        let present = self.state.remember(self.stored.read().await?);
        present.ok_or_else(|| self.needs(LoginReason::Missing))
    }
}
