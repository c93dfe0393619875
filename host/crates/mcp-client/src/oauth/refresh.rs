//! Exchanges a refresh token for new tokens (RFC 6749, section 6).

use std::time::SystemTime;

use base64::engine::{Engine as _, general_purpose::STANDARD};
use http::{HeaderValue, Request, header};
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::{
    outbound::{Outbound, OutboundError},
    settings::TokenAuthentication,
    tokens::{BadTokens, Tokens, error_code},
};
use airlock_store::login::UpstreamLogin;

/// Errors after which no further attempt can succeed.
const FINAL: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];

/// Reason that there are no new tokens.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefreshError {
    /// The login has no refresh token.
    #[error("the login has no refresh token")]
    NoRefreshToken,
    /// The authorization server refuses the refresh token or the client for good.
    #[error("the authorization server refuses it: {0}")]
    Refused(String),
    /// The authorization server does not issue tokens at present.
    #[error("the authorization server responds with HTTP {status}{code}")]
    Status {
        /// The status.
        status: http::StatusCode,
        /// The error code after a space, if the response has one.
        code: String,
    },
    /// The stored login cannot be used by this version.
    #[error("the stored login cannot be used")]
    Unusable,
    /// The request failed.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    /// The response cannot be read.
    #[error("the response of the token endpoint is no JSON")]
    Unreadable,
    /// The response has no tokens.
    #[error(transparent)]
    Tokens(#[from] BadTokens),
}

/// Requests new tokens. Returns the login with them.
pub(super) async fn refresh(
    outbound: &Outbound,
    login: &UpstreamLogin,
    now: impl FnOnce() -> SystemTime,
) -> Result<UpstreamLogin, RefreshError> {
    let response = outbound.send(request(login)?).await?;
    let status = response.status();
    let body: Option<Value> = serde_json::from_slice(response.body()).ok();
    if !status.is_success() {
        return Err(refusal(status, body.as_ref()));
    }
    let tokens = Tokens::read(&body.ok_or(RefreshError::Unreadable)?)?;
    Ok(tokens.into_login(login.clone(), now()))
}

fn request(login: &UpstreamLogin) -> Result<Request<Vec<u8>>, RefreshError> {
    let refresh_token = login.refresh_token.as_deref().ok_or(RefreshError::NoRefreshToken)?;
    let method = TokenAuthentication::find(&login.authentication).ok_or(RefreshError::Unusable)?;
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", refresh_token);
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
    request.body(form.finish().into_bytes()).map_err(|_| RefreshError::Unusable)
}

/// Returns the credentials in the header of a client with a secret.
pub(super) fn basic_pair(id: &str, secret: &str) -> String {
    STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)))
}

fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// Returns the header of a client with a secret (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> Result<HeaderValue, RefreshError> {
    let value = HeaderValue::try_from(format!("Basic {}", basic_pair(id, secret)));
    let mut value = value.map_err(|_| RefreshError::Unusable)?;
    value.set_sensitive(true);
    Ok(value)
}

fn refusal(status: http::StatusCode, body: Option<&Value>) -> RefreshError {
    match body.and_then(error_code) {
        Some(code) if FINAL.contains(&code) => RefreshError::Refused(code.to_owned()),
        code => {
            let code = code.map(|code| format!(" {code}")).unwrap_or_default();
            RefreshError::Status { status, code }
        }
    }
}

#[cfg(test)]
mod tests {
    use airlock_test_http::{Answer, Server, ok, says};

    use super::{super::tokens::tests::login, *};
    use crate::HttpSettings;

    const NEW: &str = r#"{"access_token": "new", "token_type": "Bearer"}"#;

    /// Refreshes a login at a server with this response. Returns the result and the request.
    async fn refreshed(
        answer: impl Fn() -> Answer + Send + Sync + 'static,
        change: impl FnOnce(&mut UpstreamLogin),
    ) -> (Result<UpstreamLogin, String>, String) {
        let server = Server::start(move |_| answer()).await;
        let url = server.url("127.0.0.1", "/token");
        let mut login = UpstreamLogin { token_endpoint: url.clone(), ..login("old") };
        change(&mut login);
        let outbound = Outbound::new(&HttpSettings::new(url)).expect("good settings");
        let refreshed = refresh(&outbound, &login, SystemTime::now).await;
        let request = server.requests().pop().unwrap_or_default();
        (refreshed.map_err(|error| error.to_string()), request)
    }

    #[tokio::test]
    async fn a_client_authenticates_itself_as_its_login_says() {
        let body = "grant_type=refresh_token&refresh_token=old-refresh&resource=https%3A%2F%2Fmcp.example.com";
        let (done, sent) = refreshed(|| ok(NEW), |_| ()).await;
        let done = done.expect("refreshed");
        assert_eq!(
            (&*done.access_token, done.refresh_token.as_deref()),
            ("new", Some("old-refresh"))
        );
        assert!(sent.ends_with(&format!("\r\n\r\n{body}&client_id=id")), "{sent}");
        let (_, sent) =
            refreshed(|| ok(NEW), |login| add_secret(login, TokenAuthentication::Post)).await;
        assert!(sent.ends_with(&format!("{body}&client_id=id&client_secret=a%3Ab")), "{sent}");
        let (_, sent) =
            refreshed(|| ok(NEW), |login| add_secret(login, TokenAuthentication::Basic)).await;
        let header = format!("authorization: Basic {}\r\n", STANDARD.encode("id:a%3Ab"));
        assert!(sent.contains(&header) && sent.ends_with(&format!("\r\n\r\n{body}")), "{sent}");
    }

    fn add_secret(login: &mut UpstreamLogin, method: TokenAuthentication) {
        login.client_secret = Some("a:b".to_owned());
        login.authentication = method.name().to_owned();
    }

    #[tokio::test]
    async fn a_final_refusal_is_told_from_a_failure_that_passes() {
        insta::assert_snapshot!(error("400 Bad Request", r#"{"error": "invalid_grant"}"#).await, @"the authorization server refuses it: invalid_grant");
        insta::assert_snapshot!(error("401 Unauthorized", r#"{"error": "invalid_client"}"#).await, @"the authorization server refuses it: invalid_client");
        insta::assert_snapshot!(error("503 Service Unavailable", "old-refresh").await, @"the authorization server responds with HTTP 503 Service Unavailable");
        insta::assert_snapshot!(error("429 Slow", r#"{"error": "slow_down"}"#).await, @"the authorization server responds with HTTP 429 Too Many Requests slow_down");
        insta::assert_snapshot!(error("400 Bad Request", r#"{"error": "Echo old-refresh"}"#).await, @"the authorization server responds with HTTP 400 Bad Request");
        insta::assert_snapshot!(error("200 OK", "no JSON").await, @"the response of the token endpoint is no JSON");
        insta::assert_snapshot!(error("307 Elsewhere", "").await, @"the authorization server responds with HTTP 307 Temporary Redirect");
    }

    async fn error(status: &'static str, body: &'static str) -> String {
        let (refreshed, _) = refreshed(move || says(status, "", body), |_| ()).await;
        refreshed.expect_err("refused")
    }

    #[tokio::test]
    async fn a_login_without_a_refresh_token_sends_nothing() {
        let (done, sent) = refreshed(|| ok(NEW), |login| login.refresh_token = None).await;
        assert_eq!((done, sent), (Err("the login has no refresh token".to_owned()), String::new()));
        let odd = "private_key_jwt".to_owned();
        let (done, sent) = refreshed(|| ok(NEW), |login| login.authentication = odd).await;
        assert_eq!(
            (done, sent),
            (Err("the stored login cannot be used".to_owned()), String::new())
        );
    }
}
