//! Components that are not valid plugins, and plugins without embedded descriptors.

use std::fs;

use airlock_tests::{Client, Setup, component, guests};
use serde_json::{Value, json};

/// Returns the tools of a component, as the administrative list shows them.
fn tools_of<'a>(clients: &'a Value, name: &str) -> Vec<&'a str> {
    let clients = clients["clients"].as_array().expect("a list");
    let client =
        clients.iter().find(|client| client["config"]["name"] == name).expect("it is listed");
    client["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

#[tokio::test]
async fn a_plugin_without_embedded_descriptors_is_asked_for_the_same_tools() {
    let described = component::with_own_tools(guests::TEXT).await;
    let plain = fs::read(guests::TEXT).expect("the component");
    let tells =
        |wasm: &[u8]| airlock::sandbox::embedded_tools(wasm).expect("a component").is_some();
    assert_eq!((tells(&plain), tells(&described)), (false, true));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("described.wasm");
    fs::write(&file, described).expect("a file");
    let gateway = Setup::new()
        .client(Client::wasm("text", guests::TEXT))
        .client(Client::wasm("described", file.to_str().expect("a path in UTF-8")))
        .serve_connected()
        .await;
    let clients = gateway.get("/api/mcp/clients").await.ok();
    assert_eq!(tools_of(&clients, "described"), tools_of(&clients, "text"));
    assert!(!tools_of(&clients, "text").is_empty());
}

#[tokio::test]
async fn an_invalid_plugin_is_refused_with_the_reason_and_others_are_loaded() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str, bytes: &[u8]| {
        let file = directory.path().join(name);
        fs::write(&file, bytes).expect("a file");
        file.to_str().expect("a path in UTF-8").to_owned()
    };
    let mut cut = fs::read(guests::TEXT).expect("the component");
    cut.truncate(cut.len() / 2);
    let gateway = Setup::new()
        .client(Client::wasm("text", guests::TEXT))
        .client(Client::wasm("wrong_world", guests::STARLARK))
        .client(Client::wasm("core_module", file("core.wasm", b"\0asm\x01\0\0\0")))
        .client(Client::wasm("garbage", file("garbage.wasm", b"not WebAssembly")))
        .client(Client::wasm("cut", file("cut.wasm", &cut)))
        .serve()
        .await;
    let clients = gateway.get("/api/mcp/clients").await.ok();
    for client in clients["clients"].as_array().expect("a list") {
        if client["config"]["name"] == "text" {
            assert_eq!(client["state"], "connected", "{client:#}");
        } else {
            assert_eq!(client["state"], "error", "{client:#}");
            assert!(
                client["last_failure"]["message"].as_str().is_some_and(|reason| !reason.is_empty()),
                "{client:#}"
            );
        }
    }
}

#[tokio::test]
async fn a_tool_uses_only_the_grants_that_its_manifest_declares_effects_for() {
    let manifest = json!({
        "schema": "airlock.plugin/1", "id": "guest", "version": "1.0.0", "contract": "0.1",
        "tool": [
            {"name": "write", "effects": ["read_files.data", "write_files.out"]},
            {"name": "scribble", "effects": ["write_files", "call_tools"]},
        ],
        "request": {
            "files": {
                "data": {"access": "read_write", "reason": "Reads and writes."},
                "out": {"access": "read_write", "reason": "Writes."},
            },
            "tools": {"call": ["guest-ok"], "reason": "Calls."},
        },
    });
    let setup = Setup::new();
    let wasm = fs::read(guests::HOSTILE).expect("the component");
    let wasm = component::with_section(&wasm, "airlock:manifest", manifest.to_string().as_bytes());
    let data = setup.directory().join("data");
    let out = setup.directory().join("out");
    for directory in [&data, &out] {
        fs::create_dir(directory).expect("a directory");
    }
    fs::write(data.join("file"), "text").expect("a file");
    let client = Client::wasm("guest", setup.file("guest.wasm", wasm))
        .directory("data", &data, "read_write")
        .directory("out", &out, "read_write")
        .tools(&["guest-ok"]);
    let gateway = setup.client(client).serve_connected().await;
    // It writes to the other directory alone; `read` is not listed, so that it cannot even read.
    let write = json!({"path": "/data/file", "text": "changed"});
    assert_ne!(gateway.execute("guest-write", &write).await.content(), "written");
    let elsewhere = json!({"path": "/out/file", "text": "changed"});
    assert_eq!(gateway.execute("guest-write", &elsewhere).await.content(), "written");
    let read = gateway.execute("guest-read", &json!({"path": "/data/file"})).await;
    assert_ne!(read.content(), "text");
    assert_eq!(fs::read_to_string(data.join("file")).expect("it is there"), "text");
    let relay = json!({"tool": "guest-ok", "arguments": {}});
    assert_eq!(
        gateway.execute("guest-relay", &relay).await.content(),
        "the tool does not declare the effect \"call_tools\" in plugin.toml"
    );
}
