//! A running gateway loads a changed component.

use std::{
    fs,
    path::{Path, PathBuf},
};

use airlock_tests::{Client, Gateway, Setup, component, guests, misbehaving, wait};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::poisoned;

#[tokio::test]
async fn a_running_gateway_without_a_lock_file_loads_no_build_that_widens_a_grant() {
    let setup = Setup::new();
    let path = setup.directory().join("guest.wasm");
    let build = |url: &str| {
        let request = json!({"http": {"api": {"url": url, "reason": "r"}}});
        component::with_manifest(guests::HOSTILE, "guest", &request)
    };
    fs::write(&path, build("https://api.example.com")).expect("a file");
    let plugin = Client::wasm("guest", &path).set("/wasm_config/grants", json!({"http": ["api"]}));
    let gateway = setup.client(plugin).serve_connected().await;
    replace(&path, &build("https://example.org"));
    let (status, body) = reload(&gateway, "guest").await;
    assert_eq!(status, 409, "{body}");
    assert!(
        body["error"]["message"].as_str().is_some_and(|message| message
            .contains("it asks for http.api https://example.org GET,HEAD /** (granted)")),
        "{body}"
    );
    assert_eq!(gateway.execute("guest-ok", &json!({})).await.content(), "ok");
    replace(&path, &build("https://api.example.com/v1"));
    assert_eq!(reload(&gateway, "guest").await.0, 200);
}

/// Replaces a file atomically.
fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).expect("a file");
    fs::rename(&new, path).expect("it takes its place");
}

/// Changes one letter of a description in place and restores the time of modification. Only the
/// bytes of the file differ, so that a watcher of files sees no change.
fn change_silently(path: &Path) {
    let before = fs::metadata(path).expect("it is there").modified().expect("a time");
    let old = b"Answers at once.";
    let new = b"Answers at onze.";
    let mut wasm = fs::read(path).expect("the component");
    let at =
        wasm.windows(old.len()).rposition(|bytes| bytes == old).expect("it is in the descriptors");
    wasm[at..at + old.len()].copy_from_slice(new);
    fs::write(path, wasm).expect("written");
    let file = fs::File::options().write(true).open(path).expect("it can be written");
    file.set_modified(before).expect("its time is its owner's to set");
}

async fn reload(gateway: &Gateway, client: &str) -> (u16, Value) {
    let reply = gateway.post(&format!("/api/mcp/client/{client}/reload"), &json!({})).await;
    (reply.status, reply.body)
}

fn description_of_ok(client: &Value) -> Option<&str> {
    client["tools"].as_array()?.iter().find(|tool| tool["name"] == "ok")?["description"].as_str()
}

/// Starts a gateway whose only plugin may call a tool that waits.
async fn gateway_with(file: &str) -> (Gateway, PathBuf) {
    let setup = Setup::new();
    let path = setup.directory().join(file);
    fs::copy(guests::HOSTILE, &path).expect("a copy");
    let plugin = Client::wasm("guest", &path).tools(&["server-wait_for"]);
    let gateway = setup.client(plugin).client(misbehaving("server", [])).serve_connected().await;
    (gateway, path)
}

#[tokio::test]
async fn a_reload_swaps_the_plugin_while_a_call_in_flight_ends_on_the_old_one() {
    let (gateway, path) = gateway_with("guest.wasm").await;
    let before = gateway.client("guest").await.expect("it is listed");
    let gate = gateway.directory().join("gate");
    let relay = json!({"tool": "server-wait_for", "arguments": {"file": gate}});
    let call = async { gateway.execute("guest-relay", &relay).await.content() };
    let meanwhile = async {
        let waiting = gate.with_extension("waiting");
        wait::until("the call to be in flight", async || waiting.exists().then_some(())).await;
        replace(&path, &poisoned().await);
        let (status, body) = reload(&gateway, "guest").await;
        // The gateway watches the file too, and may have reloaded it first.
        assert_eq!((status, &body["status"]), (200, &json!("success")), "{body}");
        let after = gateway.client("guest").await.expect("it is listed");
        assert_eq!(description_of_ok(&after), Some("Answers at once.⟨U+200B⟩"));
        assert_ne!(after["plugin"]["digest"], before["plugin"]["digest"], "{after:#}");
        assert!(
            after["tools"].as_array().expect("a list").iter().any(|tool| tool["name"] == "steal"),
            "{after:#}"
        );
        assert_eq!(gateway.execute("guest-ok", &json!({})).await.content(), "ok");
        fs::write(&gate, "").expect("a file");
    };
    let (answer, ()) = tokio::join!(call, meanwhile);
    assert_eq!(answer, "it is there");
    assert_eq!(
        reload(&gateway, "guest").await,
        (200, json!({"status": "success", "changed": false}))
    );
    gateway.sandbox_is_empty().await;
}

#[tokio::test]
async fn a_failed_reload_reports_the_reason_and_keeps_the_old_plugin() {
    let (gateway, path) = gateway_with("guest.wasm").await;
    replace(&path, b"this is a text");
    let (status, body) = reload(&gateway, "guest").await;
    assert_eq!(status, 422, "{body}");
    assert!(
        body["error"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("not a WebAssembly component")),
        "{body}"
    );
    let all = gateway.post("/api/config/reload", &json!({})).await.ok();
    assert_eq!(all["failed"], json!(["guest"]), "{all}");
    let asking = component::with_manifest(
        guests::HOSTILE,
        "asking",
        &json!({"clocks": {"reason": "Dates."}}),
    );
    replace(&path, &asking);
    let (status, body) = reload(&gateway, "guest").await;
    assert_eq!(status, 409, "{body}");
    assert!(
        body["error"]["message"].as_str().is_some_and(|message| message.contains("clocks")),
        "{body}"
    );
    let client = gateway.client("guest").await.expect("it is listed");
    assert_eq!(
        (&client["state"], description_of_ok(&client)),
        (&json!("connected"), Some("Answers at once.")),
        "{client:#}"
    );
    assert_eq!(gateway.execute("guest-ok", &json!({})).await.content(), "ok");
    assert_eq!(reload(&gateway, "nobody").await.0, 404);
    assert_eq!(reload(&gateway, "server").await.0, 404, "a server is no plugin");
}

#[tokio::test]
async fn a_change_that_the_watcher_misses_is_loaded_by_request_and_by_sighup() {
    let (gateway, path) = gateway_with("guest.wasm").await;
    change_silently(&path);
    assert_eq!(
        reload(&gateway, "guest").await,
        (200, json!({"status": "success", "changed": true}))
    );
    let is_changed = async |text: &str| {
        let client = gateway.client("guest").await?;
        (description_of_ok(&client)? == text).then_some(())
    };
    assert!(is_changed("Answers at onze.").await.is_some());
    replace(&path, &fs::read(guests::HOSTILE).expect("the component"));
    wait::until("the file to be noticed", async || is_changed("Answers at once.").await).await;
    change_silently(&path);
    kill_process(gateway.pid(), Signal::HUP).expect("it runs");
    wait::until("SIGHUP to load it", async || is_changed("Answers at onze.").await).await;
}

#[tokio::test]
async fn a_virtual_key_does_not_permit_a_reload() {
    let key = "sk-bf-0123456789abcdef";
    let setup = Setup::new().client(Client::wasm("guest", guests::HOSTILE)).key(
        "ann",
        key,
        &[("guest", &["*"])],
    );
    let gateway = setup.serve().await;
    let path = "/api/mcp/client/guest/reload";
    for headers in [&[][..], &[("x-bf-vk", key)]] {
        let request = gateway.request(reqwest::Method::POST, path);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let reply = airlock_tests::Reply::fetch(request).await;
        assert_eq!((reply.status, reply.code()), (401, "operator_required"), "{}", reply.text);
    }
}
