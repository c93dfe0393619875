//! Operations of the operator on plugins and MCP servers.

use super::*;

/// Header of an operator.
const AS_OPERATOR: (&str, &str) = ("authorization", "Bearer alop_operator");
/// Header of an operator who may only read.
const AS_VIEWER: (&str, &str) = ("authorization", "Bearer alop_viewer");

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
    let path = format!("/api/mcp/client/{client}/reload");
    gateway.ask(Method::POST, &path, &[AS_OPERATOR], "").await
}

#[tokio::test]
async fn only_an_operator_with_the_right_may_reload() {
    let path = "/api/mcp/client/changed/reload";
    for requires_key in [false, true] {
        let settings = Settings { require_virtual_key: requires_key, ..settings() };
        let gateway = Gateway::start(settings).await;
        for (headers, status, code) in [
            (&[][..], 401, "operator_required"),
            (&[("x-bf-vk", "sk-bf-ann")], 401, "operator_required"),
            (&[("authorization", "Bearer sk-bf-ann")], 401, "operator_required"),
            (&[("authorization", "Bearer alop_unknown")], 401, "operator_unknown"),
            (&[AS_VIEWER], 403, "role_insufficient"),
            (&[AS_OPERATOR, ("origin", "https://evil.example")], 403, "origin_not_allowed"),
        ] {
            let (found, body) = gateway.ask(Method::POST, path, headers, "").await;
            assert_eq!(
                (found, &body["error"]["code"]),
                (status, &json!(code)),
                "{headers:?}: {body}"
            );
        }
        let (status, body) = gateway.ask(Method::POST, path, &[AS_OPERATOR], "").await;
        assert_eq!(status, 200, "{body}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_management_api_gets_the_request_with_its_operator() {
    let gateway = Gateway::standard().await;
    let path = "/api/governance/virtual-keys/a%20b?limit=1";
    let (status, body) = gateway.ask(Method::PUT, path, &[AS_VIEWER], r#"{"x": 1}"#).await;
    let expected = json!({
        "operator": "viewer", "method": "PUT", "path": "/api/governance/virtual-keys/a%20b",
        "query": "limit=1", "body": {"x": 1}, "setup_token": null,
    });
    assert_eq!((status, body), (200, expected));
    let setup = [("x-bifrost-setup-token", "setup_1")];
    let (status, body) = gateway.ask(Method::POST, "/api/session/setup", &setup, "").await;
    let expected = json!({
        "operator": null, "method": "POST", "path": "/api/session/setup", "query": "", "body": null,
        "setup_token": "setup_1",
    });
    assert_eq!((status, body), (200, expected));
    for (headers, status, code) in
        [(&[AS_VIEWER][..], 418, "teapot"), (&[], 401, "operator_required")]
    {
        let (found, body) = gateway.ask(Method::GET, "/api/changes", headers, "").await;
        assert_eq!((found, &body["error"]["code"]), (status, &json!(code)), "{body}");
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
        let (found, body) = gateway.ask(method, &path, &[AS_OPERATOR], "").await;
        assert_eq!((found, &body["error"]["code"]), (status, &json!("unknown_client")), "{body}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn until_the_settings_were_read_only_the_state_of_the_gateway_is_shown() {
    let settings_read = tokio_util::sync::CancellationToken::new();
    let hooks = Hooks { settings_read: settings_read.clone(), ..hooks::hooks(None) };
    let gateway = Gateway::with_hooks(settings(), fake::scripted(&json!([])), hooks).await;
    let key = [("x-bf-vk", "sk-bf-ann")];
    for path in ["/v1/models", "/api/mcp/clients"] {
        let (status, body) = gateway.get(path, &key).await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (503, &json!("settings_unavailable")),
            "{path}"
        );
    }
    for path in ["/health", "/metrics"] {
        assert_eq!(gateway.get(path, &[]).await.0, 200, "{path}");
    }
    settings_read.cancel();
    assert_eq!(gateway.get("/api/mcp/clients", &key).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_is_required_once_the_settings_say_so() {
    let hooks = hooks::hooks(None);
    let requires_key = hooks.requires_key.clone();
    let gateway = Gateway::with_hooks(settings(), fake::scripted(&json!([])), hooks).await;
    assert_eq!(gateway.get("/api/mcp/clients", &[]).await.0, 200);
    requires_key.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(gateway.get("/api/mcp/clients", &[]).await.0, 401);
    assert_eq!(gateway.get("/api/mcp/clients", &[("x-bf-vk", "sk-bf-ann")]).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_token_that_is_revoked_while_the_body_arrives_is_refused() {
    let gateway = Gateway::standard().await;
    let once = [("authorization", "Bearer alop_once")];
    let body = r#"{"name": "x", "role": "admin"}"#;
    let (status, body) = gateway.ask(Method::POST, "/api/operators", &once, body).await;
    assert_eq!((status, &body["error"]["code"]), (401, &json!("operator_unknown")), "{body}");
    gateway.stop().await;
}
