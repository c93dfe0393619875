//! Changes of the configuration file while the gateway runs: it takes the entries of plugins, and names
//! the rest.

use std::fs;

use airlock_tests::{Client, Gateway, Setup, component, guests, wait};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

/// Changes the configuration file of a running gateway, as an editor does.
fn edit(gateway: &Gateway, change: impl FnOnce(&mut Value)) {
    let path = gateway.directory().join("airlock.json");
    let text = fs::read_to_string(&path).expect("the configuration");
    let mut config = serde_json::from_str(&text).expect("JSON");
    change(&mut config);
    let new = path.with_extension("new");
    fs::write(&new, config.to_string()).expect("a file");
    fs::rename(&new, &path).expect("it takes its place");
}

/// Returns the grants of the first client.
fn grants(config: &mut Value) -> &mut Value {
    &mut config["mcp"]["client_configs"][0]["wasm_config"]["grants"]
}

fn clients(config: &mut Value) -> &mut Vec<Value> {
    config["mcp"]["client_configs"].as_array_mut().expect("a list")
}

async fn logged(gateway: &Gateway, text: &str) -> String {
    let line = async || gateway.said().lines().find(|line| line.contains(text)).map(str::to_owned);
    wait::until(text, line).await
}

async fn add_note(gateway: &Gateway) -> airlock_tests::Reply {
    gateway.execute("notes-add_note", &json!({"title": "t", "text": "x"})).await
}

#[tokio::test]
async fn new_grants_and_new_plugins_are_taken_and_the_keys_that_need_a_restart_are_named() {
    let setup = Setup::new().client(Client::wasm("notes", guests::NOTES));
    let gateway = setup.serve().await;
    let failed = gateway.in_state("notes", "error").await;
    assert!(failed.to_string().contains("kv.notes"), "{failed:#}");

    edit(&gateway, |config| {
        *grants(config) = json!({"kv": {"notes": {}}});
        let text = json!({"name": "text", "connection_type": "wasm", "tools_to_execute": ["*"], "wasm_config": {"component": guests::TEXT}});
        clients(config).push(text);
        config["server"]["listen"] = json!("127.0.0.1:1");
    });
    gateway.connected("notes").await;
    gateway.connected("text").await;
    let _ = add_note(&gateway).await.ok();
    let taken = logged(&gateway, "changed settings applied").await;
    assert!(taken.contains("wasm_config.grants.kv.notes") && taken.contains("text"), "{taken}");
    let pending = logged(&gateway, "applied only when the gateway is restarted").await;
    assert!(pending.contains("server.listen"), "{pending}");
    assert!(!pending.contains("client_configs"), "{pending}");

    edit(&gateway, |config| drop(clients(config).remove(0)));
    let is_gone = async || gateway.client("notes").await.is_none().then_some(());
    wait::until("the plugin to be removed", is_gone).await;
    assert_eq!(add_note(&gateway).await.code(), "not_found");
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_the_reason_is_logged_and_returned() {
    let granted = Client::wasm("notes", guests::NOTES)
        .set("/wasm_config/grants", json!({"kv": {"notes": {}}}));
    let gateway = Setup::new().client(granted).serve_connected().await;
    edit(&gateway, |config| {
        clients(config).clear();
        config["server"]["max_conections"] = json!(1);
    });
    let refused = logged(&gateway, "the configuration file is invalid or").await;
    assert!(refused.contains("server.max_conections"), "{refused}");
    assert!(refused.contains("so none of its entries is applied"), "{refused}");
    let _ = add_note(&gateway).await.ok();
    let reload = gateway.post("/api/mcp/client/notes/reload", &json!({})).await;
    assert_eq!((reload.status, reload.code()), (422, "configuration_invalid"), "{}", reload.body);
    let message = reload.body["error"]["message"].as_str().expect("a message");
    assert!(message.contains("server.max_conections"), "{message}");
}

#[tokio::test]
async fn a_plugin_that_needs_a_grant_which_is_taken_away_is_withdrawn() {
    let granted = Client::wasm("notes", guests::NOTES)
        .set("/wasm_config/grants", json!({"kv": {"notes": {}}}));
    let gateway = Setup::new().client(granted).serve_connected().await;
    let _ = add_note(&gateway).await.ok();
    edit(&gateway, |config| *grants(config) = json!({}));
    kill_process(gateway.pid(), Signal::HUP).expect("it runs");
    let failed = gateway.in_state("notes", "error").await;
    assert!(failed.to_string().contains("kv.notes"), "{failed:#}");
    assert_eq!(add_note(&gateway).await.code(), "not_found");
}

#[tokio::test]
async fn a_store_that_becomes_shared_hides_the_entries_of_its_holders_and_the_log_says_so() {
    let granted = Client::wasm("notes", guests::NOTES)
        .set("/wasm_config/grants", json!({"kv": {"notes": {}}}));
    let gateway = Setup::new().client(granted).serve_connected().await;
    let _ = add_note(&gateway).await.ok();
    edit(&gateway, |config| *grants(config) = json!({"kv": {"notes": {"shared": true}}}));
    let hidden = logged(&gateway, "so entries of single holders are hidden").await;
    assert!(hidden.contains("store=\"notes\"") && hidden.contains("holders=1"), "{hidden}");
    assert!(hidden.contains("--from HOLDER --to shared"), "{hidden}");
}

#[tokio::test]
async fn a_reload_takes_a_new_entry_before_it_answers() {
    let gateway = Setup::new().client(Client::wasm("text", guests::TEXT)).serve_connected().await;
    edit(&gateway, |config| {
        let notes = json!({
            "name": "notes", "connection_type": "wasm", "tools_to_execute": ["*"],
            "wasm_config": {"component": guests::NOTES, "grants": {"kv": {"notes": {}}}},
        });
        clients(config).push(notes);
    });
    let reload = gateway.post("/api/mcp/client/notes/reload", &json!({})).await.ok();
    // The gateway watches the file too, and may have taken the entry first.
    assert_eq!(reload["status"], "success", "{reload}");
    let _ = add_note(&gateway).await.ok();
}

#[tokio::test]
async fn a_build_that_was_refused_as_wider_is_not_loaded_because_its_entry_changes() {
    let setup = Setup::new();
    let path = setup.directory().join("guest.wasm");
    let build = |url: &str| {
        let request = json!({"http": {"api": {"url": url, "reason": "r"}}});
        component::with_manifest(guests::HOSTILE, "guest", &request)
    };
    fs::write(&path, build("https://api.example.com")).expect("a file");
    let plugin = Client::wasm("guest", &path).set("/wasm_config/grants", json!({"http": ["api"]}));
    let gateway = setup.client(plugin).serve_connected().await;
    let new = path.with_extension("new");
    fs::write(&new, build("https://example.org")).expect("a file");
    fs::rename(&new, &path).expect("it takes its place");
    for seconds in [7, 8] {
        edit(&gateway, |config| {
            clients(config)[0]["wasm_config"]["limits"] =
                json!({"deadline": format!("{seconds}s")});
        });
        let failed = gateway.in_state("guest", "error").await;
        assert!(failed.to_string().contains("https://example.org"), "{failed:#}");
        let reply = gateway.post("/api/mcp/client/guest/reload", &json!({})).await;
        assert_eq!(reply.status, 409, "{}", reply.body);
    }
}
