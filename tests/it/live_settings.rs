//! MCP servers and virtual keys that change in the configuration file while the gateway runs.

use std::{fs, path::PathBuf};

use airlock_tests::{Client, Gateway, Reply, Setup, guests, misbehaving, wait};
use serde_json::{Value, json};

/// Credentials of virtual keys.
const ANN: &str = "sk-bf-ann-0123456789abc";
const BOB: &str = "sk-bf-bob-0123456789abc";

/// Changes the configuration file of a running gateway, as an editor does.
pub(super) fn edit(gateway: &Gateway, change: impl FnOnce(&mut Value)) {
    let path = gateway.directory().join("airlock.json");
    let text = fs::read_to_string(&path).expect("the configuration");
    let mut config = serde_json::from_str(&text).expect("JSON");
    change(&mut config);
    let new = path.with_extension("new");
    fs::write(&new, config.to_string()).expect("a file");
    fs::rename(&new, &path).expect("it takes its place");
}

fn clients(config: &mut Value) -> &mut Vec<Value> {
    config["mcp"]["client_configs"].as_array_mut().expect("a list")
}

/// Returns the entry of a server, as the file has it.
fn entry<const N: usize>(name: &str, modes: [&str; N]) -> Value {
    let setup = Setup::new().client(misbehaving(name, modes));
    let text = fs::read_to_string(setup.write()).expect("the configuration");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    clients(&mut config).remove(0)
}

async fn logged(gateway: &Gateway, text: &str) -> String {
    let line = async || gateway.said().lines().find(|line| line.contains(text)).map(str::to_owned);
    wait::until(text, line).await
}

/// Returns the number of the process of the server `up`.
async fn pid(gateway: &Gateway) -> String {
    gateway.execute("up-pid", &json!({})).await.content()
}

/// Calls a tool. Returns the code of the error; empty if there is none.
async fn refusal(gateway: &Gateway, tool: &str) -> String {
    let reply = gateway.execute(tool, &json!({})).await;
    reply.body["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// Calls the tool `pid` of the server `up` with a virtual key.
async fn with_key(gateway: &Gateway, key: &str) -> Reply {
    gateway.execute_with(&[("x-bf-vk", key)], "up-pid", &json!({})).await
}

/// Waits until a process has ended. One that is not reaped counts as ended.
async fn ended(pid: &str) {
    let status = PathBuf::from(format!("/proc/{pid}/status"));
    wait::until("a process to end", async || match fs::read_to_string(&status) {
        Ok(status) => status.contains("State:\tZ").then_some(()),
        Err(_) => Some(()),
    })
    .await;
}

#[tokio::test]
async fn a_new_server_is_connected_and_a_removed_one_is_gone_with_its_process() {
    let gateway = Setup::new().serve().await;
    edit(&gateway, |config| clients(config).push(entry("up", [])));
    gateway.connected("up").await;
    let process = pid(&gateway).await;
    let taken = logged(&gateway, "changed settings applied").await;
    assert!(taken.contains("added=\"up\""), "{taken}");
    let text = gateway.metrics().await;
    assert!(text.contains("airlock_tool_calls_total{client=\"up\",tool=\"up-pid\""), "{text}");

    edit(&gateway, |config| clients(config)[0]["disabled"] = json!(true));
    let taken = logged(&gateway, "disabled=\"up\"").await;
    assert!(taken.contains("removed=\"\""), "{taken}");
    logged(&gateway, "upstream server disabled").await;
    assert!(!gateway.said().contains("upstream server removed"));
    ended(&process).await;
    edit(&gateway, |config| clients(config)[0]["disabled"] = json!(false));
    gateway.connected("up").await;
    let process = pid(&gateway).await;

    edit(&gateway, |config| clients(config).clear());
    let is_gone = async || gateway.client("up").await.is_none().then_some(());
    wait::until("the server to be removed", is_gone).await;
    assert_eq!(refusal(&gateway, "up-pid").await, "not_found");
    ended(&process).await;
    let text = gateway.metrics().await;
    assert!(!text.contains("client=\"up\""), "{text}");
}

#[tokio::test]
async fn a_changed_policy_is_in_force_and_the_process_goes_on() {
    let gateway = Setup::new().client(misbehaving("up", [])).serve_connected().await;
    let process = pid(&gateway).await;
    edit(&gateway, |config| clients(config)[0]["tools_to_execute"] = json!(["pid"]));
    wait::until("the list to be in force", async || {
        (refusal(&gateway, "up-echo").await == "not_found").then_some(())
    })
    .await;
    assert_eq!(pid(&gateway).await, process);
    edit(&gateway, |config| clients(config)[0]["prefix"] = json!("other"));
    wait::until("the prefix to be in force", async || {
        let reply = gateway.execute("other-pid", &json!({})).await;
        (reply.status == 200).then(|| assert_eq!(reply.content(), process))
    })
    .await;
    assert_eq!(pid(&gateway).await, process, "callers find a tool by its full name as well");
}

#[tokio::test]
async fn a_changed_command_leaves_running_calls_alone_and_new_calls_reach_the_new_process() {
    let gateway = Setup::new().client(misbehaving("up", [])).serve_connected().await;
    let old = pid(&gateway).await;
    let file = gateway.directory().join("file");
    let waiting = PathBuf::from(format!("{}.waiting", file.display()));
    let arguments = json!({"file": file});
    let mut running = Box::pin(gateway.execute("up-wait_for", &arguments));
    tokio::select! {
        reply = &mut running => panic!("it ended at once: {}", reply.body),
        () = wait::until("the call to run", async || waiting.exists().then_some(())) => {}
    }
    edit(&gateway, |config| clients(config)[0]["stdio_config"]["args"] = json!(["noise"]));
    let change = async {
        // The old process handles one call after the other.
        wait::until("the new process to list its tools", async || {
            let said = gateway.said();
            (said.matches("upstream server listed its tools").count() == 2).then_some(())
        })
        .await;
        assert_ne!(pid(&gateway).await, old);
    };
    tokio::select! {
        reply = &mut running => panic!("it ended: {}", reply.body),
        () = change => {}
    }
    fs::write(&file, "").expect("a file");
    assert_eq!(running.await.content(), "it is there");
    ended(&old).await;
    assert_ne!(pid(&gateway).await, old);
}

#[tokio::test]
async fn a_server_whose_new_command_fails_keeps_its_tools_and_says_why() {
    let gateway = Setup::new().client(misbehaving("up", [])).serve_connected().await;
    let old = pid(&gateway).await;
    edit(&gateway, |config| {
        clients(config)[0]["stdio_config"]["command"] = json!("/nowhere/server");
    });
    let failed = gateway.in_state("up", "error").await;
    assert!(failed.to_string().contains("/nowhere/server"), "{failed:#}");
    ended(&old).await;
    assert_eq!(refusal(&gateway, "up-pid").await, "unavailable");
    edit(&gateway, |config| clients(config)[0] = entry("up", []));
    gateway.connected("up").await;
    assert_ne!(pid(&gateway).await, old);
}

#[tokio::test]
async fn a_disabled_server_is_shown_as_disabled_and_its_process_ends() {
    let gateway = Setup::new().client(misbehaving("up", [])).serve_connected().await;
    let process = pid(&gateway).await;
    edit(&gateway, |config| clients(config)[0]["disabled"] = json!(true));
    wait::until("the server to be disabled", async || {
        gateway.client("up").await.filter(|client| client["phase"] == "disabled")
    })
    .await;
    ended(&process).await;
    edit(&gateway, |config| clients(config)[0]["disabled"] = json!(false));
    gateway.connected("up").await;
    assert_ne!(pid(&gateway).await, process);
}

#[tokio::test]
async fn a_removed_key_is_refused_and_a_new_one_accepted() {
    let setup = Setup::new().client(misbehaving("up", [])).key("ann", ANN, &[("up", &["pid"])]);
    let gateway = setup.set("/server/require_virtual_key", false).serve_connected().await;
    assert_eq!(with_key(&gateway, ANN).await.status, 200);
    edit(&gateway, |config| {
        let keys = &mut config["governance"]["virtual_keys"];
        keys[0]["name"] = json!("bob");
        keys[0]["value"] = json!(BOB);
    });
    wait::until("the key to be refused", async || {
        (with_key(&gateway, ANN).await.status == 401).then_some(())
    })
    .await;
    assert_eq!(with_key(&gateway, BOB).await.status, 200);
    let taken = logged(&gateway, "changed settings applied").await;
    assert!(
        taken.contains("keys_added=\"bob\"") && taken.contains("keys_removed=\"ann\""),
        "{taken}"
    );
    assert!(!gateway.said().contains("sk-bf-"), "a credential is in the log");
}

#[tokio::test]
async fn an_invalid_file_changes_nothing() {
    let setup = Setup::new().client(misbehaving("up", [])).key("ann", ANN, &[("up", &["pid"])]);
    let gateway = setup.set("/server/require_virtual_key", false).serve_connected().await;
    let process = with_key(&gateway, ANN).await.content();
    edit(&gateway, |config| {
        clients(config).clear();
        config["governance"]["virtual_keys"] = json!([]);
        config["server"]["max_conections"] = json!(1);
    });
    let refused = logged(&gateway, "so none of its entries is applied").await;
    assert!(refused.contains("server.max_conections"), "{refused}");
    assert_eq!(with_key(&gateway, ANN).await.content(), process);
}

#[tokio::test]
async fn the_first_key_is_required_as_soon_as_it_is_added() {
    let gateway = Setup::new().client(misbehaving("up", [])).serve_connected().await;
    assert_eq!(refusal(&gateway, "up-echo").await, "");
    edit(&gateway, |config| {
        let row = json!({"mcp_client_name": "up", "tools_to_execute": ["pid"]});
        let key = json!({"name": "ann", "value": ANN, "mcp_configs": [row]});
        config["governance"]["virtual_keys"] = json!([key]);
    });
    wait::until("a key to be required", async || {
        (refusal(&gateway, "up-pid").await == "invalid_api_key").then_some(())
    })
    .await;
    assert_eq!(with_key(&gateway, ANN).await.status, 200);
    edit(&gateway, |config| config["governance"]["virtual_keys"] = json!([]));
    wait::until("the key to be refused", async || {
        (with_key(&gateway, ANN).await.status == 401).then_some(())
    })
    .await;
    assert_eq!(refusal(&gateway, "up-pid").await, "invalid_api_key", "it opens nothing");
}

#[tokio::test]
async fn a_plugin_and_a_server_can_take_each_others_name() {
    let plugin = Client::wasm("up", guests::TEXT);
    let gateway = Setup::new().client(plugin).serve_connected().await;
    edit(&gateway, |config| clients(config)[0] = entry("up", []));
    wait::until("the server to have the name", async || {
        (gateway.execute("up-pid", &json!({})).await.status == 200).then_some(())
    })
    .await;
    let process = pid(&gateway).await;
    edit(&gateway, |config| {
        clients(config)[0] = json!({
            "name": "up", "connection_type": "wasm", "tools_to_execute": ["*"],
            "wasm_config": {"component": guests::TEXT},
        });
    });
    ended(&process).await;
    let client = gateway.connected("up").await;
    assert_eq!(client["config"]["connection_type"], "wasm", "{client:#}");
}
