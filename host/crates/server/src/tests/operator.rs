//! Operations of the operator on plugins and MCP servers.

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::*;
use airlock_core::operator::{Operator, Role};
use airlock_operator_api::{Management, ManagementRefusal, ManagementRequest};

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
        "query": "limit=1", "body": {"x": 1}, "setup_token": null, "has_session": false,
    });
    assert_eq!((status, body), (200, expected));
    let setup = [("x-bifrost-setup-token", "setup_1")];
    let (status, body) = gateway.ask(Method::POST, "/api/session/setup", &setup, "").await;
    let expected = json!({
        "operator": null, "method": "POST", "path": "/api/session/setup", "query": "", "body": null,
        "setup_token": "setup_1", "has_session": false,
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
    let (status, body) = gateway.get("/ready", &[]).await;
    assert_eq!(status, 503);
    assert_eq!(body, json!({"status": "unavailable", "reason": "settings_unavailable"}));
    settings_read.cancel();
    assert_eq!(gateway.get("/ready", &[]).await, (200, json!({"status": "ready"})));
    assert_eq!(gateway.get("/api/mcp/clients", &key).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_gateway_that_drains_is_alive_and_not_ready() {
    let gateway = Gateway::standard().await;
    assert_eq!(gateway.get("/ready", &[]).await.0, 200);
    gateway.live.current().mcp.closing().cancel();
    let draining = json!({"status": "unavailable", "reason": "draining"});
    assert_eq!(gateway.get("/ready", &[]).await, (503, draining));
    assert_eq!(gateway.get("/health", &[]).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_token_that_is_revoked_while_the_body_arrives_is_refused() {
    let once = [("authorization", "Bearer alop_once")];
    for (path, body) in [
        ("/api/operators", r#"{"name": "x", "role": "admin"}"#),
        ("/api/mcp/try", r#"{"tool": "x"}"#),
        ("/api/mcp/client/x/definitions/accept", r#"{"review": "x"}"#),
        ("/v1/approvals/x/approve", r#"{"shown": "x"}"#),
        ("/v1/approvals/approve", r#"{"calls": [{"id": "x", "shown": "x"}]}"#),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = airlock_store::Settings::new(directory.path().join("airlock.db"));
        let gateway = Gateway::with(settings(), &turns(), Some(store)).await;
        let (status, body) = gateway.ask(Method::POST, path, &once, body).await;
        let code = &body["error"]["code"];
        assert_eq!((status, code), (401, &json!("operator_unknown")), "{path}: {body}");
        gateway.stop().await;
    }
}

/// Fake management API that has each request until it is released.
struct Held {
    arrived: Semaphore,
    released: Semaphore,
}

impl Management for Held {
    fn operator(&self, _: &str) -> Option<Arc<Operator>> {
        let name = "ann".to_owned();
        Some(Arc::new(Operator { name, role: Role::Admin, sees_payloads: false }))
    }

    fn answer<'a>(
        &'a self,
        _: Option<&'a Operator>,
        request: ManagementRequest,
    ) -> BoxFuture<'a, Result<Value, ManagementRefusal>> {
        Box::pin(async move {
            self.arrived.add_permits(1);
            self.released.acquire().await.expect("it is open").forget();
            Ok(json!({"bytes": request.component.map(|component| component.len())}))
        })
    }
}

#[tokio::test]
async fn a_component_has_the_place_of_uploads_until_its_request_is_answered() {
    let held = Arc::new(Held { arrived: Semaphore::new(0), released: Semaphore::new(0) });
    let management: Arc<dyn Management> = held.clone();
    let hooks = hooks::with_management(None, management);
    let gateway = Gateway::with_hooks(settings(), fake::scripted(&json!([])), hooks).await;
    let upload = "POST /api/plugins HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer alop_ann\r\n\
                content-type: application/wasm\r\ncontent-length: 4\r\n\r\n\0asm";
    let leaving = gateway.connect(upload).await;
    soon(held.arrived.acquire()).await.expect("it is open").forget();
    // Neither a client that leaves nor other settings give its place to another component.
    drop(leaving);
    let models = fake::scripted(&json!([]));
    let replaced = gateway.live.replace(hooks::request_settings(settings(), models));
    replaced.expect("good settings");
    let wasm = [("authorization", "Bearer alop_ann"), ("content-type", "application/wasm")];
    let refused = gateway.send(Method::POST, "/api/plugins", &wasm, "\0asm").await;
    assert_eq!(refused.status().as_u16(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    let body: Value = refused.json().await.expect("JSON");
    assert_eq!(body["error"]["code"], "upload_in_progress", "{body}");
    held.released.add_permits(2);
    // The place is free when the task of the first upload has ended.
    let uploading = async {
        loop {
            let answered = gateway.ask(Method::POST, "/api/plugins", &wasm, "\0asm").await;
            if answered.0 != 503 {
                break answered;
            }
        }
    };
    let (status, body) = soon(uploading).await;
    assert_eq!((status, &body["bytes"]), (200, &json!(4)), "{body}");
    gateway.stop().await;
}
