//! The API on a store in a file, as a command has it.

mod keys;

use std::{fs, sync::Arc};

use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Service;
use airlock_config::Config;
use airlock_core::operator::{Operator, Role};
use airlock_operator_api::{Management as _, ManagementRefusal, ManagementRequest};

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
async fn a_list_of_calls_tells_whether_the_call_log_is_on() {
    for is_on in [true, false] {
        let desk = Desk::with(&json!({"records": {"call_log": {"enabled": is_on}}}));
        for path in ["/api/mcp-logs", "/api/logs"] {
            let listed = desk.ask(Role::Viewer, Method::GET, path, Value::Null).await;
            assert_eq!(listed.expect("listed")["is_call_log_on"], is_on, "{path}");
        }
    }
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
        (json!({"tools_to_exclude": ["c", "a"]}), 200),
        (json!({"tools_to_exclude": ["c"]}), 403),
        (json!({"tools_to_auto_execute": []}), 200),
        (json!({"tools_to_exclude": ["c"]}), 200),
    ] {
        let found = desk.status(Role::Operator, Method::PUT, path, change.clone()).await;
        assert_eq!(found, expected, "{change}");
    }
}

#[tokio::test]
async fn an_administrator_without_sees_payloads_cannot_give_it() {
    let desk = Desk::new();
    let seeing = json!({"name": "bob", "role": "viewer", "sees_payloads": true});
    let refused = desk.ask(Role::Admin, Method::POST, "/api/operators", seeing.clone()).await;
    assert_eq!(refused.expect_err("it is refused").code, "payloads_hidden");
    let operator = Operator { name: "cy".to_owned(), role: Role::Admin, sees_payloads: true };
    let adding = request(Method::POST, "/api/operators", seeing);
    assert!(desk.service.answer(Some(&operator), adding).await.is_ok());
}

#[tokio::test]
async fn an_operator_of_the_store_is_removed_although_the_file_has_its_name() {
    let desk = Desk::new();
    let path = "/api/operators/bob";
    let operator = json!({"name": "bob", "role": "admin"});
    assert_eq!(desk.status(Role::Admin, Method::POST, "/api/operators", operator).await, 200);
    let in_file = json!({"name": "bob", "role": "viewer", "token_sha256": "0".repeat(64)});
    write(&desk.directory, &json!({"management": {"operators": [in_file]}}));
    let desk = Desk { service: service(&desk.directory), directory: desk.directory };
    for expected in [200, 409] {
        assert_eq!(desk.status(Role::Admin, Method::DELETE, path, Value::Null).await, expected);
    }
    let listed = desk.ask(Role::Admin, Method::GET, "/api/operators", Value::Null).await;
    assert_eq!(listed.expect("listed")["count"], 1);
}

#[tokio::test]
async fn a_request_reads_nothing_before_it_has_a_place() {
    let desk = Desk::new();
    let other =
        Desk { service: service(&desk.directory), directory: tempfile::tempdir().expect("one") };
    assert_eq!(other.status(Role::Admin, Method::POST, KEYS, json!({"name": "a"})).await, 200);
    let places = desk.service.readers.acquire_many(2).await.expect("all places");
    let reading = desk.ask(Role::Viewer, Method::GET, KEYS, Value::Null);
    let changing = async {
        let made = other.status(Role::Admin, Method::POST, KEYS, json!({"name": "b"})).await;
        drop(places);
        made
    };
    let (listed, made) = tokio::join!(reading, changing);
    assert_eq!(made, 200);
    assert_eq!(listed.expect("listed")["count"], 2);
}

#[tokio::test]
async fn many_changes_at_once_are_all_made() {
    let desk = Desk::new();
    let names: Vec<_> = (0..24).map(|number| format!("key-{number}")).collect();
    let making = names
        .iter()
        .map(|name| desk.status(Role::Operator, Method::POST, KEYS, json!({"name": name})));
    assert_eq!(futures_util::future::join_all(making).await, [200; 24]);
}

#[tokio::test]
async fn a_setting_is_changed_and_reverted_by_administrators() {
    let desk = Desk::new();
    let config = "/api/config";
    let depth = json!({"client_config": {"mcp_agent_depth": 3}, "mcp": {"disabled": true}});
    assert_eq!(desk.status(Role::Operator, Method::PUT, config, depth.clone()).await, 403);
    let invalid = json!({"client_config": {"mcp_agent_depth": 1_000}, "mcp": {"disabled": true}});
    assert_eq!(desk.status(Role::Admin, Method::PUT, config, invalid).await, 400);
    assert_eq!(desk.changes().await, 0, "nothing is changed unless all values are valid");
    assert_eq!(desk.status(Role::Admin, Method::PUT, config, depth).await, 200);
    assert_eq!(desk.changes().await, 2);
    let state = desk.service.state().await.expect("read");
    assert_eq!((state.merged.config.agent.max_depth, state.merged.config.tools_off), (3, true));
    let revert = "/api/changes/2/revert";
    assert_eq!(desk.status(Role::Operator, Method::POST, revert, json!({})).await, 403);
    assert_eq!(desk.status(Role::Admin, Method::POST, revert, json!({})).await, 200);
    let state = desk.service.state().await.expect("read");
    assert_eq!((state.merged.config.agent.max_depth, state.merged.config.tools_off), (10, true));
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
async fn a_key_is_attached_to_a_virtual_mcp_and_detached_as_with_bifrost() {
    let desk = Desk::new();
    let groups = "/api/mcp/virtual-mcps";
    for name in ["ann", "bob"] {
        assert_eq!(desk.status(Role::Admin, Method::POST, KEYS, json!({"name": name})).await, 200);
    }
    for group in [
        json!({"name": "docs", "tools": [], "virtual_keys": ["ann"]}),
        json!({"name": "open", "tools": []}),
    ] {
        assert_eq!(desk.status(Role::Operator, Method::POST, groups, group).await, 200);
    }
    for (method, path, status) in [
        (Method::POST, "docs/virtual-keys/bob", 200),
        (Method::POST, "docs/virtual-keys/bob", 200),
        (Method::POST, "docs/virtual-keys/nobody", 400),
        (Method::POST, "none/virtual-keys/bob", 404),
        (Method::POST, "open/virtual-keys/bob", 409),
        (Method::DELETE, "docs/virtual-keys/ann", 200),
        (Method::DELETE, "docs/virtual-keys/ann", 404),
        (Method::DELETE, "docs/virtual-keys/bob", 409),
    ] {
        let whole = format!("{groups}/{path}");
        let found = desk.status(Role::Operator, method.clone(), &whole, Value::Null).await;
        assert_eq!(found, status, "{method} {path}");
    }
    let path = format!("{groups}/docs");
    let shown = desk.ask(Role::Viewer, Method::GET, &path, Value::Null).await.expect("shown");
    assert_eq!(shown["virtual_mcp"]["virtual_keys"], json!(["bob"]));
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
