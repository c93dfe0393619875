//! Plugins on the way, from servers that change and forge them.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use airlock_test_http::{Server, ok, ok_bytes, says};
use airlock_tests::{collector::hex, component, guests};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Workspace, proposed};

#[tokio::test]
async fn a_component_that_is_replaced_at_its_url_after_it_was_shown_is_not_installed() {
    let workspace = Workspace::new();
    let request = json!({"clocks": {"reason": "Dates."}});
    let shown = component::with_manifest(guests::HOSTILE, "weather", &request);
    let other = component::with_section(&shown, "note", b"another build");
    let is_replaced = Arc::new(AtomicBool::new(false));
    let replaced = is_replaced.clone();
    let server = Server::start(move |path| match path {
        "/w.wasm" if replaced.load(Ordering::SeqCst) => ok_bytes(&other),
        "/w.wasm" => ok_bytes(&shown),
        _ => says("404 Not Found", "", ""),
    })
    .await;

    let refused = workspace.install(&server.url("127.0.0.1", "/w.wasm"), &[]).await.failed();
    let words = proposed(&refused);
    let words: Vec<_> = words.iter().map(|word| word.trim_matches('\'')).collect();
    assert!(words[2].contains("/w.wasm#sha256:"), "{refused}");
    is_replaced.store(true, Ordering::SeqCst);
    let changed = workspace.airlock(&words).await.failed();
    assert!(changed.stderr.contains("/w.wasm has changed"), "{changed}");
    assert!(!workspace.path("airlock.json").exists() && !workspace.path("plugins").exists());
    is_replaced.store(false, Ordering::SeqCst);
    let installed = workspace.airlock(&words).await.ok();
    assert!(installed.stdout.contains("installed "), "{installed}");
}

/// Starts a registry whose artifact `acme/weather:1` has this text as its signature. Returns its reference too.
async fn registry(signature: &str) -> (Server, String) {
    let wasm = fs::read(guests::HOSTILE).expect("the component");
    let digest = format!("sha256:{}", hex(&Sha256::digest(&wasm)));
    let manifest = json!({
        "schemaVersion": 2,
        "config": {"mediaType": "application/vnd.wasm.config.v0+json", "digest": digest, "size": 2},
        "layers": [{"mediaType": "application/wasm", "digest": digest, "size": wasm.len()}],
        "annotations": {"io.github.airlock-gateway.minisig": signature},
    });
    let server = Server::start(move |path| {
        if path.contains("/manifests/") { ok(&manifest.to_string()) } else { ok_bytes(&wasm) }
    })
    .await;
    let reference = format!("oci://{}/acme/weather:1", server.address);
    (server, reference)
}

#[tokio::test]
async fn a_signature_that_is_too_large_is_not_pulled() {
    let workspace = Workspace::new();
    let (_server, reference) = registry(&"x".repeat(4097)).await;
    let refused = workspace.airlock(&["plugin", "pull", &reference]).await.failed();
    assert!(refused.stderr.contains("has 4097 bytes; the limit is 4096"), "{refused}");
    assert_eq!(fs::read_dir(workspace.directory.path()).expect("it is read").count(), 0);
}

#[tokio::test]
async fn a_pull_writes_no_signature_through_a_link() {
    let workspace = Workspace::new();
    let (_server, reference) = registry("ssh-ed25519 AAAA eve").await;
    workspace.write("keys", "mine");
    let link = workspace.path("weather.wasm.minisig");
    symlink(workspace.path("keys"), &link).expect("a link");
    let refused = workspace.airlock(&["plugin", "pull", &reference]).await.failed();
    assert!(refused.stderr.contains("weather.wasm.minisig exists already"), "{refused}");
    assert_eq!(workspace.read("keys"), "mine");
    assert!(!workspace.path("weather.wasm").exists());
    fs::remove_file(&link).expect("removed");
    let _ = workspace.airlock(&["plugin", "pull", &reference]).await.ok();
    assert_eq!(workspace.read("weather.wasm.minisig"), "ssh-ed25519 AAAA eve");
}

#[tokio::test]
async fn a_document_about_a_component_has_no_character_that_turns_its_text_around() {
    let workspace = Workspace::new();
    let manifest = json!({
        "schema": "airlock.plugin/1", "id": "forged", "version": "1.0.0", "contract": "0.1",
        "description": "Adds.\u{202e}",
    });
    let wasm = fs::read(guests::HOSTILE).expect("the component");
    let forged =
        component::with_section(&wasm, "airlock:manifest", manifest.to_string().as_bytes());
    workspace.write("forged.wasm", forged);
    let inspected = workspace.airlock(&["plugin", "inspect", "forged.wasm", "--json"]).await.ok();
    assert!(!inspected.stdout.contains('\u{202e}'), "{inspected}");
    assert_eq!(inspected.json()["description"], "Adds.\u{202e}");
}
