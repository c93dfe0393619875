//! Exchanges the access token of a caller for a token of one server (RFC 8693).
//!
//! ```text
//! a call ─► the kept token, if it is for the same user, server and caller's token, and lasts ─► sent
//!             │ none
//!             ▼
//!           turn ─► exchange ─┬─► kept until it expires ──────────────────────────────────────► sent
//!                             ├─► the caller's token is refused, or yields none ─► kept for a minute ─► the call fails
//!                             └─► the authorization server fails, or refuses the client
//!                                                           ─► no exchange of this server for a while
//! ```
//!
//! Tokens are kept in memory alone. The caller's token is sent to the configured token endpoint and nowhere
//! else; its digest is what is kept of it.

mod kept;

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, StatusCode};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};
use tracing::{error, info, warn};

use self::kept::{KeptOutcome, KeptOutcomes};
use super::{
    http_settings::{HttpSettings, InvalidSettings},
    keyed_permits::KeyedPermits,
    logins::login_id,
    outbound::{Outbound, check_server},
    server::LoginServer,
    settings::{TokenAuthentication, TokenExchange},
    token_endpoint::{CLIENT_REFUSALS, TokenError, post},
    tokens::Tokens,
};
use airlock_core::{
    secret::Secret,
    tool::{Cause, ClientName},
};
use airlock_store::{
    OwnerId,
    login::{LoginId, UpstreamLogin},
};
use airlock_strings::with_causes;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// Errors that pass, whatever token is exchanged.
const PASSING: [&str; 3] = ["server_error", "slow_down", "temporarily_unavailable"];
/// Time for which a token is kept if the response names none.
const DEFAULT_LIFE: Duration = Duration::from_mins(5);
/// Longest time for which a token is kept. Rights that a user has lost at the authorization server end then.
const MAX_LIFE: Duration = Duration::from_hours(1);
/// Time before its end in which a token is not used any more; at most half its life.
const MARGIN: Duration = Duration::from_secs(30);
/// Exchanges of one server that run at the same time: callers bring the tokens, and each is a request elsewhere.
const MAX_EXCHANGING: usize = 8;
/// Time for which a call waits for the exchanges of others.
const WAIT: Duration = Duration::from_secs(5);

/// Reason that a caller's token is not exchanged. Nothing was sent to the server of the tool.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The authorization server refuses the caller's token, or its use for the server, with this error code.
    #[error("the authorization server does not exchange the caller's access token: {0}")]
    Refused(String),
    /// The authorization server refuses the client of the gateway: an operator has to act.
    #[error(
        "the authorization server refuses the client of the gateway ({0}); the operator has to correct `token_exchange`"
    )]
    Client(String),
    /// The response has no token that can be sent.
    #[error("the response to the exchange of the caller's access token {0}")]
    Unusable(&'static str),
    /// The exchange failed. A later one may succeed.
    #[error("the caller's access token was not exchanged")]
    Failed(#[source] Cause),
    /// An earlier exchange of the server failed a moment ago.
    #[error("the exchange of access tokens failed a moment ago: {0}")]
    Paused(String),
    /// Too many exchanges run.
    #[error("too many access tokens are being exchanged")]
    Busy,
}

/// A token of a server, for one user.
#[derive(Clone)]
pub struct ExchangedToken(Arc<TokenText>);

struct TokenText {
    text: Secret,
    header: HeaderValue,
    digest: [u8; 32],
}

impl ExchangedToken {
    /// Fails with the reason if the token cannot be sent.
    fn new(text: String) -> Result<Self, &'static str> {
        let header = HeaderValue::try_from(format!("Bearer {text}"));
        let mut header = header.map_err(|_| "has a token that fits no header")?;
        header.set_sensitive(true);
        let digest = Sha256::digest(&text).into();
        Ok(Self(Arc::new(TokenText { text: Secret::new(text), header, digest })))
    }

    /// Identifies the token among others.
    pub fn digest(&self) -> [u8; 32] {
        self.0.digest
    }

    /// Returns the value of the header `Authorization`.
    pub fn header(&self) -> &HeaderValue {
        &self.0.header
    }

    /// Returns the token itself.
    pub fn text(&self) -> &str {
        self.0.text.expose()
    }
}

/// Names an exchanged token: the user, the client, the server with the settings of the exchange, and the
/// caller's token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ExchangeKey {
    login: LoginId,
    subject: [u8; 32],
}

/// The exchanged tokens of all users at all servers. Cheap to clone.
#[derive(Clone)]
pub struct ExchangedTokens(Arc<ExchangeParts>);

struct ExchangeParts {
    kept: KeptOutcomes,
    /// Users whose tokens are exchanged at one server, one token at a time: calls of one user at once share
    /// the result, and many tokens of one user do not take the turns of others.
    users: KeyedPermits<LoginId>,
    clients: KeyedPermits<ClientName>,
}

impl Default for ExchangedTokens {
    fn default() -> Self {
        Self(Arc::new(ExchangeParts {
            kept: KeptOutcomes::default(),
            users: KeyedPermits::new(1),
            clients: KeyedPermits::new(MAX_EXCHANGING),
        }))
    }
}

/// Exchanges tokens for one server.
pub struct TokenExchanger {
    client: ClientName,
    server: String,
    settings: TokenExchange,
    /// Settings of the token endpoint. Their certificates are read for each exchange, so that renewed files
    /// are used.
    endpoint: HttpSettings,
    tokens: ExchangedTokens,
}

impl TokenExchanger {
    /// Creates the exchanger for a server; `None` if its callers have other credentials.
    /// Fails if credentials may not be sent to the server or the token endpoint. Reads no files.
    pub fn new(
        server: LoginServer<'_>,
        tokens: &ExchangedTokens,
    ) -> Result<Option<Self>, InvalidSettings> {
        let LoginServer { client, http } = server;
        let Some(exchange) = http.token_exchange() else { return Ok(None) };
        http.check_users()?;
        // The operator chooses the token endpoint, so it may be private although the server is not.
        let endpoint = HttpSettings {
            url: exchange.token_url.clone(),
            authorities: http.authorities.clone(),
            allow_private: http.allow_private,
            ..HttpSettings::default()
        };
        check_server(&endpoint)?;
        Ok(Some(Self {
            client: client.clone(),
            server: login_id(client, http).server,
            settings: exchange.clone(),
            endpoint,
            tokens: tokens.clone(),
        }))
    }

    /// Returns the token of a user for the server: a kept one, or one for which `subject`, the access token
    /// of the user, is exchanged now.
    pub async fn token(
        &self,
        user: OwnerId,
        subject: &Secret,
    ) -> Result<ExchangedToken, ExchangeError> {
        let key = self.key(user, subject);
        let ExchangeParts { kept, users, clients } = &*self.tokens.0;
        if let Some(known) = kept.find(&key) {
            return known;
        }
        let own_turn = timeout(WAIT, users.take(&key.login)).await;
        let _own_turn = own_turn.map_err(|_| ExchangeError::Busy)?;
        // Another call of the same user may have exchanged it meanwhile.
        if let Some(known) = kept.find(&key) {
            return known;
        }
        kept.check_pause(&self.client)?;
        let client_turn = timeout(WAIT, clients.take(&self.client)).await;
        let _client_turn = client_turn.map_err(|_| ExchangeError::Busy)?;
        kept.check_pause(&self.client)?;
        let begun = Instant::now();
        let exchanged = self.exchange(subject).await;
        self.record(key, begun, exchanged)
    }

    /// Forgets a token that the server refuses. Returns whether the caller's token is to be exchanged once
    /// more: not if the refused one is new.
    pub fn forget(&self, user: OwnerId, subject: &Secret, refused: &ExchangedToken) -> bool {
        self.tokens.0.kept.forget(&self.key(user, subject), refused.digest())
    }

    fn key(&self, user: OwnerId, subject: &Secret) -> ExchangeKey {
        let login = LoginId::of_operator(self.client.as_str(), self.server.clone()).of_holder(user);
        ExchangeKey { login, subject: Sha256::digest(subject.expose()).into() }
    }

    /// Sends the caller's token to the token endpoint. Returns the response.
    async fn exchange(&self, subject: &Secret) -> Result<Value, TokenError> {
        let outbound = Outbound::open(&self.endpoint).await?;
        let settings = &self.settings;
        let scopes = settings.scopes.join(" ");
        let mut grant = vec![
            ("grant_type", GRANT),
            ("subject_token", subject.expose()),
            ("subject_token_type", settings.subject_token_type.urn()),
            ("requested_token_type", ACCESS_TOKEN),
        ];
        if let Some(audience) = &settings.audience {
            grant.push(("audience", audience));
        }
        if !scopes.is_empty() {
            grant.push(("scope", &scopes));
        }
        let secret = settings.client_secret.as_ref();
        let method =
            if secret.is_some() { TokenAuthentication::Basic } else { TokenAuthentication::None };
        let client = UpstreamLogin {
            client_id: settings.client_id.clone(),
            client_secret: secret.map(|secret| secret.expose().to_owned()),
            authentication: method.name().to_owned(),
            token_endpoint: settings.token_url.clone(),
            resource: settings.resource.clone().unwrap_or_default(),
            ..UpstreamLogin::default()
        };
        post(&outbound, &client, &grant).await
    }

    /// Keeps the outcome of an exchange, and returns it. Only failures that no token of a caller can cause stop
    /// the exchanges of all.
    fn record(
        &self,
        key: ExchangeKey,
        begun: Instant,
        exchanged: Result<Value, TokenError>,
    ) -> Result<ExchangedToken, ExchangeError> {
        let client = &self.client;
        let kept = &self.tokens.0.kept;
        let error = match exchanged.map(|response| read(&response, key.subject)) {
            Ok(Ok((token, life))) => {
                kept.succeed(client);
                let until = begun + life.saturating_sub(MARGIN.min(life / 2));
                kept.keep(key, KeptOutcome::Token(token.clone()), until);
                return Ok(token);
            }
            Ok(Err(reason)) => return Err(self.unusable(key, reason)),
            Err(error) => error,
        };
        let failed = match error {
            TokenError::Refused(code) | TokenError::Status { code: Some(code), .. }
                if CLIENT_REFUSALS.contains(&&*code) =>
            {
                error!(%client, code, "an authorization server refuses the client of the gateway");
                ExchangeError::Client(code)
            }
            TokenError::Refused(code) => return Err(self.refused(key, code)),
            TokenError::Status { status, code } if is_about_token(status, code.as_deref()) => {
                let code = code.unwrap_or_else(|| format!("HTTP {status}"));
                return Err(self.refused(key, code));
            }
            TokenError::Unreadable => return Err(self.unusable(key, "is not JSON")),
            error => {
                warn!(%client, error = with_causes(&error), "an access token was not exchanged");
                ExchangeError::Failed(Cause::from(error))
            }
        };
        kept.pause(client, &failed);
        Err(failed)
    }

    /// Returns the error of a caller's token that the authorization server refuses, which is kept.
    fn refused(&self, key: ExchangeKey, code: String) -> ExchangeError {
        info!(client = %self.client, code, "an access token of a caller was not exchanged");
        self.tokens.0.kept.refuse(key, KeptOutcome::Refused(code.clone()));
        ExchangeError::Refused(code)
    }

    /// Returns the error of a caller's token for which there is no token that can be sent, which is kept.
    fn unusable(&self, key: ExchangeKey, reason: &'static str) -> ExchangeError {
        let error = ExchangeError::Unusable(reason);
        warn!(client = %self.client, %error, "an exchanged access token cannot be used");
        self.tokens.0.kept.refuse(key, KeptOutcome::Unusable(reason));
        error
    }
}

/// Returns whether an error response is about the request of one caller (RFC 8693, section 2.2.2).
/// Authorization servers send such errors with other statuses than 400 too.
fn is_about_token(status: StatusCode, code: Option<&str>) -> bool {
    let is_passing = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        || code.is_some_and(|code| PASSING.contains(&code));
    !status.is_server_error() && !is_passing
}

/// Reads the response of an exchange. Returns the token with its life. The caller's own token is none: it
/// would reach the server. Fails with the reason if there is no token that can be sent.
fn read(response: &Value, subject: [u8; 32]) -> Result<(ExchangedToken, Duration), &'static str> {
    let kind = response.get("issued_token_type").and_then(Value::as_str);
    if kind.is_some_and(|kind| kind != ACCESS_TOKEN && kind != JWT) {
        return Err("has a token that is no access token");
    }
    let tokens = Tokens::read(response).map_err(|error| error.reason())?;
    let (text, life) = tokens.into_access();
    let token = ExchangedToken::new(text)?;
    if token.digest() == subject {
        return Err("has the caller's own token");
    }
    Ok((token, life.unwrap_or(DEFAULT_LIFE).min(MAX_LIFE)))
}

#[cfg(test)]
mod tests;
