//! Discovery of the key set of an issuer, and the places to which its responses may lead.

use super::*;

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OIDC: &str = "/.well-known/openid-configuration";

/// Verifies a token of an issuer at `path` of a server with these pages. The pages may contain
/// `ISSUER`, the issuer's identifier, and `ORIGIN`, that of the server.
async fn discover<const N: usize>(
    path: &str,
    pages: [(&str, &str); N],
) -> (Result<Principal, TokenRefusal>, Vec<String>) {
    let signer = Signer::es256("a");
    let issuer = Issuer::start([("/keys", Page::keys(&[signer.jwk()]))]).await;
    let identifier = issuer.url(path);
    for (path, body) in pages {
        let body = body.replace("ISSUER", &identifier).replace("ORIGIN", &issuer.url(""));
        issuer.set(path, Page::json(body));
    }
    let mut settings = settings();
    settings.issuer.clone_from(&identifier);
    let token = signer.token(&claims_with(json!({ "iss": identifier })));
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    (verifier(settings).verify_at(&token, None, now).await, issuer.requests())
}

const GOOD: &str = r#"{"issuer":"ISSUER","jwks_uri":"ORIGIN/keys"}"#;

#[tokio::test]
async fn metadata_of_oauth_comes_before_that_of_openid() {
    let (outcome, requests) = discover("", [(OAUTH, GOOD), (OIDC, "{}")]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(requests, [OAUTH, "/keys"]);
}

#[tokio::test]
async fn metadata_of_openid_is_used_if_there_is_no_other() {
    let (outcome, requests) = discover("", [(OIDC, GOOD)]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(requests, [OAUTH, OIDC, "/keys"]);
}

#[tokio::test]
async fn an_issuer_with_a_path_is_found_in_each_place() {
    for path in [
        "/.well-known/oauth-authorization-server/realms/a",
        "/.well-known/openid-configuration/realms/a",
        "/realms/a/.well-known/openid-configuration",
    ] {
        let (outcome, requests) = discover("/realms/a", [(path, GOOD)]).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(requests.last().map(String::as_str), Some("/keys"));
    }
}

#[tokio::test]
async fn metadata_of_another_issuer_is_not_used() {
    for document in [
        r#"{"issuer":"ISSUER/","jwks_uri":"ORIGIN/keys"}"#,
        r#"{"issuer":"https://idp.example.com","jwks_uri":"ORIGIN/keys"}"#,
        r#"{"issuer":["ISSUER"],"jwks_uri":"ORIGIN/keys"}"#,
        r#"{"jwks_uri":"ORIGIN/keys"}"#,
        r#"{"issuer":"https://idp.example.com","issuer":"ISSUER","jwks_uri":"ORIGIN/keys"}"#,
    ] {
        let (outcome, requests) = discover("", [(OAUTH, document), (OIDC, document)]).await;
        assert!(matches!(outcome, Err(TokenRefusal::Unavailable { .. })), "{document}");
        assert_eq!(requests, [OAUTH, OIDC]);
    }
}

#[tokio::test]
async fn keys_are_not_fetched_from_an_unsafe_address() {
    for jwks_uri in [
        r#""http://keys.example.com/""#,
        r#""http://169.254.169.254/keys""#,
        r#""file:///etc/passwd""#,
        r#""/keys""#,
        r#""""#,
        "null",
        "7",
        r#"["ORIGIN/keys"]"#,
        r#""http://user:pass@localhost/keys""#,
    ] {
        let document = format!(r#"{{"issuer":"ISSUER","jwks_uri":{jwks_uri}}}"#);
        let (outcome, requests) = discover("", [(OAUTH, &document)]).await;
        assert!(matches!(outcome, Err(TokenRefusal::Unavailable { .. })), "{jwks_uri}");
        assert_eq!(requests, [OAUTH, OIDC]);
    }
}

#[tokio::test]
async fn an_issuer_that_closes_the_connection_is_not_asked_for_other_documents() {
    let issuer = Issuer::start([(OAUTH, Page::HangsUp)]).await;
    let signer = Signer::es256("a");
    let mut settings = settings();
    settings.issuer = issuer.url("");
    let verifier = verifier(settings);
    let outcome = verifier.verify(&signer.token(&claims()), None).await;
    assert!(matches!(outcome, Err(TokenRefusal::Unavailable { .. })));
    assert_eq!(issuer.requests(), [OAUTH]);
}

#[test]
fn an_issuer_on_https_cannot_lead_to_http_on_this_machine() {
    // The test has no certificates, so it asks the rule and not a server.
    assert!(crate::endpoint::endpoint("http://localhost/keys").is_some());
    for (issuer, jwks_uri, accepted) in [
        ("https://idp.example.com", "http://localhost/keys", false),
        ("https://idp.example.com", "https://keys.example.com/", true),
        ("http://localhost:1", "http://localhost/keys", true),
    ] {
        let issuer = url::Url::parse(issuer).expect("a URL");
        let found = crate::fetch::named_url(&issuer, &json!(jwks_uri));
        assert_eq!(found.is_some(), accepted, "{jwks_uri}");
    }
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_three_times() {
    let signer = Signer::es256("a");
    let token = signer.token(&claims());
    for (redirects, accepted) in [(1, true), (3, true), (4, false)] {
        let gate = Gate::new(&[]).await;
        gate.issuer.set("/keys", Page::redirect("/1"));
        for number in 1..redirects {
            gate.issuer.set(&format!("/{number}"), Page::redirect(&format!("/{}", number + 1)));
        }
        gate.issuer.set(&format!("/{redirects}"), Page::keys(&[signer.jwk()]));
        assert_eq!(gate.verify(&token).await.is_ok(), accepted, "{redirects}");
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_not_followed() {
    let signer = Signer::es256("a");
    let token = signer.token(&claims());
    let elsewhere = Issuer::start([("/keys", Page::keys(&[signer.jwk()]))]).await;
    let gate = Gate::new(&[]).await;
    let other_host = gate.issuer.url("/real").replace("127.0.0.1", "localhost");
    gate.issuer.set("/real", Page::keys(&[signer.jwk()]));
    // Directly, and after a redirect that is followed.
    gate.issuer.set("/hop", Page::redirect(&elsewhere.url("/keys")));
    for location in [&elsewhere.url("/keys"), &other_host, "/hop", "file:///etc/passwd"] {
        gate.issuer.set("/keys", Page::redirect(location));
        let outcome = gate.verify(&token).await;
        assert!(matches!(outcome, Err(TokenRefusal::Unavailable { .. })), "{location}");
        pass(crate::key_cache::PAUSE_WITHOUT_KEYS).await;
    }
    assert_eq!(elsewhere.fetches(), 0);
    assert!(!gate.issuer.requests().contains(&"/real".to_owned()));
}
