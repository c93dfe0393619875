//! The API on a store in a file, as a command has it.

use std::{fs, sync::Arc};

use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Service;
use airlock_config::Config;
use airlock_core::operator::{Operator, Role};
use airlock_server::{Management as _, ManagementRefusal, ManagementRequest};

const KEYS: &str = "/api/governance/virtual-keys";

struct Desk {
    service: Arc<Service>,
    directory: TempDir,
}

impl Desk {
    /// Returns the API for a configuration with a client, whose tool `a` needs no approval.
    fn new() -> Self {
        let client = json!({
            "name": "fs", "connection_type": "stdio", "stdio_config": {"command": "/bin/true"},
            "tools_to_execute": ["a", "b"], "tools_to_auto_execute": ["a"],
        });
        let directory = tempfile::tempdir().expect("a directory");
        let config = json!({"mcp": {"client_configs": [client]}});
        fs::write(directory.path().join("airlock.json"), config.to_string()).expect("a file");
        Self { service: service(&directory), directory }
    }

    async fn ask(
        &self,
        role: Role,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Value, ManagementRefusal> {
        let operator = Operator { name: "ann".to_owned(), role, sees_payloads: false };
        self.service.answer(Some(&operator), request(method, path, body)).await
    }

    async fn status(&self, role: Role, method: Method, path: &str, body: Value) -> u16 {
        let answered = self.ask(role, method, path, body).await;
        answered.map_or_else(|refused| refused.status.as_u16(), |_| 200)
    }

    async fn changes(&self) -> usize {
        let listed = self.ask(Role::Viewer, Method::GET, "/api/changes", Value::Null).await;
        listed.expect("listed")["changes"].as_array().expect("a list").len()
    }
}

fn service(directory: &TempDir) -> Arc<Service> {
    let config = Config::load(&directory.path().join("airlock.json")).expect("a configuration");
    Service::of_store(&config).expect("no key is needed")
}

fn request(method: Method, path: &str, body: Value) -> ManagementRequest {
    ManagementRequest {
        method,
        path: path.to_owned(),
        query: String::new(),
        body: Some(body).filter(|body| !body.is_null()),
        setup_token: None,
    }
}

#[tokio::test]
async fn a_change_of_nothing_is_not_recorded() {
    let desk = Desk::new();
    let key = json!({"name": "ci"});
    assert_eq!(desk.status(Role::Operator, Method::POST, KEYS, key).await, 200);
    let path = format!("{KEYS}/ci");
    for _ in 0..3 {
        assert_eq!(desk.status(Role::Operator, Method::PUT, &path, json!({})).await, 200);
    }
    assert_eq!(desk.changes().await, 1);
    let change = json!({"description": "for builds"});
    assert_eq!(desk.status(Role::Operator, Method::PUT, &path, change).await, 200);
    assert_eq!(desk.changes().await, 2);
}

#[tokio::test]
async fn a_key_that_is_named_twice_is_rotated_once() {
    let desk = Desk::new();
    let made = desk.ask(Role::Admin, Method::POST, KEYS, json!({"name": "ci"})).await;
    let id = made.expect("made")["virtual_key"]["id"].clone();
    let path = format!("{KEYS}/rotate");
    let ids = json!({"ids": ["ci", id], "cooldown": "1h"});
    let rotated = desk.ask(Role::Admin, Method::POST, &path, ids).await.expect("rotated");
    assert_eq!(rotated["virtual_keys"].as_array().map(Vec::len), Some(1), "{rotated}");
    assert_eq!(desk.changes().await, 2);
}

#[tokio::test]
async fn an_operator_changes_lists_and_neither_approvals_nor_connections() {
    let desk = Desk::new();
    let path = "/api/mcp/client/fs";
    for (change, operator, admin) in [
        (json!({"tools_to_auto_execute": ["a", "b"]}), 403, 200),
        (json!({"tools_to_auto_execute": ["*"]}), 403, 400),
        (json!({"tools_to_auto_execute": []}), 200, 200),
        (json!({"tools_to_execute": ["b"]}), 200, 200),
        (json!({"client_id": "other"}), 403, 200),
        (json!({"trust": "trusted"}), 403, 200),
        (json!({"stdio_config": {"command": "/bin/false"}}), 400, 400),
        (json!({"name": "other"}), 400, 400),
    ] {
        let found = desk.status(Role::Operator, Method::PUT, path, change.clone()).await;
        assert_eq!(found, operator, "{change}");
        let found = desk.status(Role::Admin, Method::PUT, path, change.clone()).await;
        assert_eq!(found, admin, "{change}");
    }
    let revert = desk.status(Role::Operator, Method::POST, "/api/changes/1/revert", json!({}));
    assert_eq!(revert.await, 403);
}

#[tokio::test]
async fn a_setup_token_ends_with_the_first_operator_wherever_it_was_added() {
    let desk = Desk::new();
    desk.service.refresh_operators().await.expect("read");
    let token = desk.service.begin_setup().expect("randomness").expect("there is no operator");
    let other =
        Desk { service: service(&desk.directory), directory: tempfile::tempdir().expect("one") };
    let operator = json!({"name": "bob", "role": "admin"});
    let added = other.status(Role::Admin, Method::POST, "/api/operators", operator);
    assert_eq!(added.await, 200);
    desk.service.refresh_operators().await.expect("read");
    let removed = other.status(Role::Admin, Method::DELETE, "/api/operators/bob", Value::Null);
    assert_eq!(removed.await, 200);
    let setup = request(Method::POST, "/api/session/setup", json!({"setup_token": token.expose()}));
    let refused = desk.service.answer(None, setup).await.expect_err("the token has ended");
    assert_eq!(refused.status, 409);
}
