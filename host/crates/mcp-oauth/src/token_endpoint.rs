//! Requests to a token endpoint, with the authentication of the client of a login (RFC 6749, sections
//! 2.3.1 and 5).

use base64::engine::{Engine as _, general_purpose::STANDARD};
use http::{HeaderValue, Request, header};
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::{
    http_settings::InvalidSettings,
    outbound::{Outbound, OutboundError},
    settings::TokenAuthentication,
    tokens::{BadTokens, Tokens, error_code},
};
use airlock_store::login::UpstreamLogin;

/// Error that is about the grant, after which no further attempt with it can succeed.
pub(super) const INVALID_GRANT: &str = "invalid_grant";
/// Errors that are about the client, whatever the grant is.
pub(super) const CLIENT_REFUSALS: [&str; 2] = ["invalid_client", "unauthorized_client"];

/// Reason that there are no tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The login has no refresh token.
    #[error("the login has no refresh token")]
    NoRefreshToken,
    /// The authorization server refuses the grant or the client for good.
    #[error("the authorization server refuses it: {0}")]
    Refused(String),
    /// The authorization server issues no tokens: at present, or for this request.
    #[error("the authorization server responds with HTTP {status}{}", spaced(code.as_deref()))]
    Status {
        /// The status.
        status: http::StatusCode,
        /// The error code, if the response has one.
        code: Option<String>,
    },
    /// The stored login cannot be used by this version.
    #[error("the stored login cannot be used")]
    Unusable,
    /// The settings of the token endpoint cannot be used.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// The request failed.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    /// The response cannot be read.
    #[error("the response of the token endpoint is not JSON")]
    Unreadable,
    /// The response has no tokens.
    #[error(transparent)]
    Tokens(#[from] BadTokens),
}

fn spaced(code: Option<&str>) -> String {
    code.map(|code| format!(" {code}")).unwrap_or_default()
}

/// Requests tokens for a grant, as the client of `login`, for its resource.
pub(super) async fn request_tokens(
    outbound: &Outbound,
    login: &UpstreamLogin,
    grant: &[(&str, &str)],
) -> Result<Tokens, TokenError> {
    Ok(Tokens::read(&post(outbound, login, grant).await?)?)
}

/// Sends a request for a grant, as the client of `login`, for its resource. Returns the response.
pub(super) async fn post(
    outbound: &Outbound,
    login: &UpstreamLogin,
    grant: &[(&str, &str)],
) -> Result<Value, TokenError> {
    let response = outbound.send(request(login, grant)?).await?;
    let status = response.status();
    let body: Option<Value> = serde_json::from_slice(response.body()).ok();
    if !status.is_success() {
        return Err(refusal(status, body.as_ref()));
    }
    body.ok_or(TokenError::Unreadable)
}

fn request(login: &UpstreamLogin, grant: &[(&str, &str)]) -> Result<Request<Vec<u8>>, TokenError> {
    let method = TokenAuthentication::find(&login.authentication).ok_or(TokenError::Unusable)?;
    let mut form = Serializer::new(String::new());
    form.extend_pairs(grant);
    if !login.resource.is_empty() {
        form.append_pair("resource", &login.resource);
    }
    let mut request = Request::post(&login.token_endpoint)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "application/json");
    let secret = login.client_secret.as_deref();
    match (method, secret) {
        (TokenAuthentication::Basic, Some(secret)) => {
            request = request.header(header::AUTHORIZATION, basic(&login.client_id, secret)?);
        }
        (TokenAuthentication::Post, Some(secret)) => {
            form.append_pair("client_id", &login.client_id).append_pair("client_secret", secret);
        }
        _ => {
            form.append_pair("client_id", &login.client_id);
        }
    }
    request.body(form.finish().into_bytes()).map_err(|_| TokenError::Unusable)
}

/// Returns the credentials in the header of a client with a secret.
pub(super) fn basic_pair(id: &str, secret: &str) -> String {
    STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)))
}

fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// Returns the header of a client with a secret (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> Result<HeaderValue, TokenError> {
    let value = HeaderValue::try_from(format!("Basic {}", basic_pair(id, secret)));
    let mut value = value.map_err(|_| TokenError::Unusable)?;
    value.set_sensitive(true);
    Ok(value)
}

fn refusal(status: http::StatusCode, body: Option<&Value>) -> TokenError {
    match body.and_then(error_code) {
        Some(code) if code == INVALID_GRANT || CLIENT_REFUSALS.contains(&code) => {
            TokenError::Refused(code.to_owned())
        }
        code => TokenError::Status { status, code: code.map(str::to_owned) },
    }
}
