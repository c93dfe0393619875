//! Logins at an issuer on the loopback interface, which is hostile in most tests.

use std::sync::Arc;

use super::*;
use crate::{IdClaims, LoginAttempt, LoginClient, LoginError, LoginResponse, LoginSettings};

const METADATA: &str = "/.well-known/openid-configuration";
const TOKEN: &str = "/token";
const CLIENT: &str = "airlock";
const NONCE: &str = "the-nonce";
const REDIRECT: &str = "https://gw.example.com/api/session/callback";

/// A login client, with the issuer that it logs in at.
struct Desk {
    issuer: Issuer,
    client: Arc<LoginClient>,
    signer: Signer,
}

impl Desk {
    async fn new() -> Self {
        Self::with(json!({})).await
    }

    /// Starts an issuer with other members in its metadata.
    async fn with(changes: Value) -> Self {
        let signer = Signer::es256("a");
        let issuer = Issuer::start([("/keys", Page::keys(&[signer.jwk()]))]).await;
        let metadata = json!({
            "issuer": issuer.url(""),
            "authorization_endpoint": issuer.url("/authorize?tenant=t"),
            "token_endpoint": issuer.url(TOKEN),
            "jwks_uri": issuer.url("/keys"),
            "authorization_response_iss_parameter_supported": true,
        });
        issuer.set(METADATA, Page::json(merged(metadata, changes).to_string()));
        let client = Arc::new(client(&issuer.url("")));
        Self { issuer, client, signer }
    }

    /// Claims that are accepted at [`NOW`].
    fn claims(&self) -> Value {
        json!({
            "iss": self.issuer.url(""), "aud": CLIENT, "sub": "ann", "nonce": NONCE,
            "iat": NOW - 5, "exp": NOW + 300,
        })
    }

    fn token(&self, changes: Value) -> String {
        self.signer.token_with(json!({"typ": "JWT"}), &merged(self.claims(), changes))
    }

    async fn verify(&self, token: &str) -> Result<IdClaims, LoginError> {
        self.client.verify_at(token, NONCE, UNIX_EPOCH + Duration::from_secs(NOW)).await
    }

    /// Returns the reason that a token is refused for.
    async fn refusal(&self, token: &str) -> String {
        self.verify(token).await.expect_err("refused").to_string()
    }

    fn response(&self) -> LoginResponse {
        let issuer = Some(self.issuer.url(""));
        LoginResponse { code: Some("the-code".to_owned()), issuer, error: None }
    }

    async fn complete(&self, response: LoginResponse) -> Result<IdClaims, LoginError> {
        self.client.complete(&attempt(), response).await
    }
}

fn client(issuer: &str) -> LoginClient {
    // It fails if another test has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = LoginSettings {
        issuer: issuer.to_owned(),
        client_id: CLIENT.to_owned(),
        client_secret: Some(airlock_core::secret::Secret::new("hunter2")),
        scopes: vec!["openid".to_owned(), "email".to_owned()],
        clock_skew: Duration::from_mins(1),
    };
    LoginClient::new(settings, || reqwest::Client::builder().no_proxy()).expect("good settings")
}

fn attempt() -> LoginAttempt {
    LoginAttempt {
        redirect: REDIRECT.to_owned(),
        state: "the-state".to_owned(),
        nonce: NONCE.to_owned(),
        verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
    }
}

#[tokio::test]
async fn a_browser_is_sent_to_the_issuer_with_the_challenge_of_rfc_7636() {
    let desk = Desk::new().await;
    let url = desk.client.begin(&attempt()).await.expect("a URL").to_string();
    assert_eq!(
        url.replace(&desk.issuer.url(""), "ISSUER"),
        "ISSUER/authorize?tenant=t&response_type=code&client_id=airlock\
         &redirect_uri=https%3A%2F%2Fgw.example.com%2Fapi%2Fsession%2Fcallback\
         &scope=openid+email&state=the-state&nonce=the-nonce\
         &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
    );
    let fetches = desk.issuer.fetches();
    desk.client.begin(&attempt()).await.expect("a URL");
    assert_eq!(desk.issuer.fetches(), fetches, "the metadata is kept");
}

#[tokio::test]
async fn metadata_that_leads_elsewhere_is_refused() {
    for changes in [
        json!({"issuer": "https://other.example.com"}),
        json!({"authorization_endpoint": "http://10.0.0.1/authorize"}),
        json!({"authorization_endpoint": "javascript:alert(1)"}),
        json!({"authorization_endpoint": "https://idp.example.com/?redirect_uri=https://evil"}),
        json!({"authorization_endpoint": null}),
        json!({"token_endpoint": "http://idp.example.com/token"}),
        json!({"token_endpoint": 7}),
    ] {
        let desk = Desk::with(changes.clone()).await;
        let refused = desk.client.begin(&attempt()).await.expect_err("refused");
        assert!(matches!(refused, LoginError::Unavailable(_)), "{changes} {refused:?}");
        let fetches = desk.issuer.fetches();
        desk.client.begin(&attempt()).await.expect_err("refused");
        assert_eq!(desk.issuer.fetches(), fetches, "not asked again at once");
    }
}

#[tokio::test]
async fn the_claims_of_a_token_are_checked_for_this_login() {
    let desk = Desk::new().await;
    for good in [
        json!({}),
        json!({"aud": [CLIENT]}),
        json!({"aud": [CLIENT, "other"], "azp": CLIENT}),
        json!({"azp": CLIENT, "iat": NOW + 59, "exp": NOW - 59}),
    ] {
        let claims = desk.verify(&desk.token(good.clone())).await;
        assert_eq!(claims.expect("accepted").subject(), "ann", "{good}");
    }
    for (bad, reason) in [
        (json!({"iss": "https://other.example.com"}), "from another issuer"),
        (json!({"iss": null}), "`iss`"),
        (json!({"aud": "other"}), "another audience"),
        (json!({"aud": ["other", "airlock2"]}), "another audience"),
        (json!({"aud": null}), "`aud`"),
        (json!({"aud": [CLIENT, "other"]}), "`azp`"),
        (json!({"aud": [CLIENT, "other"], "azp": "other"}), "`azp`"),
        (json!({"azp": "other"}), "`azp`"),
        (json!({"exp": NOW - 60}), "expired"),
        (json!({"exp": null}), "`exp`"),
        (json!({"exp": "never"}), "`exp`"),
        (json!({"iat": NOW + 61}), "not valid yet"),
        (json!({"iat": NOW - 661}), "`iat`"),
        (json!({"iat": null}), "`iat`"),
        (json!({"nbf": NOW + 61}), "not valid yet"),
        (json!({"nonce": "another"}), "`nonce`"),
        (json!({"nonce": null}), "`nonce`"),
        (json!({"nonce": [NONCE]}), "`nonce`"),
        (json!({"sub": null}), "`sub`"),
        (json!({"sub": "a\u{0}"}), "`sub`"),
        (json!({"sub": "x".repeat(256)}), "`sub`"),
        (json!({"events": {}}), "another type"),
    ] {
        let found = desk.refusal(&desk.token(bad.clone())).await;
        assert!(found.contains(reason), "{bad}: {found}");
        assert!(!found.contains("other.example") && !found.contains("airlock2"), "{found}");
    }
}

#[tokio::test]
async fn a_token_must_be_signed_by_the_issuer_and_be_an_id_token() {
    let desk = Desk::new().await;
    let claims = desk.claims();
    let none =
        format!("{}.{}.", signer::encode(r#"{"alg":"none"}"#), signer::encode(claims.to_string()));
    let stranger = Signer::es256("a");
    for (token, reason) in [
        (none.clone(), "algorithm is not accepted"),
        (format!("{none}{}", signer::encode("x")), "algorithm is not accepted"),
        (desk.signer.token_with(json!({"alg": "HS256", "typ": "JWT"}), &claims), "algorithm"),
        (stranger.token_with(json!({"typ": "JWT"}), &claims), "signature is wrong"),
        (Signer::es256("b").token_with(json!({"typ": "JWT"}), &claims), "no single key"),
        (desk.signer.token(&claims), "another type"),
        (desk.signer.token_with(json!({"typ": "logout+jwt"}), &claims), "access token"),
        ("x".repeat((64 << 10) + 1), "longer than"),
        ("a.b".to_owned(), "not a signed"),
    ] {
        let found = desk.refusal(&token).await;
        assert!(found.contains(reason), "{found}");
    }
    let large = desk.token(json!({"groups": vec!["a group with a long name"; 1_000]}));
    assert!(large.len() > crate::MAX_TOKEN_BYTES && desk.verify(&large).await.is_ok());
}

#[tokio::test]
async fn an_email_address_counts_only_if_it_is_verified() {
    let desk = Desk::new().await;
    let email = "ann@example.com";
    for (verified, counts) in [
        (json!(true), true),
        (json!("true"), true),
        (json!(false), false),
        (json!("yes"), false),
        (json!(1), false),
        (json!(null), false),
    ] {
        let token = desk.token(json!({
            "email": email, "email_verified": verified, "groups": ["a", 7], "one": "a",
        }));
        let claims = desk.verify(&token).await.expect("accepted");
        assert_eq!(claims.verified_email().is_some(), counts, "{verified}");
        assert_eq!(claims.has("email", email), counts, "{verified}");
        assert!(claims.has("groups", "a") && claims.has("one", "a") && claims.has("sub", "ann"));
        assert!(!claims.has("groups", "7") && !claims.has("groups", "") && !claims.has("x", "a"));
        assert!(!format!("{claims:?}").contains(email));
    }
}

#[tokio::test]
async fn a_redirect_of_another_issuer_is_refused_before_its_code_is_sent() {
    let desk = Desk::new().await;
    for issuer in [None, Some("https://other.example.com".to_owned())] {
        for error in [None, Some("access_denied".to_owned())] {
            let response = LoginResponse { issuer: issuer.clone(), error, ..desk.response() };
            let refused = desk.complete(response).await;
            assert!(matches!(refused, Err(LoginError::OtherIssuer)), "{refused:?}");
        }
    }
    assert!(!desk.issuer.requests().contains(&TOKEN.to_owned()));
    let denied = LoginResponse { error: Some("access_denied\n".repeat(9)), ..desk.response() };
    let denied = desk.complete(denied).await.expect_err("denied").to_string();
    assert!(denied.contains("access_denied") && denied.len() < 120, "{denied}");
    let silent = Desk::with(json!({"authorization_response_iss_parameter_supported": null})).await;
    let response = LoginResponse { issuer: None, ..silent.response() };
    let refused = silent.complete(response).await;
    assert!(matches!(refused, Err(LoginError::Refused { .. })), "the code was sent: {refused:?}");
    let no_code = LoginResponse { code: None, ..desk.response() };
    assert!(matches!(desk.complete(no_code).await, Err(LoginError::NoCode)));
}

#[tokio::test]
async fn a_token_endpoint_gets_the_secret_and_is_not_followed_elsewhere() {
    let desk = Desk::new().await;
    for (page, reason) in [
        (Page::json(r#"{"access_token": "a"}"#), "no ID token"),
        (Page::json(r#"{"id_token": 7}"#), "no ID token"),
        (Page::json("["), "no ID token"),
        (Page::json(r#"{"id_token": "a", "id_token": "b"}"#), "no ID token"),
        (Page::json(r#"{"id_token": "a.b.c"}"#), "not a signed"),
        (Page::json(" ".repeat(crate::fetch::MAX_BODY_BYTES + 1)), "larger than"),
        (Page::Drips, "larger than"),
        (Page::HangsUp, "the request to the issuer failed"),
        (Page::redirect("/elsewhere"), "status 302"),
        (Page::status("500 Oh"), "status 500"),
    ] {
        desk.issuer.set(TOKEN, page);
        let refused = desk.complete(desk.response()).await.expect_err("refused").to_string();
        assert!(refused.contains(reason), "{refused}");
        assert!(!refused.contains("hunter2") && !refused.contains("the-code"), "{refused}");
    }
    assert!(!desk.issuer.requests().contains(&"/elsewhere".to_owned()));
    let heads = desk.issuer.heads().to_lowercase();
    // `airlock:hunter2`.
    assert!(heads.contains("authorization: basic ywlybg9jazpodw50zxiy"), "{heads}");
    assert!(!format!("{:?}", desk.client).contains("hunter2"));
}

#[tokio::test]
async fn an_issuer_that_hangs_ends_a_login_in_time() {
    let desk = Desk::new().await;
    desk.client.begin(&attempt()).await.expect("the metadata is known");
    desk.issuer.set(TOKEN, Page::IsSilent);
    let completing = tokio::spawn({
        let client = desk.client.clone();
        let response = desk.response();
        async move { client.complete(&attempt(), response).await }
    });
    until(|| desk.issuer.requests().contains(&TOKEN.to_owned())).await;
    pass(Duration::from_secs(10)).await;
    let refused = completing.await.expect("no panic");
    assert!(matches!(refused, Err(LoginError::Unavailable(_))), "{refused:?}");
}
