//! The deprecated transport of MCP: a stream that ends concerns its own client alone.

use std::collections::BTreeMap;

use super::*;

#[tokio::test]
async fn the_stream_of_a_key_with_other_grants_ends_and_the_gateway_stays_ready() {
    let mcp = airlock_mcp_server::Settings { sse: true, ..Default::default() };
    let gateway = Gateway::start(Settings { mcp, ..settings() }).await;
    let key = ("x-bf-vk", "sk-bf-ann");
    let headers = [key, ("accept", "text/event-stream")];
    let mut stream = gateway.send(Method::GET, "/sse", &headers, "").await;
    let first = soon(stream.chunk()).await.expect("a stream").expect("an event");
    let first = String::from_utf8(first.to_vec()).expect("text");
    let endpoint = first.trim_end().strip_prefix("event: endpoint\ndata: ").expect("the endpoint");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(gateway.ask(Method::POST, endpoint, &[key], ping).await.0, 202);
    let narrowed = VirtualKey::new("ann", "sk-bf-ann", BTreeMap::new());
    gateway.live.current().keys.replace(Keys::new([narrowed]));
    while soon(stream.chunk()).await.expect("a stream").is_some() {}
    assert_eq!(gateway.ask(Method::POST, endpoint, &[key], ping).await.0, 404);
    assert_eq!(gateway.get("/ready", &[]).await, (200, json!({"status": "ready"})));
    gateway.stop().await;
}
