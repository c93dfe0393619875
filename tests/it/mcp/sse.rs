//! The deprecated transport HTTP+SSE, as raw HTTP.

use airlock_tests::{EventStream, Gateway, Reply, Setup};
use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};

use super::{ANN, BOB, upstream::Upstream};

/// Starts a gateway with the transport. Two keys open the upstream, and none is needed.
async fn start(upstream: &Upstream) -> Gateway {
    let rows: &[(&str, &[&str])] = &[("up", &["*"])];
    Setup::new()
        .client(upstream.client("up").auto(&["*"]))
        .key("ann", ANN, rows)
        .key("bob", BOB, rows)
        .set("/server/require_virtual_key", false)
        .set("/mcp_server/sse", true)
        .serve_connected()
        .await
}

fn get(gateway: &Gateway, path: &str, key: &str) -> RequestBuilder {
    let request = gateway.request(Method::GET, path).header("x-bf-vk", key);
    request.header(header::ACCEPT, "text/event-stream")
}

/// Opens a stream. Returns it with the path for messages.
async fn open(gateway: &Gateway, path: &str, key: &str) -> (EventStream, String) {
    let mut stream = EventStream::open(get(gateway, path, key)).await;
    let event = stream.next().await.expect("an event");
    let endpoint = event.strip_prefix("event: endpoint\ndata: ").expect("the endpoint").to_owned();
    assert!(endpoint.starts_with("/message?sessionId="), "{endpoint}");
    (stream, endpoint)
}

async fn post(gateway: &Gateway, endpoint: &str, key: &str, message: &Value) -> Reply {
    let request = gateway.request(Method::POST, endpoint).header("x-bf-vk", key);
    Reply::fetch(request.json(message)).await
}

/// Returns the next message of a stream.
async fn message(stream: &mut EventStream) -> Value {
    let event = stream.next().await.expect("an event");
    let data = event.strip_prefix("event: message\ndata: ").expect("a message");
    serde_json::from_str(data).expect("JSON")
}

#[tokio::test]
async fn a_message_is_taken_with_the_key_that_opened_the_stream_and_answered_on_it() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream).await;
    let (mut stream, endpoint) = open(&gateway, "/sse", ANN).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (endpoint, key) in [
        (endpoint.as_str(), BOB),
        ("/message", ANN),
        ("/message?sessionId=", ANN),
        (&*format!("{endpoint}0"), ANN),
    ] {
        let refused = post(&gateway, endpoint, key, &ping).await;
        assert_eq!(refused.status, 404, "{endpoint}: {}", refused.text);
        assert_eq!(refused.body["error"]["data"]["code"], "no_session", "{}", refused.text);
    }
    let accepted = post(&gateway, &endpoint, ANN, &ping).await;
    assert_eq!((accepted.status, &*accepted.text), (202, ""));
    assert_eq!(message(&mut stream).await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    let bad = post(&gateway, &endpoint, ANN, &json!([1])).await;
    assert_eq!(bad.status, 400, "{}", bad.text);
    let list = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"});
    assert_eq!(post(&gateway, &endpoint, ANN, &list).await.status, 202);
    let listed = message(&mut stream).await;
    assert!(listed["result"]["tools"].to_string().contains("up-steps"), "{listed}");
}

#[tokio::test]
async fn a_stream_of_one_client_has_its_tools_alone_and_an_unknown_one_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream).await;
    let (mut stream, endpoint) = open(&gateway, "/sse/up", ANN).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(post(&gateway, &endpoint, ANN, &list).await.status, 202);
    let listed = message(&mut stream).await;
    assert!(listed["result"]["tools"].to_string().contains(r#""name":"steps""#), "{listed}");
    let unknown = Reply::fetch(get(&gateway, "/sse/nonesuch", ANN)).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text);
}

#[tokio::test]
async fn requests_to_the_transport_are_checked_like_those_to_mcp() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream).await;
    let status = async |request: RequestBuilder| Reply::fetch(request).await.status;
    let evil = get(&gateway, "/sse", ANN).header(header::ORIGIN, "https://evil.example");
    assert_eq!(status(evil).await, 403);
    let json = gateway.request(Method::GET, "/sse").header(header::ACCEPT, "application/json");
    assert_eq!(status(json).await, 406);
    assert_eq!(status(get(&gateway, "/sse", "sk-bf-nonesuch0123456789")).await, 401);
    assert_eq!(status(gateway.request(Method::POST, "/sse")).await, 405);
    let (_stream, endpoint) = open(&gateway, "/sse", ANN).await;
    let evil = gateway.request(Method::POST, &endpoint).header("x-bf-vk", ANN);
    let evil = evil.header(header::ORIGIN, "https://evil.example").json(&json!({}));
    assert_eq!(status(evil).await, 403);
}

#[tokio::test]
async fn the_path_for_messages_ends_with_its_stream() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream).await;
    let (stream, endpoint) = open(&gateway, "/sse", ANN).await;
    drop(stream);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    airlock_tests::wait::until("the stream to end", async || {
        (post(&gateway, &endpoint, ANN, &ping).await.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_transport_is_off_by_default() {
    let gateway = Setup::new().serve().await;
    for (method, path) in [(Method::GET, "/sse"), (Method::POST, "/message?sessionId=1")] {
        let reply = Reply::fetch(gateway.request(method, path)).await;
        assert_eq!(reply.status, 404, "{}", reply.text);
    }
}

#[tokio::test]
async fn streams_that_only_wait_are_evicted_for_new_connections() {
    let upstream = Upstream::start().await;
    let rows: &[(&str, &[&str])] = &[("up", &["*"])];
    let gateway = Setup::new()
        .client(upstream.client("up").auto(&["*"]))
        .key("ann", ANN, rows)
        .key("bob", BOB, rows)
        .set("/mcp_server/sse", true)
        .set("/server/require_virtual_key", false)
        .set("/server/max_connections", 8)
        .set("/server/max_connections_per_peer", 2)
        .serve_connected()
        .await;
    let _streams = [open(&gateway, "/sse", ANN).await, open(&gateway, "/sse", BOB).await];
    // Both places of the address have a stream. A place is free once its old connection is closed.
    airlock_tests::wait::until("a place for another connection", async || {
        let models = gateway.request(Method::GET, "/v1/models").header("x-bf-vk", BOB);
        let reply = Reply::fetch(models.header("connection", "close")).await;
        (reply.status == 200).then_some(())
    })
    .await;
}
