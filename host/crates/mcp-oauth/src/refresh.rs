//! Exchanges a refresh token for new tokens (RFC 6749, section 6).

use std::time::SystemTime;

use super::{
    outbound::Outbound,
    token_endpoint::{TokenError, request_tokens},
};
use airlock_store::login::UpstreamLogin;

/// Requests new tokens. Returns the login with them.
pub(super) async fn refresh(
    outbound: &Outbound,
    login: &UpstreamLogin,
    now: impl FnOnce() -> SystemTime,
) -> Result<UpstreamLogin, TokenError> {
    let refresh_token = login.refresh_token.as_deref().ok_or(TokenError::NoRefreshToken)?;
    let grant = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    let tokens = request_tokens(outbound, login, &grant).await?;
    Ok(tokens.into_login(login.clone(), now()))
}

#[cfg(test)]
mod tests {
    use airlock_test_http::{Answer, Server, ok, says};
    use base64::engine::{Engine as _, general_purpose::STANDARD};

    use super::{
        super::{settings::TokenAuthentication, tokens::tests::login},
        *,
    };
    use crate::http_settings::HttpSettings;

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
        insta::assert_snapshot!(error("200 OK", "no JSON").await, @"the response of the token endpoint is not JSON");
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
