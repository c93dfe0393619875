//! Teams, roles, environments and virtual MCPs that operators make while gateways run, and the switch of
//! all tools.

use airlock_tests::{Airlock, Gateway, OPERATOR, Reply, wait};
use reqwest::Method;
use serde_json::{Value, json};

use super::{KEYS, SharedStore, setup, texts};

const TEAMS: &str = "/api/governance/teams";
const MCPS: &str = "/api/mcp/virtual-mcps";
const TEXT: &str = "/api/mcp/client/text";

/// Makes a key with these members beside its name. Returns its value.
async fn key_with(gateway: &Gateway, name: &str, mut members: Value) -> String {
    members["name"] = name.into();
    let made = gateway.post(KEYS, &members).await.ok();
    made["virtual_key"]["value"].as_str().expect("the value is shown once").to_owned()
}

/// Returns the code of the refusal of a call of the plugin; empty if it is permitted.
async fn call(gateway: &Gateway, key: &str) -> String {
    let arguments = json!({"text": "one two"});
    let reply = gateway.execute_with(&[("x-bf-vk", key)], "text-word_count", &arguments).await;
    reply.body["error"]["code"].as_str().unwrap_or_default().to_owned()
}

async fn until_call(gateway: &Gateway, key: &str, code: &str) {
    let awaited = format!("a call to end with {code:?}");
    wait::until(&awaited, async || (call(gateway, key).await == code).then_some(())).await;
}

#[tokio::test]
async fn a_client_of_a_team_exists_for_the_keys_of_the_team_alone() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let made = first.post(TEAMS, &json!({"name": "desk", "customer_id": null})).await.ok();
        assert_eq!(made["message"], "Team created successfully");
        let team = made["team"]["id"].as_str().expect("an identifier").to_owned();
        let row = json!([{"mcp_client_name": "text", "tools_to_execute": ["*"]}]);
        let ann = key_with(&first, "ann", json!({"team_id": team})).await;
        let bob = key_with(&first, "bob", json!({"mcp_configs": row})).await;
        let _ = first.put(TEXT, &json!({"teams": ["desk"]})).await.ok();
        assert_eq!([call(&first, &ann).await, call(&first, &bob).await], ["", "not_found"]);
        until_call(&second, &ann, "").await;
        until_call(&second, &bob, "not_found").await;
        let explained = second.get("/api/mcp/explain?key=bob").await.ok();
        assert_eq!(explained["concealed"][0]["rule"], "owner");
        let listed = second.get(&format!("{KEYS}?team_id=desk")).await.ok();
        assert_eq!(texts(&listed, "virtual_keys", "name"), ["ann"]);

        let path = format!("{TEAMS}/{team}");
        let needed = second.delete(&path).await;
        assert!(
            needed.refusal().0 == 409 && needed.refusal().1.contains("\"ann\""),
            "{}",
            needed.text
        );
        let _ = second.put(&format!("{KEYS}/ann"), &json!({"team_id": null})).await.ok();
        assert_eq!(call(&second, &ann).await, "not_found");
        assert_eq!(second.delete(&path).await.status, 200);
        let settings = second.get("/api/settings").await.ok();
        assert_eq!(settings["warnings"][0]["code"], "owner_absent", "{}", settings["warnings"]);
        wait::until("the log to name the owner", async || {
            first.said().contains("owner that does not exist").then_some(())
        })
        .await;
        // The deletion is reverted, and the key joins the team again.
        let last = second.get("/api/changes?limit=1").await.ok()["changes"][0]["id"].clone();
        let _ = second.post(&format!("/api/changes/{last}/revert"), &json!({})).await.ok();
        let _ = second.put(&format!("{KEYS}/ann"), &json!({"team_id": "desk"})).await.ok();
        assert_eq!(call(&second, &ann).await, "");
        until_call(&first, &ann, "").await;
    }
}

#[tokio::test]
async fn roles_and_environments_are_made_for_keys_and_kept_while_keys_have_them() {
    let store = &SharedStore::all()[0];
    let gateway = setup(store).serve_connected().await;
    let row = json!([{"mcp_client_name": "text", "tools_to_execute": ["word_count"]}]);
    let role = json!({"name": "reader", "mcp_configs": row});
    let _ = gateway.post("/api/governance/roles", &role).await.ok();
    let environment = json!({"name": "eu", "clients": ["text"]});
    let _ = gateway.post("/api/governance/environments", &environment).await.ok();
    let ann = key_with(&gateway, "ann", json!({"roles": ["reader"], "environment": "eu"})).await;
    assert_eq!(call(&gateway, &ann).await, "");
    let config = gateway.directory().join("airlock.json");
    let words =
        ["key", "new", "ci", "--role", "reader", "--environment", "eu", "--json", "--config"];
    let made = words.iter().fold(Airlock::new(), Airlock::arg).arg(config);
    let made = made.env("AIRLOCK_OPERATOR_TOKEN", "").run().await.ok().json();
    let members = [&made["virtual_key"]["roles"], &made["virtual_key"]["environment"]];
    assert_eq!(members, [&json!(["reader"]), &json!("eu")]);
    let explained = gateway.get("/api/mcp/explain?role=reader&tool=text-word_count").await.ok();
    assert_eq!(explained["tools"][0]["visible"], "models");
    for (list, name) in [("roles", "reader"), ("environments", "eu")] {
        let needed = gateway.delete(&format!("/api/governance/{list}/{name}")).await;
        assert_eq!(needed.status, 409, "{}", needed.text);
    }
    let excluded = json!({"tools_to_exclude": ["text-*"]});
    let _ = gateway.put("/api/governance/environments/eu", &excluded).await.ok();
    assert_eq!(call(&gateway, &ann).await, "not_found");
    for (path, body, status, words) in [
        ("roles", json!({"name": "reader"}), 409, "already exists"),
        ("roles", json!({"name": " "}), 400, "Role name is required"),
        ("roles", json!({"name": "a b"}), 400, "letters, digits"),
        ("roles", json!({"name": "x", "mcp_configs": [{"mcp_client_name": "nix"}]}), 400, "nix"),
        ("teams", json!({"name": "x", "budgets": [{"max_limit": 1}]}), 400, "reset_duration"),
        ("teams", json!({"name": "x", "customer_id": "nix"}), 400, "nix"),
        ("customers", json!({"name": "x", "colour": 1}), 400, "colour"),
        ("virtual-keys", json!({"name": "x", "rate_limit": {"requests": 1}}), 400, "rate_limit"),
    ] {
        let refused = gateway.post(&format!("/api/governance/{path}"), &body).await;
        let (found, message) = refused.refusal();
        assert!(found == status && message.contains(words), "{body}: {found} {message}");
    }
    let unknown = gateway.get("/api/governance/teams/nix").await;
    assert_eq!(unknown.refusal(), (404, "Team not found"));
}

#[tokio::test]
async fn a_virtual_mcp_is_served_where_it_was_made_and_on_other_gateways() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let tools = json!([{"mcp_client_id": "text", "tool_names": ["*"]}]);
        let made = first.post(MCPS, &json!({"name": "Docs", "tools": tools})).await.ok();
        assert_eq!(made["virtual_mcp"]["tools"][0]["mcp_client_name"], "text");
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let listed = async |gateway: &Gateway| gateway.post("/mcp/docs", &list).await;
        let tools = listed(&first).await.ok()["result"]["tools"].clone();
        assert!(tools.as_array().is_some_and(|tools| !tools.is_empty()), "{tools}");
        let is_served = async || (listed(&second).await.status == 200).then_some(());
        wait::until("the second gateway to serve it", is_served).await;
        let clash = second.post(MCPS, &json!({"name": "text", "tools": []})).await;
        assert_eq!(clash.status, 400, "{}", clash.text);
        let _ = second.put(&format!("{MCPS}/Docs"), &json!({"enabled": false})).await.ok();
        assert_eq!(listed(&second).await.status, 404);
        let is_gone = async || (listed(&first).await.status == 404).then_some(());
        wait::until("the first gateway to drop it", is_gone).await;
    }
}

#[tokio::test]
async fn the_tools_of_all_gateways_are_switched_off_and_on_by_the_api() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let call = async |gateway: &Gateway| {
            let reply = gateway.execute("text-word_count", &json!({"text": "x"})).await;
            reply.body["error"]["code"].as_str().unwrap_or_default().to_owned()
        };
        let shown = first.get("/api/config").await.ok();
        assert_eq!(shown["client_config"]["mcp_agent_depth"], 10);
        assert_eq!(shown["mcp"]["disabled"], false);
        let off = json!({"mcp": {"disabled": true}, "client_config": shown["client_config"]});
        let switched = first.put("/api/config", &off).await.ok();
        assert_eq!(switched["mcp"]["disabled"], true);
        assert_eq!(call(&first).await, "tools_disabled");
        let is_off = async || (call(&second).await == "tools_disabled").then_some(());
        wait::until("the second gateway to switch off", is_off).await;
        let depth = json!({"client_config": {"mcp_agent_depth": 3}});
        let changed = second.put("/api/config", &depth).await.ok();
        assert_eq!(changed["client_config"]["mcp_agent_depth"], 3);
        let is_taken = async || {
            let shown = first.get("/api/config").await.ok();
            (shown["mcp"]["tool_manager_config"]["max_agent_depth"] == 3).then_some(())
        };
        wait::until("the first gateway to take the setting", is_taken).await;

        // Who may change lists may switch off, and an administrator on again.
        let operator = json!({"name": "op", "role": "operator"});
        let token = first.post("/api/operators", &operator).await.ok()["token"].clone();
        let put = async |token: &str, is_off: bool| {
            let request = first.request(Method::PUT, "/api/config").bearer_auth(token);
            Reply::fetch(request.json(&json!({"mcp": {"disabled": is_off}}))).await.status
        };
        let token = token.as_str().expect("a token");
        assert_eq!([put(token, true).await, put(token, false).await], [200, 403]);
        assert_eq!(put(OPERATOR, false).await, 200);
        assert_eq!(call(&first).await, "");
    }
}
