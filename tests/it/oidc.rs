//! Operators who log in with a browser at a real OIDC provider.

mod browser;
mod provider;

use std::time::{Duration, Instant};

use airlock_test_http::{Answer, Server};
use airlock_test_postgres::TestDatabase;
use airlock_tests::{Client, Gateway, OPERATOR, Reply, Setup, guests, wait};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use self::{browser::Browser, provider::Provider};
use crate::records::events;

const SESSION: &str = "/api/session";
const KEYS: &str = "/api/governance/virtual-keys";

fn setup(provider: &Provider) -> Setup {
    Setup::new().set("/management/oidc", provider.settings())
}

async fn serve() -> (Provider, Gateway) {
    let mut provider = Provider::start().await;
    let gateway = setup(&provider).serve().await;
    provider.redirect_to(gateway.address()).await;
    (provider, gateway)
}

fn url(gateway: &Gateway, path: &str) -> String {
    format!("{}{path}", gateway.address())
}

/// Returns the operator, the session and the token of a browser.
async fn session(browser: &Browser, gateway: &Gateway) -> Value {
    browser.ask(Method::GET, &url(gateway, SESSION)).await.ok()
}

/// Sends a request that changes something, with the token of the browser's session.
async fn change(
    browser: &Browser,
    gateway: &Gateway,
    method: Method,
    path: &str,
    body: &Value,
) -> Reply {
    let shown = session(browser, gateway).await;
    let token = shown["csrf_token"].as_str().expect("a token");
    let request = browser.request(method, &url(gateway, path)).header("x-airlock-csrf", token);
    Reply::fetch(if body.is_null() { request } else { request.json(body) }).await
}

#[tokio::test]
async fn an_operator_logs_in_changes_a_setting_under_a_readable_name_and_logs_out() {
    let log = tempfile::tempdir().expect("a directory");
    let mut provider = Provider::start().await;
    let setup = setup(&provider).set("/records/audit/enabled", true);
    let setup = setup.set("/records/audit/dir", log.path().display().to_string());
    let gateway = setup.serve().await;
    provider.redirect_to(gateway.address()).await;
    let mut browser = Browser::new();
    let redirect = browser.authorize(gateway.address(), "?return_to=%2Fadmin", "ann").await;
    let page = browser.open(&redirect).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("url=/admin") && page.text.contains("ann@example.com"));
    let shown = session(&browser, &gateway).await;
    let name = format!("ann@example.com ({})", provider.url());
    let operator = json!({"name": name, "role": "admin", "sees_payloads": true});
    assert_eq!(shown["operator"], operator);

    let key = json!({"name": "ci"});
    let refused = browser.request(Method::POST, &url(&gateway, KEYS)).json(&key);
    let refused = Reply::fetch(refused).await;
    assert_eq!((refused.status, refused.code()), (403, "csrf_token_invalid"));
    let made = change(&browser, &gateway, Method::POST, KEYS, &key).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let changes = gateway.get("/api/changes").await.ok();
    assert_eq!(changes["changes"][0]["actor"], format!("operator {name:?}"));

    let replayed = browser.open(&redirect).await;
    assert_eq!(replayed.status, 400, "the state was used: {}", replayed.text);
    let cookie = browser.cookie(gateway.address(), "airlock").expect("kept").clone();
    let ended = change(&browser, &gateway, Method::POST, "/api/session/logout", &Value::Null).await;
    assert_eq!(ended.status, 200, "{}", ended.text);
    let refused = browser.ask(Method::GET, &url(&gateway, SESSION)).await;
    assert_eq!((refused.status, refused.code()), (401, "operator_required"));
    let said = gateway.until_said("an operator has logged in").await;
    assert!(!said.contains(&cookie), "{said}");
    gateway.terminate();
    gateway.ended().await;
    let events = events(log.path());
    let recorded = events.iter().filter_map(|event| {
        let kind = event["kind"].as_str().filter(|kind| kind.starts_with("operator_"));
        Some((kind?, event["actor"].as_str()?))
    });
    let actor = format!("operator {name:?}");
    let expected = [("operator_login", actor.as_str()), ("operator_logout", actor.as_str())];
    assert_eq!(recorded.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_person_without_a_role_and_a_redirect_of_another_browser_or_issuer_are_refused() {
    let (_provider, gateway) = serve().await;
    let methods = gateway.get("/admin/login.json").await.ok();
    assert_eq!(methods, json!({"identity_provider": true}), "the page of the login offers it");
    let mut eve = Browser::new();
    let refused = eve.log_in(gateway.address(), "eve").await;
    assert_eq!(refused.status, 403, "her address is not verified: {}", refused.text);
    assert!(!refused.text.contains("eve"), "{}", refused.text);
    assert_eq!(eve.ask(Method::GET, &url(&gateway, SESSION)).await.status, 401);

    let mut ann = Browser::new();
    let redirect = ann.authorize(gateway.address(), "", "ann").await;
    assert_eq!(eve.open(&redirect).await.status, 403, "another browser");
    let begun = eve.open(&url(&gateway, "/api/session/login")).await;
    assert_eq!((begun.status, eve.open(&redirect).await.status), (303, 403), "another login");
    assert_eq!(ann.open(&redirect).await.status, 200, "the login is still hers");

    let mut mixed = Browser::new();
    let redirect = mixed.authorize(gateway.address(), "", "bob").await;
    let (kept, _) = redirect.split_once("&iss=").expect("RFC 9207");
    let refused = mixed.open(&format!("{kept}&iss=https%3A%2F%2Fother.example.com")).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert_eq!(mixed.open(&redirect).await.status, 400, "the login was used up");
    for query in ["", "?state=x&code=y", "?error=access_denied", "?state=a&state=b"] {
        let refused = mixed.open(&url(&gateway, &format!("/api/session/callback{query}"))).await;
        assert_eq!(refused.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_session_is_a_credential_for_operators_alone_and_beside_no_other() {
    let mut provider = Provider::start().await;
    let gateway = setup(&provider)
        .client(Client::wasm("text", guests::TEXT).auto(&["*"]))
        .key("ci", "sk-bf-0123456789abcdef", &[("text", &["*"])])
        .serve()
        .await;
    provider.redirect_to(gateway.address()).await;
    let mut bob = Browser::new();
    assert_eq!(bob.log_in(gateway.address(), "bob").await.status, 200);
    for (method, path, status) in [
        (Method::GET, "/api/mcp/clients", 200),
        (Method::GET, "/v1/approvals", 403),
        (Method::GET, "/api/sessions", 403),
        (Method::GET, "/v1/models", 401),
        (Method::POST, "/mcp", 401),
        (Method::POST, "/v1/chat/completions", 401),
    ] {
        let reply = bob.ask(method, &url(&gateway, path)).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
    }
    let forbidden = change(&bob, &gateway, Method::POST, KEYS, &json!({"name": "x"})).await;
    assert_eq!((forbidden.status, forbidden.code()), (403, "role_insufficient"));
    let own = url(&gateway, SESSION);
    let with_token = bob.request(Method::GET, &own).bearer_auth(OPERATOR);
    assert_eq!(Reply::fetch(with_token).await.ok()["operator"]["name"], "tests");
    for bearer in ["alop_wrong", "wrong"] {
        let refused = Reply::fetch(bob.request(Method::GET, &own).bearer_auth(bearer)).await;
        assert_eq!(refused.status, 401, "{bearer}");
    }
    for site in ["cross-site", "same-site"] {
        let refused = bob.request(Method::GET, &own).header("sec-fetch-site", site);
        assert_eq!(Reply::fetch(refused).await.status, 403, "{site}");
    }
    let foreign = bob.request(Method::GET, &own).header("origin", "http://127.0.0.1:1");
    assert_eq!(Reply::fetch(foreign).await.status, 403);
}

#[tokio::test]
async fn every_gateway_of_a_store_ends_logins_and_knows_sessions_and_revocations_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("airlock.db").display().to_string();
    let server = TestDatabase::create();
    for store in [Some(file), server.as_ref().map(TestDatabase::url)].into_iter().flatten() {
        let mut provider = Provider::start().await;
        let gateways = join_all(
            (0..2).map(async |_| setup(&provider).set("/store", store.as_str()).serve().await),
        );
        let gateways: [Gateway; 2] = gateways.await.try_into().ok().expect("two");
        let [first, second] = gateways;
        provider.redirect_to(first.address()).await;
        let mut browser = Browser::new();
        let redirect = browser.authorize(first.address(), "", "ann").await;
        // Both are behind the same address for a browser.
        browser.move_to(first.address(), second.address());
        let redirect = redirect.replace(first.address(), second.address());
        assert_eq!(browser.open(&redirect).await.status, 200);
        let shown = session(&browser, &second).await;
        browser.move_to(second.address(), first.address());
        assert_eq!(session(&browser, &first).await, shown);

        let listed = second.get("/api/sessions").await.ok();
        assert_eq!(
            (&listed["total_count"], &listed["sessions"][0]["subject"]),
            (&json!(1), &json!("ann"))
        );
        assert_eq!(listed["sessions"][0]["id"], shown["session"]["id"]);
        let id = shown["session"]["id"].as_str().expect("an identifier");
        let revoked = second.delete(&format!("/api/sessions/{id}")).await;
        assert_eq!(revoked.status, 200, "{}", revoked.text);
        assert_eq!(browser.ask(Method::GET, &url(&first, SESSION)).await.status, 401);
        let changes = first.get("/api/changes").await.ok();
        assert_eq!(changes["changes"][0]["action"], "session.revoke");
    }
}

#[tokio::test]
async fn a_provider_that_hangs_delays_its_logins_alone() {
    let silent = Server::start(|_| Answer::IsSilent).await;
    let oidc = json!({"issuer": silent.url("127.0.0.1", ""), "client_id": "airlock"});
    let gateway = Setup::new().set("/management/oidc", oidc).serve().await;
    let login = url(&gateway, "/api/session/login");
    // To make so many of them takes seconds of a busy machine.
    let browsers: Vec<_> = (0..40).map(|_| Browser::new()).collect();
    let began = Instant::now();
    let logins = join_all(
        browsers.into_iter().map(async |mut browser: Browser| browser.open(&login).await.status),
    );
    let other = async {
        wait::until("a login to wait", async || (!silent.requests().is_empty()).then_some(()))
            .await;
        assert_eq!(gateway.get(SESSION).await.status, 200);
        began.elapsed()
    };
    let (statuses, other) = tokio::join!(logins, other);
    assert!(statuses.iter().all(|status| *status == 503), "{statuses:?}");
    assert!(other < Duration::from_secs(4) && began.elapsed() < Duration::from_secs(20));
    assert!(silent.requests().len() <= 16, "{}", silent.requests().len());
}
