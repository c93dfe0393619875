//! Operations of the operator on plugins and MCP servers.

use super::*;

#[tokio::test]
async fn a_reload_reports_its_outcome_or_the_reason_of_its_failure() {
    let gateway = Gateway::standard().await;
    for (client, changed) in [("changed", true), ("same", false)] {
        let expected = (200, json!({"status": "success", "changed": changed}));
        assert_eq!(reload(&gateway, client).await, expected);
    }
    for (client, status, message) in [
        ("drifted", 409, "new tool steal"),
        ("broken", 422, "not a WebAssembly component"),
        ("nobody", 404, "no plugin is named \"nobody\""),
    ] {
        let (found, body) = reload(&gateway, client).await;
        assert_eq!((found, body["error"]["message"].as_str()), (status, Some(message)), "{body}");
    }
    assert_eq!(gateway.get("/api/mcp/client/same/reload", &[]).await.0, 405);
    gateway.stop().await;
}

async fn reload(gateway: &Gateway, client: &str) -> (u16, Value) {
    gateway.ask(Method::POST, &format!("/api/mcp/client/{client}/reload"), &[], "").await
}

#[tokio::test]
async fn a_reload_with_a_key_or_from_a_web_page_or_proxy_is_refused() {
    let path = "/api/mcp/client/changed/reload";
    let gateway = Gateway::standard().await;
    let own = format!("http://{}", gateway.address);
    for headers in [
        &[("x-bf-vk", "sk-bf-ann")][..],
        &[("authorization", "Bearer sk-bf-ann")],
        &[("origin", own.as_str())],
        &[("sec-fetch-site", "same-origin")],
        &[("x-forwarded-for", "127.0.0.1")],
    ] {
        let (status, body) = gateway.ask(Method::POST, path, headers, "").await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (403, &json!("operator_only")),
            "{headers:?}: {body}"
        );
    }
    assert_eq!(
        gateway.ask(Method::POST, path, &[("origin", "https://evil.example")], "").await.0,
        403
    );
    assert_eq!(gateway.ask(Method::POST, path, &[("x-bf-vk", "sk-bf-unknown")], "").await.0, 401);
    gateway.stop().await;
    let gateway = Gateway::start(Settings { require_virtual_key: true, ..settings() }).await;
    for headers in [&[][..], &[("x-bf-vk", "sk-bf-ann")]] {
        let (status, body) = gateway.ask(Method::POST, path, headers, "").await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (403, &json!("operator_only")),
            "{headers:?}: {body}"
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_operation_on_an_unknown_server_is_refused() {
    let gateway = Gateway::standard().await;
    for (method, operation, status) in [
        (Method::POST, "reconnect", 400),
        (Method::POST, "refresh-tools", 400),
        (Method::GET, "logs", 404),
    ] {
        let path = format!("/api/mcp/client/nobody/{operation}");
        let (found, body) = gateway.ask(method, &path, &[], "").await;
        assert_eq!((found, &body["error"]["code"]), (status, &json!("unknown_client")), "{body}");
    }
    gateway.stop().await;
}
