//! Tests with a token endpoint.

use airlock_test_http::{Answer, Server, ok, says};
use futures_util::{FutureExt as _, future::join_all};
use serde_json::json;

use super::*;
use crate::{http_settings::UserCredentials, settings::SubjectTokenType};
use airlock_tls::Authorities;

const ANN: OwnerId = [1; 32];
const BOB: OwnerId = [2; 32];

struct World {
    issuer: Server,
    tokens: ExchangedTokens,
}

impl World {
    async fn new(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let issuer = Server::start_by_request(answer).await;
        Self { issuer, tokens: ExchangedTokens::default() }
    }

    fn exchanger(&self, client: &str, audience: &str) -> TokenExchanger {
        let exchange = exchange(self.issuer.url("127.0.0.1", "/token"), audience);
        // The server is public, and the token endpoint is not.
        let created = create(client, "https://mcp.example.com/mcp", exchange, &self.tokens);
        created.expect("good").expect("it exchanges")
    }

    fn asked(&self) -> usize {
        self.issuer.requests().len()
    }
}

fn exchange(token_url: String, audience: &str) -> TokenExchange {
    TokenExchange {
        token_url,
        client_id: "gateway".to_owned(),
        client_secret: Some(Secret::new("s3cret-of-gateway")),
        audience: Some(audience.to_owned()),
        resource: None,
        scopes: vec!["read".to_owned()],
        subject_token_type: SubjectTokenType::default(),
    }
}

fn create(
    client: &str,
    url: &str,
    exchange: TokenExchange,
    tokens: &ExchangedTokens,
) -> Result<Option<TokenExchanger>, InvalidSettings> {
    let http =
        HttpSettings { users: Some(UserCredentials::Exchange(exchange)), ..HttpSettings::new(url) };
    let client = ClientName::parse(client).expect("a good name");
    TokenExchanger::new(LoginServer { client: &client, http: &http }, tokens)
}

fn issued(token: &str, life: u64) -> Answer {
    let response = json!({
        "access_token": token, "token_type": "Bearer", "expires_in": life,
        "issued_token_type": ACCESS_TOKEN, "refresh_token": "dropped",
    });
    ok(&response.to_string())
}

/// Issues a token that names the caller's.
fn named(request: &str) -> Answer {
    let (_, rest) = request.split_once("subject_token=").expect("a token");
    issued(&format!("for-{}", rest.split('&').next().expect("its end")), 600)
}

async fn token(exchanger: &TokenExchanger, user: OwnerId, subject: &str) -> String {
    match exchanger.token(user, &Secret::new(subject)).await {
        Ok(token) => token.text().to_owned(),
        Err(error) => with_causes(&error),
    }
}

#[tokio::test]
async fn a_token_is_exchanged_once_for_each_user_server_and_token_of_the_caller() {
    let world = World::new(named).await;
    let up = world.exchanger("up", "a");
    let at_once = join_all((0..8).map(|_| token(&up, ANN, "ann-1"))).await;
    assert!(at_once.iter().all(|token| token == "for-ann-1"), "{at_once:?}");
    assert_eq!(world.asked(), 1);
    let sent = world.issuer.requests().remove(0);
    for part in [
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=ann-1&",
        "&audience=a&scope=read",
        "authorization: Basic ",
    ] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert_eq!(token(&up, BOB, "bob-1").await, "for-bob-1");
    assert_eq!(token(&up, ANN, "ann-2").await, "for-ann-2", "a renewed token of the caller");
    // Equal tokens of two users are never shared.
    assert_eq!(token(&up, BOB, "ann-1").await, "for-ann-1");
    assert_eq!(world.asked(), 4);
    for other in [world.exchanger("other", "a"), world.exchanger("up", "b")] {
        token(&other, ANN, "ann-1").await;
    }
    assert_eq!(world.asked(), 6);
}

#[tokio::test]
async fn a_token_that_the_server_refuses_is_exchanged_again_unless_it_is_new() {
    let world = World::new(named).await;
    let up = world.exchanger("up", "a");
    let subject = Secret::new("ann");
    let refused = up.token(ANN, &subject).await.expect("exchanged");
    assert!(!up.forget(ANN, &subject, &refused));
    up.token(ANN, &subject).await.expect("kept");
    assert_eq!(world.asked(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    assert!(up.forget(BOB, &subject, &refused), "another user has none");
    assert!(up.forget(ANN, &subject, &refused));
    tokio::time::resume();
    up.token(ANN, &subject).await.expect("exchanged");
    assert_eq!(world.asked(), 2);
}

#[tokio::test]
async fn a_token_is_not_used_beyond_its_end() {
    let world = World::new(|_| issued("short-token", 1)).await;
    let up = world.exchanger("up", "a");
    token(&up, ANN, "ann").await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(500)).await;
    tokio::time::resume();
    token(&up, ANN, "ann").await;
    assert_eq!(world.asked(), 2);
}

#[tokio::test]
async fn a_refused_token_of_one_caller_is_not_sent_again_at_once_and_holds_up_no_other() {
    let world = World::new(|request| {
        if request.contains("subject_token=bad") {
            says("400 Bad Request", "", r#"{"error": "invalid_grant"}"#)
        } else {
            named(request)
        }
    })
    .await;
    let up = world.exchanger("up", "a");
    for _ in 0..3 {
        assert_eq!(
            token(&up, ANN, "bad").await,
            "the authorization server does not exchange the caller's access token: invalid_grant"
        );
    }
    assert_eq!(world.asked(), 1);
    assert_eq!(token(&up, BOB, "bob").await, "for-bob");
}

#[tokio::test]
async fn a_failure_that_one_token_causes_is_kept_for_it_and_holds_up_no_other() {
    let unusable = r#"{"access_token": "bad", "token_type": "Bearer"}"#;
    for (status, body, expected) in [
        (
            "403 Forbidden",
            r#"{"error": "access_denied"}"#,
            "the authorization server does not exchange the caller's access token: access_denied",
        ),
        (
            "403 Forbidden",
            "",
            "the authorization server does not exchange the caller's access token: HTTP 403 Forbidden",
        ),
        (
            "200 OK",
            unusable,
            "the response to the exchange of the caller's access token has the caller's own token",
        ),
        (
            "200 OK",
            "<html>",
            "the response to the exchange of the caller's access token is not JSON",
        ),
    ] {
        let world = World::new(move |request| {
            if request.contains("subject_token=bad") {
                says(status, "", body)
            } else {
                named(request)
            }
        })
        .await;
        let up = world.exchanger("up", "a");
        assert_eq!(token(&up, ANN, "bad").await, expected);
        assert_eq!(token(&up, BOB, "bob").await, "for-bob");
        assert_eq!(token(&up, ANN, "bad").await, expected);
        assert_eq!(world.asked(), 2, "it is not asked for again");
    }
}

#[tokio::test]
async fn many_tokens_of_one_user_are_exchanged_one_after_the_other_and_delay_no_other_user() {
    let world = World::new(|request| {
        if request.contains("subject_token=slow") { Answer::IsSilent } else { named(request) }
    })
    .await;
    let up = world.exchanger("up", "a");
    let slow: Vec<_> = (0..=MAX_EXCHANGING).map(|number| format!("slow-{number}")).collect();
    let mut waiting = Box::pin(join_all(slow.iter().map(|subject| token(&up, ANN, subject))));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(token(&up, BOB, "bob").await, "for-bob");
}

#[test]
fn no_token_is_sent_over_plain_http_to_a_public_server() {
    for (url, token_url, is_good) in [
        ("https://mcp.example.com/mcp", "https://as.example.com/token", true),
        ("http://127.0.0.1/mcp", "http://127.0.0.1/token", true),
        ("http://mcp.example.com/mcp", "https://as.example.com/token", false),
        ("https://mcp.example.com/mcp", "http://as.example.com/token", false),
    ] {
        let exchange = exchange(token_url.to_owned(), "a");
        let created = create("up", url, exchange, &ExchangedTokens::default());
        assert_eq!(created.is_ok(), is_good, "{url} {token_url}");
    }
}

#[tokio::test]
async fn certificates_are_read_for_each_exchange() {
    let world = World::new(named).await;
    let home = tempfile::tempdir().expect("a directory");
    let mut up = world.exchanger("up", "a");
    up.endpoint.authorities = Authorities::File(home.path().join("ca.pem"));
    let failed = token(&up, ANN, "ann").await;
    assert!(failed.contains("`tls_config.ca_file` cannot be used"), "{failed}");
    assert_eq!(world.asked(), 0);
}

#[tokio::test]
async fn an_authorization_server_that_fails_is_left_alone_for_a_while() {
    for (status, body, expected) in [
        (
            "429 Slow",
            r#"{"error": "invalid_request"}"#,
            "the caller's access token was not exchanged: the authorization server responds with HTTP 429 Too Many Requests invalid_request",
        ),
        (
            "503 Down",
            "",
            "the caller's access token was not exchanged: the authorization server responds with HTTP 503 Service Unavailable",
        ),
        (
            "400 Bad",
            r#"{"error": "temporarily_unavailable"}"#,
            "the caller's access token was not exchanged: the authorization server responds with HTTP 400 Bad Request temporarily_unavailable",
        ),
        (
            "401 No",
            r#"{"error": "invalid_client"}"#,
            "the authorization server refuses the client of the gateway (invalid_client); the operator has to correct `token_exchange`",
        ),
    ] {
        let world = World::new(move |_| says(status, "", body)).await;
        let up = world.exchanger("up", "a");
        assert_eq!(token(&up, ANN, "ann").await, expected);
        let paused = token(&up, BOB, "bob").await;
        assert!(
            paused.starts_with("the exchange of access tokens failed a moment ago"),
            "{paused}"
        );
        assert_eq!(world.asked(), 1);
    }
}

#[tokio::test]
async fn a_response_without_a_token_for_the_server_is_not_used() {
    for response in [
        json!({"access_token": "ann", "token_type": "Bearer"}),
        json!({"access_token": "a", "token_type": "N_A"}),
        json!({"access_token": "a b", "token_type": "Bearer"}),
        json!({"access_token": "a", "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:id_token"}),
        json!({"token_type": "Bearer"}),
    ] {
        let text = response.to_string();
        let world = World::new(move |_| ok(&text)).await;
        let found = token(&world.exchanger("up", "a"), ANN, "ann").await;
        assert!(found.starts_with("the response to the exchange"), "{response}: {found}");
    }
}

#[tokio::test]
async fn one_user_has_a_bounded_number_of_kept_tokens() {
    let world = World::new(named).await;
    let up = world.exchanger("up", "a");
    token(&up, BOB, "bob").await;
    for number in 0..9 {
        token(&up, ANN, &format!("ann-{number}")).await;
    }
    assert_eq!(world.asked(), 10);
    token(&up, BOB, "bob").await;
    token(&up, ANN, "ann-8").await;
    assert_eq!(world.asked(), 10, "they are kept");
    token(&up, ANN, "ann-0").await;
    assert_eq!(world.asked(), 11);
}
