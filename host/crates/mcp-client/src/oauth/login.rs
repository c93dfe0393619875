//! A login of the operator: from the discovery of the authorization server to the stored tokens.

mod prepare;

use std::{sync::Arc, time::SystemTime};

use rmcp::transport::auth::{AuthError, AuthorizationManager};
use serde_json::Value;

use super::{
    super::{limits::MAX_REASON_BYTES, secrets::Redactor, settings::Settings},
    callback::{Callback, CallbackError, Redirected},
    logins::{Logins, LoginsUnavailable, StoredLogin},
    outbound::{Outbound, OutboundError, TIMEOUT},
    tokens::{BadTokens, LoggedIn, Tokens, quoted},
};
use airlock_core::secret::Scrubber;
use airlock_store::login::UpstreamLogin;
use airlock_strings::{cut, with_causes};

const EXCHANGE: &str = "exchanging the code for tokens";
/// Error code of a login with scopes that the authorization server does not know.
const INVALID_SCOPE: &str = "invalid_scope";

/// Reason that a login failed. It names no secret.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The client has no login.
    #[error("its `auth_type` is not \"oauth\", so there is nothing to log in to")]
    NotConfigured,
    /// The settings can never work.
    #[error("{0}")]
    InvalidSettings(String),
    /// A step failed at the authorization server or on the way to it.
    #[error("{step} failed: {reason}")]
    Failed {
        /// The step.
        step: &'static str,
        /// The reason, on one line.
        reason: String,
    },
    /// A step took too long.
    #[error("{0} took too long")]
    TimedOut(&'static str),
    /// The authorization server does not support proofs of possession of the code.
    #[error(
        "the authorization server does not announce PKCE with S256, without which a code can be stolen"
    )]
    NoPkce,
    /// The authorization server registers no clients.
    #[error(
        "the authorization server registers no clients by itself; register one there with the redirect {0}, and set `oauth_config.client_id`"
    )]
    NoRegistration(String),
    /// Another authorization server was discovered than the settings permit.
    #[error("the authorization server is {found:?}, but `oauth_config.issuer` is {expected:?}")]
    OtherIssuer {
        /// The issuer of the settings.
        expected: String,
        /// The discovered one.
        found: String,
    },
    /// The authorization endpoint has a parameter that is the client's.
    #[error(
        "the authorization endpoint is not used: its query sets {0:?}, which is not its to set"
    )]
    Parameter(String),
    /// An endpoint is not used.
    #[error("the {name} endpoint is not used")]
    Endpoint {
        /// Name of the endpoint.
        name: &'static str,
        /// The reason.
        #[source]
        cause: OutboundError,
    },
    /// The redirect does not come from the authorization server of this login.
    #[error("the redirect does not come from the authorization server: {0}")]
    WrongIssuer(String),
    /// The redirect belongs to no login, or to another one.
    #[error("the redirect belongs to another login")]
    Stranger,
    /// The authorization server refuses the login.
    #[error("the authorization server refuses the login: {0}")]
    Denied(String),
    /// The response of the token endpoint has no tokens.
    #[error(transparent)]
    Tokens(#[from] BadTokens),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] LoginsUnavailable),
    /// The redirect cannot be received.
    #[error(transparent)]
    Callback(#[from] CallbackError),
}

/// A login that waits for the browser of the operator.
pub struct PendingLogin {
    manager: AuthorizationManager,
    outbound: Arc<Outbound>,
    stored: StoredLogin,
    /// Access token of the stored login that asks for more scopes, if there is one.
    widened: Option<String>,
    redactor: Redactor,
    url: String,
    state: String,
    /// True if the redirect must name the issuer (RFC 9207).
    requires_issuer: bool,
    /// The login as far as it is known, without tokens.
    login: UpstreamLogin,
}

impl PendingLogin {
    /// Finds the authorization server, and registers a client there if needed. The browser is to be
    /// redirected to `callback`.
    pub async fn begin(
        settings: &Settings,
        logins: &Logins,
        callback: &Callback,
    ) -> Result<Self, LoginError> {
        Box::pin(prepare::prepare(settings, logins, callback.url())).await
    }

    /// Returns the URL that the operator opens in a browser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the host to which the URL leads, with its port.
    pub fn host(&self) -> String {
        let url = reqwest::Url::parse(&self.url).ok();
        url.map(|url| url.authority().to_owned()).unwrap_or_default()
    }

    /// Returns the scopes that are asked for, in quotes; empty if there are none.
    pub fn quoted_scopes(&self) -> String {
        quoted(&self.login.scopes)
    }

    /// Waits for the redirect, exchanges its code for tokens, and stores them. Any number of other
    /// redirects is refused: other processes of this machine can send them. Waits without end.
    pub async fn complete(self, callback: &Callback) -> Result<LoggedIn, LoginError> {
        loop {
            let (redirected, browser) = callback.next().await?;
            let finished = Box::pin(self.finish(redirected)).await;
            browser.show(finished.is_ok()).await;
            if !matches!(finished, Err(LoginError::Stranger)) {
                return finished;
            }
        }
    }

    async fn finish(&self, redirected: Redirected) -> Result<LoggedIn, LoginError> {
        if redirected.state != self.state {
            return Err(LoginError::Stranger);
        }
        self.check_issuer(redirected.issuer.as_deref())?;
        if let Some(error) = redirected.error {
            if error == INVALID_SCOPE {
                self.forget_wanted().await;
            }
            let reason = match redirected.description {
                Some(description) => format!("{error} ({description})"),
                None => error,
            };
            return Err(LoginError::Denied(
                self.redactor.scrubber().line(&reason, MAX_REASON_BYTES),
            ));
        }
        let code = redirected.code.ok_or(LoginError::Stranger)?;
        self.redactor.add_tokens([("code", code.clone())]);
        // Without an issuer to compare with, `rmcp` refuses every redirect that names one.
        let issuer = redirected.issuer.as_deref().filter(|_| !self.login.issuer.is_empty());
        let exchanging =
            self.manager.exchange_code_for_token_with_issuer(&code, &self.state, issuer);
        let exchanged = tokio::time::timeout(TIMEOUT, exchanging).await;
        let exchanged = exchanged.map_err(|_| LoginError::TimedOut(EXCHANGE))?;
        let Ok(response) = exchanged else { return Err(self.not_exchanged().await) };
        let response = serde_json::to_value(&response).unwrap_or(Value::Null);
        let login = Tokens::read(&response)?.into_login(self.login.clone(), SystemTime::now());
        let logged_in = LoggedIn::of(&login);
        self.stored.put(login).await?;
        Ok(logged_in)
    }

    /// Returns the error of an exchange. That of `rmcp` has text of the response, which may repeat what
    /// was sent.
    async fn not_exchanged(&self) -> LoginError {
        let reason = self.outbound.failure();
        if reason.as_ref().is_some_and(|reason| reason.ends_with(INVALID_SCOPE)) {
            self.forget_wanted().await;
        }
        let reason = reason.unwrap_or_else(|| "the response has no tokens".to_owned());
        LoginError::Failed {
            step: EXCHANGE,
            reason: self.redactor.scrubber().line(&reason, MAX_REASON_BYTES),
        }
    }

    /// Forgets the scopes that the MCP server has asked for, so that they do not prevent every
    /// further login.
    async fn forget_wanted(&self) {
        if let Some(token) = &self.widened {
            // The login has failed in any case.
            let _ = self.stored.want(token, "").await;
        }
    }

    /// Compares the issuer of a redirect, whether it has a code or an error, with that of the
    /// metadata (RFC 9207, section 2.4). If the issuer is not known, because the operator has set the
    /// endpoints, the code goes to that token endpoint alone.
    fn check_issuer(&self, received: Option<&str>) -> Result<(), LoginError> {
        let expected = &self.login.issuer;
        match received {
            _ if expected.is_empty() => Ok(()),
            Some(received) if received == expected => Ok(()),
            None if !self.requires_issuer => Ok(()),
            None => Err(LoginError::WrongIssuer(format!("it does not name {expected:?}"))),
            Some(received) => {
                let received = self.redactor.scrubber().line(received, MAX_REASON_BYTES);
                let expected = cut(expected.clone(), MAX_REASON_BYTES);
                let reason = format!("it names {received:?}, expected {expected:?}");
                Err(LoginError::WrongIssuer(reason))
            }
        }
    }
}

/// Returns the error of a step, without secrets.
fn failed(step: &'static str, error: &AuthError, scrubber: &Scrubber) -> LoginError {
    LoginError::Failed { step, reason: scrubber.line(&with_causes(error), MAX_REASON_BYTES) }
}
