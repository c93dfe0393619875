//! Streams that wait for notifications end with the rights of their senders.

use std::collections::BTreeMap;

use super::*;

const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");
const ANN: (&str, &str) = ("x-bf-vk", "sk-bf-ann");
const DAN: (&str, &str) = ("x-bf-vk", "sk-bf-dan");

/// Opens a session and its stream.
async fn get_stream(gateway: &Gateway, key: (&'static str, &str)) -> reqwest::Response {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = gateway.send(Method::POST, "/mcp", &[BOTH, key], &body.to_string()).await;
    let id = opened.headers()["mcp-session-id"].to_str().expect("text");
    let headers = [BOTH, key, ("mcp-session-id", id)];
    gateway.send(Method::GET, "/mcp", &headers, "").await
}

/// Subscribes to the list of tools.
async fn listen(gateway: &Gateway, key: (&'static str, &str)) -> reqwest::Response {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let method = "subscriptions/listen";
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let headers = [BOTH, key, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    gateway.send(Method::POST, "/mcp", &headers, &body.to_string()).await
}

#[tokio::test]
async fn streams_of_a_key_that_is_removed_or_narrowed_end_and_others_stay() {
    let gateway = Gateway::standard().await;
    let keys = gateway.live.current().keys.clone();
    let before = keys.snapshot();
    let dan = keys.named("dan").expect("a key");
    let other = [get_stream(&gateway, DAN).await, listen(&gateway, DAN).await];
    for now in [None, Some(VirtualKey::new("ann", "sk-bf-ann", BTreeMap::new()))] {
        let mut own = [get_stream(&gateway, ANN).await, listen(&gateway, ANN).await];
        for stream in &mut own {
            assert_eq!(stream.status(), 200);
            soon(stream.chunk()).await.expect("a stream").expect("its beginning");
        }
        keys.replace(Keys::new(now.into_iter().chain([(*dan).clone()])));
        for stream in &mut own {
            while soon(stream.chunk()).await.expect("a stream").is_some() {}
        }
        assert_eq!(gateway.live.current().sessions.usage().1, other.len());
        keys.replace((*before).clone());
    }
    gateway.stop().await;
}
