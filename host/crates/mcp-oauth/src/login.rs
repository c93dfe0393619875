//! A login: from the discovery of the authorization server to the stored tokens.

mod prepare;

use std::sync::Arc;

pub(super) use self::prepare::{Preparation, prepare};
use super::{
    callback::{Callback, CallbackError, Redirected},
    exchange::AuthorizationRequest,
    logins::{Logins, LoginsUnavailable, StoredLogin, login_id},
    outbound::{Outbound, OutboundError},
    secrets::Redactor,
    server::LoginServer,
    tokens::{BadTokens, LoggedIn, quoted},
};

/// Reason that a login failed. It names no secret.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The client has no login.
    #[error(
        "its `auth_type` is neither \"oauth\" nor \"per_user_oauth\", so there is nothing to log in to"
    )]
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
    /// The authorization server does not know the scopes that were asked for.
    #[error("the authorization server refuses the login: invalid_scope")]
    UnknownScope,
    /// The token endpoint refuses the client, with this error code.
    #[error("the authorization server refuses the client of the gateway: {0}")]
    UnknownClient(String),
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

/// A login of the operator, which waits for the browser.
pub struct PendingLogin(PreparedLogin);

/// A login that waits for the browser.
pub(super) struct PreparedLogin {
    pub(super) request: AuthorizationRequest,
    /// URL that is to be opened.
    pub(super) url: String,
    outbound: Arc<Outbound>,
    stored: StoredLogin,
    /// Access token of the stored login that asks for more scopes, if there is one.
    widened: Option<String>,
    redactor: Redactor,
}

impl PendingLogin {
    /// Finds the authorization server, and registers a client there if needed. The browser is to be
    /// redirected to `callback`.
    pub async fn begin(
        server: LoginServer<'_>,
        logins: &Logins,
        callback: &Callback,
    ) -> Result<Self, LoginError> {
        let preparation = Preparation {
            stored: logins.stored(login_id(server.client, server.http)),
            holder: None,
            redirect: callback.url(),
            clients: None,
        };
        Box::pin(prepare(server, preparation)).await.map(Self)
    }

    /// Returns the URL that the operator opens in a browser.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Returns the host to which the URL leads, with its port.
    pub fn host(&self) -> String {
        let url = reqwest::Url::parse(&self.0.url).ok();
        url.map(|url| url.authority().to_owned()).unwrap_or_default()
    }

    /// Returns the scopes that are asked for, in quotes; empty if there are none.
    pub fn quoted_scopes(&self) -> String {
        quoted(&self.0.request.login.scopes)
    }

    /// Waits for the redirect, exchanges its code for tokens, and stores them. Any number of other
    /// redirects is refused: other processes of this machine can send them. Waits without end.
    pub async fn complete(self, callback: &Callback) -> Result<LoggedIn, LoginError> {
        loop {
            let (redirected, browser) = callback.next().await?;
            let finished = Box::pin(self.0.finish(redirected)).await;
            browser.show(finished.is_ok()).await;
            if !matches!(finished, Err(LoginError::Stranger)) {
                return finished;
            }
        }
    }
}

impl PreparedLogin {
    async fn finish(&self, redirected: Redirected) -> Result<LoggedIn, LoginError> {
        let finishing = self.request.finish(redirected, &self.outbound, &self.redactor);
        let login = match finishing.await {
            Ok(login) => login,
            Err(error) => {
                if matches!(error, LoginError::UnknownScope) {
                    self.forget_wanted().await;
                }
                return Err(error);
            }
        };
        let logged_in = LoggedIn::new(&login);
        self.stored.put(login).await?;
        Ok(logged_in)
    }

    /// Forgets the scopes that the MCP server has asked for, so that they do not prevent every
    /// further login.
    async fn forget_wanted(&self) {
        if let Some(token) = &self.widened {
            // The login has failed in any case.
            let _ = self.stored.want(token, "").await;
        }
    }
}
