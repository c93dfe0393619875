//! Logins of people at the issuer, with the gateway as an OIDC client: authorization code with
//! PKCE (OIDC Core 1.0, section 3.1; RFC 7636; RFC 9207).
//!
//! ```text
//! begin ─► URL of the issuer ─► (browser) ─► code ─► complete: token endpoint ─► ID token ─► claims
//! ```
//!
//! The caller makes the secrets of a login, keeps them, and compares the state of the redirect. Of the
//! response of the token endpoint only the ID token is read; an access token is not kept.
//!
//! | module | purpose |
//! |---|---|
//! | `settings` | the issuer and the client |
//! | `provider` | the endpoints of the issuer |
//! | `id_token` | the claims of an ID token |

mod id_token;
mod provider;
mod settings;

use std::time::{Duration, SystemTime};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::{HeaderValue, StatusCode, header};
use reqwest::{Client, ClientBuilder, RequestBuilder, redirect};
use tokio::time;
use url::{Url, form_urlencoded::byte_serialize};

pub use self::{id_token::IdClaims, settings::LoginSettings};
use self::{
    id_token::{ExpectedClaims, MAX_ID_TOKEN_BYTES},
    provider::{ClientAuthentication, LoginMetadata, ProviderCache},
};
use crate::{
    fetch::{FetchError, IssuerDocuments, KeySource, plain, read_body},
    json::{self, DOCUMENT_MEMORY},
    jws::Jws,
    key_cache::KeyCache,
    refusal::{InvalidToken, TokenRefusal},
    verified,
    verifier::VerifierError,
};

/// Time limit for the request to the token endpoint, with its response. Issuers ask other services
/// before they issue a token.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Secrets of one login, with the URL to which the issuer redirects its browser.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginAttempt {
    /// URL of the redirect, as the issuer knows it.
    pub redirect: String,
    /// Repeated by the redirect.
    pub state: String,
    /// Repeated by the ID token.
    pub nonce: String,
    /// Proof that a code belongs to this attempt (RFC 7636): 43 to 128 characters.
    pub verifier: String,
}

/// Parameters of a redirect whose state is that of an attempt.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LoginResponse {
    /// `code`.
    pub code: Option<String>,
    /// `iss`.
    pub issuer: Option<String>,
    /// `error`.
    pub error: Option<String>,
}

/// Reason that a login fails. It has no secret, and of the issuer's texts only codes and URLs.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The issuer cannot be used at present.
    #[error("the issuer cannot be used: {0}")]
    Unavailable(String),
    /// The issuer redirects with an error.
    #[error("the issuer refuses the login: {0:?}")]
    Denied(String),
    /// The redirect does not name this issuer, so it may be that of another one.
    #[error("the redirect does not name the issuer of this login")]
    OtherIssuer,
    /// The redirect has neither a code nor an error.
    #[error("the redirect has no code")]
    NoCode,
    /// The token endpoint issues no tokens.
    #[error("the token endpoint responds with status {status}, error {code:?}")]
    Refused {
        /// Status of its response.
        status: StatusCode,
        /// Error code; empty if there is none.
        code: String,
    },
    /// The response of the token endpoint has no ID token.
    #[error("the response of the token endpoint has no ID token")]
    NoIdToken,
    /// The ID token is not valid.
    #[error("the ID token is not valid: {0}")]
    Invalid(InvalidToken),
    /// The token is not an ID token.
    #[error("the ID token is declared as a token of another type")]
    OtherType,
    /// The ID token belongs to another login.
    #[error("the `nonce` of the ID token is not that of this login")]
    Nonce,
    /// The ID token was issued to another client.
    #[error("the `azp` of the ID token does not name this client")]
    OtherClient,
    /// The ID token was issued long before the login.
    #[error("the `iat` of the ID token is missing or long past")]
    Old,
}

impl From<InvalidToken> for LoginError {
    fn from(invalid: InvalidToken) -> Self {
        Self::Invalid(invalid)
    }
}

/// Client of an issuer, for logins. Nothing of a login is kept here.
pub struct LoginClient {
    settings: LoginSettings,
    provider: ProviderCache,
    keys: KeyCache,
    /// Client for the token endpoint. It follows no redirect: the request has a code and a secret.
    http: Client,
}

impl LoginClient {
    /// Creates a client. `builder` makes clients with the certificates and proxies for requests to the
    /// issuer. Nothing is fetched yet. Fails if the settings are unsafe.
    pub fn new(
        settings: LoginSettings,
        builder: impl Fn() -> ClientBuilder,
    ) -> Result<Self, VerifierError> {
        let issuer = settings.check()?;
        let http = plain(builder()).redirect(redirect::Policy::none()).build();
        Ok(Self {
            provider: ProviderCache::new(documents(&settings, &issuer, builder())?),
            keys: KeyCache::new(KeySource::new(documents(&settings, &issuer, builder())?, None)),
            http: http.map_err(VerifierError::Client)?,
            settings,
        })
    }

    /// The settings.
    pub fn settings(&self) -> &LoginSettings {
        &self.settings
    }

    /// Returns the URL to which the browser of a login is sent. Waits up to 5 seconds for the issuer's
    /// metadata.
    pub async fn begin(&self, attempt: &LoginAttempt) -> Result<Url, LoginError> {
        let provider = self.provider.current().await?;
        let mut url = provider.authorization_endpoint.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &attempt.redirect)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &attempt.state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &challenge(&attempt.verifier))
            .append_pair("code_challenge_method", "S256");
        Ok(url)
    }

    /// Exchanges the code of a redirect, whose state the caller has compared, and verifies the ID token.
    /// Waits up to 20 seconds for the issuer.
    pub async fn complete(
        &self,
        attempt: &LoginAttempt,
        response: LoginResponse,
    ) -> Result<IdClaims, LoginError> {
        let provider = self.provider.current().await?;
        // Also for an error: that of another issuer says nothing about this login.
        match &response.issuer {
            Some(issuer) if *issuer != self.settings.issuer => return Err(LoginError::OtherIssuer),
            None if provider.names_itself => return Err(LoginError::OtherIssuer),
            _ => {}
        }
        if let Some(error) = response.error {
            return Err(LoginError::Denied(code_text(&error)));
        }
        let code = response.code.filter(|code| !code.is_empty()).ok_or(LoginError::NoCode)?;
        let exchange = self.exchange(&provider, attempt, &code);
        let exchange = time::timeout(EXCHANGE_TIMEOUT, exchange).await;
        let token = exchange.unwrap_or_else(|_| Err(unavailable(&FetchError::Timeout)))?;
        self.verify_at(&token, &attempt.nonce, SystemTime::now()).await
    }

    /// Returns the ID token for a code.
    async fn exchange(
        &self,
        provider: &LoginMetadata,
        attempt: &LoginAttempt,
        code: &str,
    ) -> Result<String, LoginError> {
        let response = self.token_request(provider, attempt, code).send().await;
        let response =
            response.map_err(|error| unavailable(&FetchError::Transport(error.without_url())))?;
        let status = response.status();
        let body = read_body(response).await.map_err(|error| unavailable(&error))?;
        let document = json::object(&body, DOCUMENT_MEMORY).unwrap_or_default();
        if status != StatusCode::OK {
            let code = document.get("error").and_then(serde_json::Value::as_str);
            return Err(LoginError::Refused { status, code: code_text(code.unwrap_or_default()) });
        }
        let token = document.get("id_token").and_then(serde_json::Value::as_str);
        token.map(str::to_owned).ok_or(LoginError::NoIdToken)
    }

    fn token_request(
        &self,
        provider: &LoginMetadata,
        attempt: &LoginAttempt,
        code: &str,
    ) -> RequestBuilder {
        let LoginSettings { client_id, client_secret, .. } = &self.settings;
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &attempt.redirect)
            .append_pair("code_verifier", &attempt.verifier);
        let mut request = self.http.post(provider.token_endpoint.clone());
        match (client_secret, provider.authentication) {
            (Some(secret), ClientAuthentication::Basic) => {
                request = request.header(header::AUTHORIZATION, basic(client_id, secret.expose()));
            }
            (Some(secret), ClientAuthentication::Post) => {
                form.append_pair("client_id", client_id)
                    .append_pair("client_secret", secret.expose());
            }
            (None, _) => {
                form.append_pair("client_id", client_id);
            }
        }
        request
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(form.finish())
    }

    /// Verifies an ID token as of a given time.
    pub(crate) async fn verify_at(
        &self,
        token: &str,
        nonce: &str,
        now: SystemTime,
    ) -> Result<IdClaims, LoginError> {
        let jws = Jws::parse_within(token, MAX_ID_TOKEN_BYTES)?;
        self.keys.verify(&jws, &verified::digest(token)).await.map_err(
            |refusal| match refusal {
                TokenRefusal::Invalid(invalid) => LoginError::Invalid(invalid),
                other => LoginError::Unavailable(other.to_string()),
            },
        )?;
        let LoginSettings { issuer, client_id, clock_skew, .. } = &self.settings;
        let expected = ExpectedClaims { issuer, client_id, nonce, clock_skew: *clock_skew };
        id_token::check(&jws, &expected, now)
    }
}

airlock_strings::debug_fields!(LoginClient { settings });

fn documents(
    settings: &LoginSettings,
    issuer: &Url,
    builder: ClientBuilder,
) -> Result<IssuerDocuments, VerifierError> {
    let documents = IssuerDocuments::new(&settings.issuer, issuer.clone(), builder);
    documents.map_err(VerifierError::Client)
}

/// Returns the challenge of a verifier (RFC 7636, section 4.2).
fn challenge(verifier: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
    URL_SAFE_NO_PAD.encode(digest)
}

/// Returns the credentials of a client in the header (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> HeaderValue {
    let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).expect("Base64 is header text");
    value.set_sensitive(true);
    value
}

fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// Returns an error code of the issuer for a message: its first characters, without those that no code has
/// (RFC 6749, section 4.1.2.1).
fn code_text(code: &str) -> String {
    code.chars().filter(|c| matches!(c, ' '..='~')).take(airlock_strings::MAX_WORD_BYTES).collect()
}

fn unavailable(error: &FetchError) -> LoginError {
    LoginError::Unavailable(airlock_strings::with_causes(error))
}
