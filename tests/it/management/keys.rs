//! Virtual keys that are made, changed, rotated and revoked while gateways run.

use airlock_tests::{Gateway, Setup, wait};
use serde_json::{Value, json};

use super::{KEYS, SharedStore, make_key, setup, status_with, texts, until_status};

/// Key of the configuration file.
const IN_FILE: &str = "sk-bf-of-the-configuration-file";

/// Runs the plugin's tool with a key. Returns the status.
async fn call_with(gateway: &Gateway, key: &str) -> u16 {
    let arguments = json!({"text": "one two"});
    gateway.execute_with(&[("x-bf-vk", key)], "text-word_count", &arguments).await.status
}

#[tokio::test]
async fn a_key_that_one_gateway_makes_opens_all_and_a_revoked_one_none() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let key = make_key(&first, "ann").await;
        assert_eq!(status_with(&first, &key).await, 200, "at once where it was made");
        until_status(&second, &key, 200).await;
        let shown = second.get(&format!("{KEYS}/ann")).await;
        assert!(!shown.text.contains(&key), "the value is shown once");
        assert_eq!(second.delete(&format!("{KEYS}/ann")).await.status, 200);
        assert_eq!(status_with(&second, &key).await, 401);
        until_status(&first, &key, 401).await;
        let changes = first.get("/api/changes").await.ok();
        assert_eq!(texts(&changes, "changes", "action"), ["key.delete", "key.create"]);
        assert_eq!(texts(&changes, "changes", "actor"), ["operator \"tests\""; 2]);
    }
}

#[tokio::test]
async fn an_entry_that_a_gateway_cannot_open_hides_neither_a_revocation_nor_a_new_key() {
    const SEALING: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    for store in SharedStore::all() {
        let plain = setup(&store).serve_connected().await;
        let sealing = setup(&store).set("/store_key", "env.STORE_KEY_OF_THE_TEST");
        let sealing = sealing.serve_with(&[("STORE_KEY_OF_THE_TEST", SEALING)]).await;
        let ann = make_key(&plain, "ann").await;
        until_status(&sealing, &ann, 200).await;
        let bob = make_key(&sealing, "bob").await;
        assert_eq!(sealing.delete(&format!("{KEYS}/ann")).await.status, 200);
        until_status(&plain, &ann, 401).await;
        assert_eq!(
            (status_with(&plain, &bob).await, status_with(&sealing, &bob).await),
            (401, 200)
        );
        let carol = make_key(&plain, "carol").await;
        until_status(&sealing, &carol, 200).await;
        let left_out = &plain.get("/api/settings").await.ok()["left_out"];
        assert_eq!(left_out[0]["name"], "bob", "{left_out}");
        assert_eq!(left_out[0]["reason"]["code"], "unreadable", "{left_out}");
        plain.until_said("bob").await;
        let changes = plain.get("/api/changes").await.ok();
        assert!(changes["changes"][1]["unreadable"].is_string(), "{changes}");
        // As if its key were lost.
        let _ = plain.delete(&format!("{KEYS}/bob")).await.ok();
        until_status(&sealing, &bob, 401).await;
    }
}

#[tokio::test]
async fn a_change_of_rows_and_of_activity_has_effect_at_once() {
    for store in SharedStore::all() {
        let gateway = setup(&store).serve_connected().await;
        let key = make_key(&gateway, "ann").await;
        assert_eq!(call_with(&gateway, &key).await, 200);
        let update = async |change: Value| gateway.put(&format!("{KEYS}/ann"), &change).await;
        let _ = update(json!({"mcp_configs": []})).await.ok();
        assert_ne!(call_with(&gateway, &key).await, 200);
        let _ = update(json!({"is_active": false})).await.ok();
        assert_eq!(status_with(&gateway, &key).await, 401);
        let reverted = gateway.get("/api/changes?limit=1").await.ok();
        let last = reverted["changes"][0]["id"].as_i64().expect("a number");
        let _ = gateway.post(&format!("/api/changes/{last}/revert"), &json!({})).await.ok();
        assert_eq!(status_with(&gateway, &key).await, 200, "it is active again");
        let stale = gateway.post(&format!("/api/changes/{last}/revert"), &json!({})).await;
        assert_eq!(stale.status, 409, "a later change must be reverted first");
    }
}

#[tokio::test]
async fn a_rotated_key_keeps_its_old_value_only_as_long_as_was_asked_for() {
    for store in SharedStore::all() {
        let gateway = setup(&store).serve_connected().await;
        let old = make_key(&gateway, "ann").await;
        let path = format!("{KEYS}/ann/rotate");
        let rotated = gateway.post(&path, &json!({"cooldown": "1h"})).await.ok();
        let new = rotated["virtual_key"]["value"].as_str().expect("a value").to_owned();
        assert_eq!(
            [status_with(&gateway, &old).await, status_with(&gateway, &new).await],
            [200; 2]
        );
        let rotated = gateway.post(&path, &json!({})).await.ok();
        let newest = rotated["virtual_key"]["value"].as_str().expect("a value").to_owned();
        for (value, status) in [(&old, 401), (&new, 401), (&newest, 200)] {
            assert_eq!(status_with(&gateway, value).await, status);
        }
    }
}

#[tokio::test]
async fn a_bad_key_is_refused_with_the_reason_and_changes_nothing() {
    let store = &SharedStore::all()[0];
    let gateway = setup(store).serve_connected().await;
    let _ = make_key(&gateway, "ann").await;
    for (body, status, words) in [
        (json!({"name": "ann"}), 409, "already exists"),
        (json!({"name": " "}), 400, "name is required"),
        (json!({"name": "b", "provider_configs": [{}]}), 400, "provider_configs"),
        (json!({"name": "b", "mcp_configs": [{"mcp_client_name": "nix"}]}), 400, "nix"),
        (
            json!({"name": "b", "mcp_configs": [{"mcp_client_name": "text", "tool": 1}]}),
            400,
            "tool",
        ),
        (json!({"name": "b", "expires_at": "2001-01-01T00:00:00Z"}), 400, "future"),
        (json!({"name": "b", "expires_at": "soon"}), 400, "RFC 3339"),
    ] {
        let refused = gateway.post(KEYS, &body).await;
        let (found, message) = refused.refusal();
        assert!(found == status && message.contains(words), "{body}: {found} {message}");
    }
    let listed = gateway.get(KEYS).await.ok();
    assert_eq!(texts(&listed, "virtual_keys", "name"), ["ann"]);
    assert_eq!(gateway.get(&format!("{KEYS}?limit=x")).await.status, 400);
    assert_eq!(gateway.get(&format!("{KEYS}/bob")).await.status, 404);
}

/// A configuration with a key in the file.
fn with_file_key(store: &SharedStore, rows: &[&str]) -> Setup {
    setup(store).key("file", IN_FILE, &[("text", rows)])
}

#[tokio::test]
async fn a_key_of_the_file_is_changed_and_deleted_until_the_file_is_edited() {
    for store in SharedStore::all() {
        let gateway = with_file_key(&store, &["*"]).serve_connected().await;
        assert_eq!(call_with(&gateway, IN_FILE).await, 200);
        assert_eq!(gateway.delete(&format!("{KEYS}/file")).await.status, 200);
        assert_eq!(status_with(&gateway, IN_FILE).await, 401);
        // The deletion survives a restart with the same file.
        let setup = gateway.kill().await;
        let gateway = setup.serve_connected().await;
        assert_eq!(status_with(&gateway, IN_FILE).await, 401);
        let settings = gateway.get("/api/settings").await.ok();
        assert_eq!(settings["left_out"], json!([]));
        // An edited element of the file has effect again, and the difference is shown.
        gateway.kill().await;
        let gateway = with_file_key(&store, &["word_count"]).serve_connected().await;
        assert_eq!(status_with(&gateway, IN_FILE).await, 200);
        let shown = wait::until("the entry to be shown as left out", async || {
            let settings = gateway.get("/api/settings").await.ok();
            (settings["left_out"] != json!([])).then_some(settings)
        });
        let shown = shown.await;
        assert_eq!(shown["left_out"][0]["reason"]["code"], "file_changed");
        gateway.until_said("file").await;
    }
}

#[tokio::test]
async fn a_key_is_revoked_while_the_configuration_file_is_not_valid() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = with_file_key(&store, &["*"]).serve_connected().await;
        let key = make_key(&first, "ann").await;
        until_status(&second, &key, 200).await;
        for gateway in [&first, &second] {
            std::fs::write(gateway.directory().join("airlock.json"), "{").expect("a file");
        }
        assert_eq!(first.delete(&format!("{KEYS}/ann")).await.status, 200);
        assert_eq!(status_with(&first, &key).await, 401);
        until_status(&second, &key, 401).await;
        assert_eq!(second.delete(&format!("{KEYS}/file")).await.status, 200);
        assert_eq!(status_with(&second, IN_FILE).await, 401);
    }
}

#[tokio::test]
async fn the_removal_of_the_last_key_opens_nothing_after_a_restart_either() {
    for store in SharedStore::all() {
        let gateway = setup(&store).serve_connected().await;
        let models = async |gateway: &Gateway| {
            gateway.request(reqwest::Method::GET, "/v1/models").send().await.expect("sent").status()
        };
        assert_eq!(models(&gateway).await, 200);
        let _ = make_key(&gateway, "ann").await;
        assert_eq!(models(&gateway).await, 401);
        assert_eq!(gateway.delete(&format!("{KEYS}/ann")).await.status, 200);
        assert_eq!(models(&gateway).await, 401);
        let gateway = gateway.kill().await.serve_connected().await;
        assert_eq!(models(&gateway).await, 401);
    }
}
