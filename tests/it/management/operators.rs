//! The first operator, roles, and tokens that are refused.

use std::fs;

use airlock_tests::{Gateway, Reply, Setup, wait};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{SharedStore, make_key, setup};

const SETUP: &str = "/api/session/setup";

/// Starts a gateway without an operator. Returns it with its setup token.
async fn closed(store: &SharedStore) -> (Gateway, String) {
    let gateway = setup(store).set("/management", json!({})).serve().await;
    let token = wait::until("the setup token", async || setup_token(&gateway)).await;
    (gateway, token)
}

fn setup_token(gateway: &Gateway) -> Option<String> {
    let said = gateway.said();
    let line = said.lines().find_map(|line| line.strip_prefix("setup token: "));
    line.map(str::to_owned)
}

async fn send(request: RequestBuilder, token: &str) -> Reply {
    Reply::fetch(request.bearer_auth(token)).await
}

async fn get(gateway: &Gateway, path: &str, token: &str) -> Reply {
    send(gateway.request(Method::GET, path), token).await
}

async fn set_up(gateway: &Gateway, token: &str) -> Reply {
    let request = gateway.request(Method::POST, SETUP).header("x-airlock-setup-token", token);
    Reply::fetch(request).await
}

fn token_of(made: &Value) -> String {
    made["token"].as_str().expect("a token").to_owned()
}

#[tokio::test]
async fn a_new_gateway_is_closed_and_its_setup_token_makes_one_administrator() {
    for store in SharedStore::all() {
        let (gateway, token) = closed(&store).await;
        for path in ["/api/settings", "/api/session", "/api/changes", "/api/operators"] {
            let refused = Reply::fetch(gateway.request(Method::GET, path)).await;
            assert_eq!((refused.status, refused.code()), (401, "operator_required"), "{path}");
        }
        let health = gateway.get("/health").await;
        assert_eq!(health.status, 200, "chat and tools stay open: {}", health.text);
        let wrong = set_up(&gateway, "setup_wrong").await;
        assert_eq!((wrong.status, wrong.code()), (403, "setup_token_invalid"));
        let made = set_up(&gateway, &token).await.ok();
        let operator = token_of(&made);
        assert_eq!(made["operator"]["role"], "admin");
        let again = set_up(&gateway, &token).await;
        assert_eq!((again.status, again.code()), (409, "conflict"));
        let session = get(&gateway, "/api/session", &operator).await.ok();
        assert_eq!(session["operator"]["name"], "admin");
        let said = gateway.said();
        assert!(!said.contains(&operator), "no token of an operator is in the log");

        let setup = gateway.kill().await;
        let next = setup.serve().await;
        wait::until("the operators to be read", async || {
            (get(&next, "/api/session", &operator).await.status == 200).then_some(())
        })
        .await;
        assert_eq!(setup_token(&next), None, "there is an operator");
    }
}

#[tokio::test]
async fn of_fifty_racing_set_ups_on_two_gateways_one_makes_an_operator() {
    for store in SharedStore::all() {
        let (first, first_token) = closed(&store).await;
        let (second, second_token) = closed(&store).await;
        let racing = (0..50).map(|number| {
            let (gateway, token) =
                if number % 2 == 0 { (&first, &first_token) } else { (&second, &second_token) };
            set_up(gateway, token)
        });
        let replies = futures_util::future::join_all(racing).await;
        let made = replies.iter().filter(|reply| reply.status == 200).count();
        assert_eq!(made, 1, "{replies:?}");
        assert!(replies.iter().all(|reply| matches!(reply.status, 200 | 409)), "{replies:?}");
    }
}

#[tokio::test]
async fn each_role_may_do_what_it_says_and_a_revoked_token_is_refused_on_all_gateways() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let mut tokens = Vec::new();
        for role in ["viewer", "approver", "operator", "admin"] {
            let wanted = json!({"name": role, "role": role});
            let made = first.post("/api/operators", &wanted).await.ok();
            tokens.push(token_of(&made));
        }
        for (number, token) in tokens.iter().enumerate() {
            wait::until("the second gateway to know the token", async || {
                (get(&second, "/api/session", token).await.status == 200).then_some(())
            })
            .await;
            let status = async |method: Method, path: &str, body: Value| {
                send(second.request(method, path).json(&body), token).await.status
            };
            assert_eq!(status(Method::GET, "/api/settings", json!({})).await, 200);
            let change = number >= 2;
            let administer = number == 3;
            let expected = |permitted, status| if permitted { status } else { 403 };
            let key = json!({"name": format!("key-{number}")});
            let made = status(Method::POST, super::KEYS, key).await;
            assert_eq!(made, expected(change, 200));
            let rotated = format!("{}/key-{number}/rotate", super::KEYS);
            let rotated = status(Method::POST, &rotated, json!({})).await;
            assert_eq!(rotated, expected(administer, 200), "a new value is the tenant's identity");
            let refresh = "/api/mcp/client/absent/refresh-tools";
            assert_eq!(status(Method::POST, refresh, json!({})).await, expected(change, 400));
            let own = json!({"name": "x", "role": "viewer"});
            let added = status(Method::POST, "/api/operators", own).await;
            assert_eq!(added, expected(administer, 200));
            let approvals = status(Method::GET, "/v1/approvals", json!({})).await;
            assert_eq!(approvals, expected(number == 1 || administer, 200));
            let approve = status(Method::POST, "/v1/approvals/call_1/approve", json!({})).await;
            assert_eq!(approve, 403, "none of them sees payloads");
            let deny = status(Method::POST, "/v1/approvals/call_1/deny", json!({})).await;
            assert_eq!(deny, expected(number == 1 || administer, 404));
        }
        assert_eq!(first.delete("/api/operators/viewer").await.status, 200);
        let refused = get(&first, "/api/session", &tokens[0]).await;
        assert_eq!((refused.status, refused.code()), (401, "operator_unknown"));
        wait::until("the second gateway to refuse the token", async || {
            (get(&second, "/api/session", &tokens[0]).await.status == 401).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn neither_a_virtual_key_nor_loopback_is_a_credential_of_an_operator() {
    let [store, ..] = &SharedStore::all()[..] else { panic!("a file at least") };
    let gateway = setup(store).serve_connected().await;
    let key = make_key(&gateway, "ann").await;
    for path in ["/api/settings", super::KEYS, "/api/operators", "/api/mcp/client/text/logs"] {
        let plain = Reply::fetch(gateway.request(Method::GET, path)).await;
        assert_eq!(plain.status, 401, "{path}");
        let with_key =
            Reply::fetch(gateway.request(Method::GET, path).header("x-bf-vk", &key)).await;
        assert_eq!(with_key.status, 401, "{path}");
        let bearer = send(gateway.request(Method::GET, path), &key).await;
        assert_eq!(bearer.status, 401, "{path}");
    }
}

/// Returns settings by which one person of an identity provider is an operator.
fn oidc(role: &str) -> Value {
    let row = json!({"claim": "sub", "values": ["ann"], "role": role});
    json!({"oidc": {"issuer": "http://127.0.0.1:9", "client_id": "airlock", "roles": [row]}})
}

#[tokio::test]
async fn a_setup_token_ends_once_an_administrator_can_log_in_at_a_provider() {
    let gateway = Setup::new().set("/management", oidc("viewer")).serve().await;
    wait::until("the setup token", async || setup_token(&gateway)).await;
    assert_eq!(set_up(&gateway, "setup_wrong").await.status, 403);
    let file = gateway.directory().join("airlock.json");
    let text = fs::read_to_string(&file).expect("read");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["management"] = oidc("admin");
    fs::write(&file, config.to_string()).expect("written");
    let ended = async || (set_up(&gateway, "setup_wrong").await.status == 409).then_some(());
    wait::until("the setup token to end", ended).await;
    let next = Setup::new().set("/management", oidc("admin")).serve().await;
    assert_eq!(set_up(&next, "setup_wrong").await.status, 409);
    assert_eq!(setup_token(&next), None);
}

#[tokio::test]
async fn a_disabled_api_has_no_operators_and_no_socket() {
    let setup = Setup::new().set("/management", json!({"disabled": true}));
    let gateway = setup.serve().await;
    let refused = Reply::fetch(gateway.request(Method::POST, SETUP)).await;
    assert_eq!((refused.status, refused.code()), (403, "management_disabled"));
    assert!(!gateway.directory().join("airlock.sock").exists());
    assert_eq!(setup_token(&gateway), None);
}
