//! The API on a store in a file, as a command has it.

mod keys;

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
        Self::with(&json!({"mcp": {"client_configs": [client]}}))
    }

    /// Returns the API for a configuration.
    fn with(config: &Value) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        write(&directory, config);
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

/// Writes the configuration file.
fn write(directory: &TempDir, config: &Value) {
    fs::write(directory.path().join("airlock.json"), config.to_string()).expect("a file");
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
        component: None,
        setup_token: None,
        session: None,
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
async fn an_operator_uncovers_no_tool_that_would_need_no_approval() {
    let desk = Desk::new();
    let path = "/api/mcp/client/fs";
    let all = json!({
        "tools_to_execute": ["*"], "tools_to_auto_execute": ["*"], "tools_to_exclude": ["b"],
    });
    assert_eq!(desk.status(Role::Admin, Method::PUT, path, all).await, 200);
    for (change, expected) in [
        (json!({"tools_to_exclude": []}), 403),
        (json!({"tools_to_exclude": null}), 403),
        (json!({"tools_to_exclude": ["c"]}), 403),
        (json!({"tools_to_exclude": ["c", "b"]}), 200),
        (json!({"tools_to_auto_execute": ["a"]}), 200),
        (json!({"tools_to_exclude": ["c"]}), 200),
    ] {
        let found = desk.status(Role::Operator, Method::PUT, path, change.clone()).await;
        assert_eq!(found, expected, "{change}");
    }
}

#[tokio::test]
async fn a_virtual_mcp_takes_identifiers_of_keys_in_the_place_of_names() {
    let desk = Desk::new();
    let groups = "/api/mcp/virtual-mcps";
    let mut ids = Vec::new();
    for name in ["ann", "bob"] {
        let made = desk.ask(Role::Operator, Method::POST, KEYS, json!({"name": name})).await;
        ids.push(made.expect("made")["virtual_key"]["id"].clone());
    }
    let group = json!({"name": "docs", "tools": [], "virtual_key_ids": [ids[0]]});
    assert_eq!(desk.status(Role::Operator, Method::POST, groups, group).await, 200);
    let path = format!("{groups}/docs");
    for (change, expected) in [
        (json!({}), "ann"),
        (json!({"virtual_key_ids": [ids[1]]}), "bob"),
        (json!({"virtual_key_ids": ["ann"], "virtual_keys": ["ann"]}), "ann"),
    ] {
        let updated = desk.ask(Role::Operator, Method::PUT, &path, change.clone()).await;
        let group = updated.expect("updated")["virtual_mcp"].clone();
        assert_eq!(group["virtual_keys"], json!([expected]), "{change}");
    }
    for change in [
        json!({"virtual_key_ids": []}),
        json!({"virtual_key_ids": "bob"}),
        json!({"virtual_key_ids": ["nobody"]}),
        json!({"virtual_key_ids": ["bob"], "virtual_keys": ["ann"]}),
    ] {
        let found = desk.status(Role::Operator, Method::PUT, &path, change.clone()).await;
        assert_eq!(found, 400, "{change}");
    }
}

#[tokio::test]
async fn what_a_key_names_is_neither_deleted_nor_reverted() {
    let desk = Desk::new();
    let roles = "/api/governance/roles";
    let row = json!({"mcp_client_name": "fs", "tools_to_execute": ["a"]});
    let role = json!({"name": "reader", "mcp_configs": [row]});
    assert_eq!(desk.status(Role::Viewer, Method::POST, roles, role.clone()).await, 403);
    assert_eq!(desk.status(Role::Operator, Method::POST, roles, role).await, 200);
    let key = json!({"name": "ci", "roles": ["reader"]});
    assert_eq!(desk.status(Role::Operator, Method::POST, KEYS, key).await, 200);
    let revert = desk.status(Role::Operator, Method::POST, "/api/changes/1/revert", json!({}));
    assert_eq!(revert.await, 409);
    let path = format!("{roles}/reader");
    assert_eq!(desk.status(Role::Operator, Method::DELETE, &path, Value::Null).await, 409);
    let key = format!("{KEYS}/ci");
    let without = desk.status(Role::Operator, Method::PUT, &key, json!({"roles": []}));
    assert_eq!(without.await, 200);
    assert_eq!(desk.status(Role::Operator, Method::DELETE, &path, Value::Null).await, 200);
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
