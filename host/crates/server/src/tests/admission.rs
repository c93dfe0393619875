//! Paths, methods, keys and origins of requests that are admitted, and the settings that a gateway does not serve with.

use super::*;

#[tokio::test]
async fn unknown_paths_are_404_and_wrong_methods_are_405() {
    let gateway = Gateway::standard().await;
    assert_eq!(gateway.get("/v1/completions", &[]).await.0, 404);
    let reply = gateway.send(Method::GET, "/v1/chat/completions", &[], "").await;
    assert_eq!((reply.status().as_u16(), reply.headers()["allow"].as_bytes()), (405, &b"POST"[..]));
    assert_eq!(gateway.send(Method::HEAD, "/health", &[], "").await.status().as_u16(), 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_required_key_must_be_sent_and_permits_only_its_own_tools() {
    let gateway = Gateway::start(Settings { require_virtual_key: true, ..settings() }).await;
    for path in ["/v1/models", "/api/mcp/clients"] {
        assert_eq!(gateway.get(path, &[]).await.0, 401);
        assert_eq!(gateway.get(path, &[("authorization", "Bearer sk-bf-ann")]).await.0, 200);
    }
    let (status, answer) = gateway.chat("echo", &[("x-bf-vk", "sk-bf-bob")]).await;
    assert_eq!((status, &answer["error"]["message"]), (401, &json!("virtual key not found")));
    assert_eq!(gateway.get("/health", &[]).await.0, 200);
    let ann = [("x-api-key", "sk-bf-ann")];
    assert_eq!(gateway.execute("desk-echo", &ann).await.0, 200);
    assert_eq!(gateway.execute("desk-write", &ann).await.1["error"]["code"], "not_found");
    gateway.stop().await;
}

#[tokio::test]
async fn requests_of_web_pages_of_other_origins_are_refused() {
    let gateway = Gateway::standard().await;
    assert_eq!(gateway.get("/health", &[("host", "evil.example")]).await.0, 403);
    assert_eq!(gateway.execute("desk-echo", &[("origin", "http://evil.example")]).await.0, 403);
    assert_eq!(
        gateway.execute("desk-echo", &[("origin", "http://localhost:3000")]).await.0,
        403,
        "another port is another program"
    );
    let own = format!("http://{}", gateway.address);
    assert_eq!(gateway.execute("desk-echo", &[("origin", &own)]).await.0, 200);
    assert_eq!(gateway.get("/health", &[("sec-fetch-site", "cross-site")]).await.0, 403);
    gateway.stop().await;
    let listed = vec!["http://localhost:3000".to_owned()];
    let gateway = Gateway::start(Settings { allowed_origins: listed, ..settings() }).await;
    assert_eq!(gateway.execute("desk-echo", &[("origin", "http://localhost:3000")]).await.0, 200);
    gateway.stop().await;
}

#[test]
fn a_gateway_open_to_the_network_needs_keys() {
    let open = Settings { listen: SocketAddr::from(([0, 0, 0, 0], 80)), ..settings() };
    assert_eq!(open.check(), Err(BadSettings::Open { listen: open.listen }));
    assert_eq!(Settings { require_virtual_key: true, ..open }.check(), Ok(()));
    assert_eq!(
        Settings { listen: "[::1]:80".parse().expect("an address"), ..settings() }.check(),
        Ok(())
    );
    assert_eq!(
        Settings { max_header_bytes: 1, ..settings() }.check(),
        Err(BadSettings::HeaderBytes { found: 1 })
    );
    assert_eq!(
        Settings { max_connections: 0, ..settings() }.check(),
        Err(BadSettings::Connections)
    );
    assert_eq!(
        Settings { max_connections_per_peer: 0, ..settings() }.check(),
        Err(BadSettings::Connections)
    );
    let least = settings().least_request_memory();
    assert_eq!(Settings { max_request_memory_bytes: least, ..settings() }.check(), Ok(()));
    let small = Settings { max_request_memory_bytes: least - 1, ..settings() };
    assert!(
        matches!(small.check(), Err(BadSettings::RequestMemory { found, .. }) if found == least - 1)
    );
}
