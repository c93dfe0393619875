//! Plugins built for the released versions of the contract. They load for as long as there is an
//! Airlock, and their tools return what they returned when the version was released.
//!
//! `tests/golden/<version>` never changes after the release. It has the SDK of the version as
//! `airlock plugin new` wrote it (`sdk.tar.gz`), a plugin in Rust that uses every function of the
//! contract, a component in WebAssembly text without an SDK, and manifests.

mod guards;
mod reports;

use std::{
    fs,
    path::{Path, PathBuf},
};

use airlock::{Gateway, config::Config, door::Origin};
use airlock_tests::{Client, Service, Setup, component, languages, root};
use serde_json::{Value, json};
use tokio::process::Command;

fn golden(path: &str) -> PathBuf {
    root().join("tests/golden/0.1.0").join(path)
}

/// Builds the plugin in Rust with the SDK of its version.
pub(crate) async fn built(place: &Path) -> PathBuf {
    let mut tar = Command::new("tar");
    // With the present date: cargo compiles what is newer than its artifacts, which it keeps.
    tar.arg("-xmzf").arg(golden("sdk.tar.gz")).arg("-C").arg(place);
    assert!(tar.status().await.expect("tar runs").success(), "the SDK is unpacked");
    fs::create_dir(place.join("src")).expect("a directory");
    for file in ["Cargo.toml", "Cargo.lock", "plugin.toml", "config.schema.json", "src/lib.rs"] {
        fs::copy(golden("rust").join(file), place.join(file)).expect("a file of the plugin");
    }
    let _ = languages::build(place).await.ok();
    place.join("golden.wasm")
}

/// Returns what the version released.
fn expected(name: &str) -> Value {
    let file = golden("expected").join(format!("{name}.json"));
    serde_json::from_str(&fs::read_to_string(file).expect("a golden file")).expect("JSON")
}

/// Calls a tool. Returns its result, or its error with the kind.
async fn call(gateway: &Gateway, tool: &str, arguments: &Value) -> Value {
    let caller = gateway.caller(Origin::Caller);
    let call = caller.admit(&format!("golden-{tool}"), &arguments.to_string());
    match call.expect("it is permitted").run().await {
        Ok(output) => serde_json::to_value(output).expect("JSON"),
        Err(error) => serde_json::to_value(error.into_tool_error().expect(tool)).expect("JSON"),
    }
}

fn first_text(result: &Value) -> Value {
    let text =
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result:#}"));
    serde_json::from_str(text).expect("JSON")
}

#[tokio::test]
async fn a_plugin_in_rust_that_was_built_for_0_1_0_does_what_it_did() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let component = built(place.path()).await;
    // The section of tools as 0.1.0 wrote it, so that its writer and its reader cannot change
    // together.
    let wasm = fs::read(&component).expect("the component");
    let tools = fs::read(golden("expected/tools.json")).expect("a golden file");
    fs::write(&component, component::with_section(&wasm, "airlock:tools", &tools)).expect("a file");
    let server = Service::start(|asked| (200, json!({"got": asked.body}))).await;
    let setup = Setup::new();
    let token = setup.file("token", "golden-token-0123456789");
    let rule = json!({"url": server.base_url(), "methods": ["POST"], "private": true});
    let from = format!("file:{}", token.display());
    let grants = json!({
        "http": [rule],
        "secret": {"token": {"from": from, "audience": [rule], "reveal": true}},
        "kv": {"entries": {"max_bytes": "64KiB"}},
        "slot": {"other": "golden-show", "failing": "golden-fail"},
        "clocks": true,
    });
    let client = Client::wasm("golden", &component)
        .trusted()
        .auto(&["*"])
        .set("/wasm_config/grants", grants)
        .set("/wasm_config/config", json!({"greeting": "hello"}));
    let database = setup.directory().join("kept.db").display().to_string();
    let setup = setup.set("/store", database).client(client);
    let config = Config::load(&setup.write()).expect("a good configuration");
    let gateway = Gateway::builder(config).start().await.expect("the gateway starts");

    for tool in ["show", "fail", "list_all"] {
        assert_eq!(call(&gateway, tool, &json!({})).await, expected(tool), "{tool}");
    }
    let kinds = expected("kinds");
    for (number, kind) in kinds.as_array().expect("a list").iter().enumerate() {
        assert_eq!(call(&gateway, "fail_as", &json!({"kind": number})).await["kind"], *kind);
    }

    assert_eq!(first_text(&call(&gateway, "keep", &json!({})).await), expected("keep"));
    let fetched = call(&gateway, "fetch", &json!({"url": server.base_url()})).await;
    assert_eq!(first_text(&fetched), expected("fetch"));
    let asked = server.asked();
    assert_eq!(asked.len(), 1, "the other request was refused");
    assert_eq!(asked[0].authorization, "Bearer golden-token-0123456789");

    let delegated = call(&gateway, "delegate", &json!({"arguments": {"number": 8}})).await;
    assert_eq!(delegated, expected("delegate"));
    reports::are_as_released(&gateway).await;
    gateway.stop().await;
    reports::are_logged_as_released(&setup).await;
    let tools = setup.airlock("tools").arg("--json").run().await.ok().json();
    let tools = tools["tools"].as_array().expect("a list");
    for listed in expected("listed").as_array().expect("a list") {
        let tool = tools.iter().find(|tool| tool["name"] == listed["name"]).expect("it is listed");
        for (name, value) in listed.as_object().expect("a tool") {
            assert_eq!(tool[name], *value, "{name} of {tool:#}");
        }
    }
}

#[tokio::test]
async fn a_component_without_an_sdk_that_was_written_for_0_1_0_does_what_it_did() {
    let code = fs::read_to_string(golden("text/echo.wat")).expect("the component");
    let code = wat::parse_str(code).expect("it is a component");
    let manifest = fs::read_to_string(golden("text/manifest.json")).expect("its manifest");
    let tools = fs::read_to_string(golden("text/tools.json")).expect("its tools");
    let whole = component::with_section(&code, "airlock:tools", tools.trim().as_bytes());
    let whole = component::with_section(&whole, "airlock:manifest", manifest.trim().as_bytes());
    let setup = Setup::new();
    let file = setup.file("echo.wasm", whole);
    let setup = setup.client(Client::wasm("echo", file));
    let answer = setup.call("echo-echo", &json!({"hello": "world"})).await;
    assert_eq!(answer["structured"], json!({"hello": "world"}), "{answer:#}");
    let refused = setup.call("echo-echo", &json!({"hello": "x".repeat(1_000)})).await;
    let message = "the arguments have more than 1000 bytes; send less";
    assert_eq!(refused["error"]["message"], message, "{refused:#}");
}
