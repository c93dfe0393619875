//! Headers that each user enters.

use airlock_tests::{Client, Gateway, Reply};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use super::{
    ANN, BOB,
    browser::Browser,
    open,
    peer::{Peer, State},
    sessions, setup_of, whoami,
};

/// Returns a peer that knows its users by the header `x-api-key`, and a gateway whose users enter it.
async fn with_headers() -> (Peer, Gateway) {
    let keys = [("key-of-ann-01", "ann"), ("key-of-bob-02", "bob"), ("key-of-rob-03", "rob")];
    let keys = keys.map(|(key, user)| (key.to_owned(), user.to_owned())).into();
    let peer = Peer::start(State { takes_headers: true, keys, ..open() }).await;
    let client = Client::http("up", &peer.url())
        .set("/auth_type", "per_user_headers")
        .set("/per_user_header_keys", json!(["X-Api-Key"]));
    let gateway = setup_of(client).serve_connected().await;
    (peer, gateway)
}

/// Returns the link of a call that needs headers.
fn submit_link(reply: &Reply) -> String {
    assert_eq!((reply.status, reply.code()), (401, "login_required"), "{}", reply.text);
    let required = &reply.body["extra_fields"]["mcp_auth_required"];
    assert_eq!(required["kind"], "headers");
    assert_eq!(required["required_header_keys"], json!(["x-api-key"]));
    required["submit_url"].as_str().expect("a link").to_owned()
}

#[tokio::test]
async fn each_key_acts_with_the_headers_that_its_user_has_entered() {
    let (peer, gateway) = with_headers().await;
    let link = submit_link(&whoami(&gateway, ANN).await);
    let value = [("x-api-key", "key-of-ann-01")];
    assert_eq!(Browser::new(BOB).enter(&link, &value).await, 403, "another key");
    assert_eq!(Browser::new(ANN).enter(&link, &[("x-api-key", "a%0d%0ab")]).await, 400);
    assert_eq!(Browser::new(ANN).enter(&link, &value).await, 200);
    assert_eq!(Browser::new(ANN).open(&link).await.status, 404, "used up");
    assert_eq!(whoami(&gateway, ANN).await.content(), "you are ann");

    // By the API, with the credential of the holder alone.
    let link = submit_link(&whoami(&gateway, BOB).await);
    let id = link.rsplit('/').next().expect("its identifier");
    let path = format!("/api/mcp/per-user-headers/flows/{id}");
    let body = json!({"headers": {"X-API-Key": "key-of-bob-02"}});
    for (key, status) in [(ANN, 404), (BOB, 200), (BOB, 404)] {
        let put = gateway.request(Method::PUT, &path).bearer_auth(key).json(&body);
        assert_eq!(Reply::fetch(put).await.status, status, "{key}");
    }
    let calls = (0..20).map(async |number: usize| {
        let (key, user) = [(ANN, "ann"), (BOB, "bob")][number % 2];
        assert_eq!(whoami(&gateway, key).await.content(), format!("you are {user}"));
    });
    join_all(calls).await;
    assert_eq!(peer.state().mixed, 0);
    let said = gateway.said();
    assert!(!said.contains("key-of-ann") && !said.contains("key-of-bob"), "{said}");
    let listed = gateway.get("/api/mcp/sessions").await;
    assert!(!listed.text.contains("key-of-"), "{}", listed.text);
    assert_eq!(listed.ok()["sessions"][0]["auth_type"], "per_user_headers");
}

#[tokio::test]
async fn headers_that_the_server_refuses_are_asked_for_again_and_can_be_removed() {
    let (peer, gateway) = with_headers().await;
    let link = submit_link(&whoami(&gateway, ANN).await);
    Browser::new(ANN).enter(&link, &[("x-api-key", "key-of-ann-01")]).await;
    assert_eq!(whoami(&gateway, ANN).await.status, 200);
    peer.state().keys.remove("key-of-ann-01");
    let again = submit_link(&whoami(&gateway, ANN).await);
    let [own] = &sessions(&gateway, Some(ANN)).await[..] else { panic!("one") };
    assert_eq!(own["status"], "needs_update");
    Browser::new(ANN).enter(&again, &[("x-api-key", "key-of-rob-03")]).await;
    assert_eq!(whoami(&gateway, ANN).await.content(), "you are rob");
    let [own] = &sessions(&gateway, Some(ANN)).await[..] else { panic!("one") };
    assert_eq!(own["status"], "active");
    let path = format!("/api/mcp/sessions/{}", own["id"].as_str().expect("an identifier"));
    let removed = gateway.request(Method::DELETE, &path).bearer_auth(ANN);
    assert_eq!(Reply::fetch(removed).await.status, 200);
    submit_link(&whoami(&gateway, ANN).await);
}

#[tokio::test]
async fn headers_stay_if_the_server_refuses_one_call_alone() {
    let (peer, gateway) = with_headers().await;
    let link = submit_link(&whoami(&gateway, ANN).await);
    Browser::new(ANN).enter(&link, &[("x-api-key", "key-of-ann-01")]).await;
    submit_link(&gateway.execute_with(&[("x-bf-vk", ANN)], "up-guarded", &json!({})).await);
    let [own] = &sessions(&gateway, Some(ANN)).await[..] else { panic!("one") };
    assert_eq!(own["status"], "active");
    assert_eq!(whoami(&gateway, ANN).await.content(), "you are ann");
    assert_eq!(peer.state().mixed, 0);
}
