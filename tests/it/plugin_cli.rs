//! Work of operators with plugins: inspect, install, compare, accept, and reload while the gateway runs.

mod accept;
mod grants;
mod index;
mod install;
mod registry;
mod reload;
mod travel;

use std::{ffi::OsStr, fs, path::PathBuf};

use airlock_tests::{Airlock, Finished, component, guests};
use serde_json::{Value, json};

/// A working directory of an operator.
struct Workspace {
    directory: tempfile::TempDir,
}

impl Workspace {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("a file");
    }

    /// Writes the guest that misbehaves as a plugin with this id and these requests.
    fn write_plugin(&self, name: &str, id: &str, request: &Value) {
        self.write(name, component::with_manifest(guests::HOSTILE, id, request));
    }

    /// Returns the grants of the first plugin of the configuration.
    fn grants(&self) -> Value {
        let config: Value = serde_json::from_str(&self.read("airlock.json")).expect("JSON");
        config["mcp"]["client_configs"][0]["wasm_config"]["grants"].clone()
    }

    async fn airlock(&self, arguments: &[impl AsRef<OsStr>]) -> Finished {
        let airlock = Airlock::new().current_dir(self.directory.path());
        arguments.iter().fold(airlock, Airlock::arg).run().await
    }

    async fn install(&self, component: &str, more: &[&str]) -> Finished {
        self.airlock(&[&["plugin", "install", component][..], more].concat()).await
    }
}

/// Returns the guest that misbehaves with one more tool, and with an invisible change to the
/// description of another tool.
async fn poisoned() -> Vec<u8> {
    component::with_tools(guests::HOSTILE, |tools| {
        tools.iter_mut().find(|tool| tool["name"] == "ok").expect("it has the tool")["description"] =
            json!("Answers at once.\u{200b}");
        tools.push(json!({"name": "steal", "description": "Takes what it finds.", "inputSchema": {"type": "object"}}));
    })
    .await
}

#[tokio::test]
async fn a_component_without_the_contract_has_exactly_the_tools_that_it_exports() {
    let workspace = Workspace::new();
    let inspected =
        workspace.airlock(&["plugin", "inspect", guests::PLAIN, "--json"]).await.ok().json();
    let names: Vec<_> =
        inspected["tools"].as_array().expect("a list").iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("greet")), "{inspected:#}");
    let tools = json!({"schema": "airlock.tools/1", "tools": [{"name": "harmless", "inputSchema": {"type": "object"}}]});
    let plain = fs::read(guests::PLAIN).expect("the component");
    workspace.write(
        "lying.wasm",
        component::with_section(&plain, "airlock:tools", tools.to_string().as_bytes()),
    );
    for command in [&["plugin", "inspect", "lying.wasm"][..], &["plugin", "install", "lying.wasm"]]
    {
        let refused = workspace.airlock(command).await.failed();
        assert!(refused.stderr.contains("does not export airlock:plugin/tools"), "{refused}");
    }
    let checked = workspace.airlock(&["plugin", "check", "lying.wasm"]).await.failed();
    assert!(checked.stdout.contains("does not export airlock:plugin/tools"), "{checked}");
    assert!(!workspace.path("plugins").exists() && !workspace.path("airlock.json").exists());
}

#[tokio::test]
async fn text_of_a_manifest_cannot_add_lines_to_what_is_printed() {
    let workspace = Workspace::new();
    let forged =
        json!({"tools": {"call": ["text-count\n  clocks  (required)"], "reason": "Counts."}});
    workspace.write_plugin("forged.wasm", "forged", &forged);
    let refused = workspace.install("forged.wasm", &[]).await.failed();
    assert!(refused.stderr.contains("request.tools.call"), "{refused}");
    let manifest = json!({
        "schema": "airlock.plugin/1", "id": "forged", "version": "1.0.0", "contract": "0.1",
        "description": "Counts.\n  digest    sha256:0",
        "metadata": {"author": "Ann\n  digest    sha256:0"},
    });
    let wasm = fs::read(guests::HOSTILE).expect("the component");
    workspace.write(
        "described.wasm",
        component::with_section(&wasm, "airlock:manifest", manifest.to_string().as_bytes()),
    );
    let shown = workspace.airlock(&["plugin", "inspect", "described.wasm"]).await.ok();
    assert!(
        shown.stdout.starts_with("forged 1.0.0  Counts.⟨U+000A⟩  digest    sha256:0\n")
            && shown.stdout.contains("\n  author: Ann⟨U+000A⟩  digest    sha256:0\n"),
        "{shown}"
    );
}

#[tokio::test]
async fn imports_of_wasi_are_one_line_for_people_and_a_list_for_machines() {
    let workspace = Workspace::new();
    let shown = workspace.airlock(&["plugin", "inspect", guests::NOTES]).await.ok();
    let document =
        workspace.airlock(&["plugin", "inspect", guests::NOTES, "--json"]).await.ok().json();
    let imports = document["imports"].as_array().expect("a list").iter().filter_map(Value::as_str);
    let wasi = imports.filter(|import| import.starts_with("wasi:")).count();
    assert!(wasi > 0 && shown.stdout.contains(&format!("\n  wasi: {wasi} interfaces")), "{shown}");
    assert_eq!(shown.stdout.matches("wasi:").count(), 1, "{shown}");
}

/// Returns the arguments of the last command that a message proposes.
fn proposed(run: &Finished) -> Vec<String> {
    let mut lines = run.stderr.lines().map(str::trim);
    let command = lines.rfind(|line| line.starts_with("airlock ")).expect("it proposes a command");
    command.split(' ').skip(1).map(ToOwned::to_owned).collect()
}

/// Writes a plugin that sends a secret to its destination.
fn write_sender(workspace: &Workspace, file: &str, id: &str, place: &Value) {
    let mut api = place.clone();
    api["reason"] = json!("Reads forecasts.");
    let request = json!({
        "http": {"api": api},
        "secret": {"token": {"inject": {"header": "x-key"}, "audience": ["api"], "reason": "Signs in."}},
    });
    workspace.write_plugin(file, id, &request);
}

#[tokio::test]
async fn an_empty_list_of_stores_says_that_no_plugin_has_stored_anything() {
    let workspace = Workspace::new();
    workspace.write("airlock.json", "{}");
    let listed = workspace.airlock(&["plugin", "store"]).await.ok();
    assert_eq!(listed.stdout, "");
    assert!(listed.stderr.contains("no plugin has stored anything"), "{listed}");
    let document = workspace.airlock(&["plugin", "store", "--json"]).await.ok().json();
    assert_eq!(document["stores"], json!([]));
}

#[tokio::test]
async fn inspect_and_check_need_only_the_file_of_the_component() {
    let workspace = Workspace::new();
    workspace.write_plugin("asking.wasm", "asking", &json!({"clocks": {"reason": "Dates."}}));
    let document =
        workspace.airlock(&["plugin", "inspect", "asking.wasm", "--json"]).await.ok().json();
    assert_eq!(
        (&document["id"], &document["requests"][0]["place"]),
        (&json!("asking"), &json!("clocks")),
        "{document:#}"
    );
    assert!(document["native_bytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{document:#}");
    let again = workspace.airlock(&["plugin", "inspect", "asking.wasm"]).await.ok();
    assert!(
        again.stdout.contains("taken from the cache") && again.stdout.contains("Dates."),
        "{again}"
    );

    let outcome = async |name: &str| -> Vec<(String, String)> {
        let report = workspace.airlock(&["plugin", "check", name, "--json"]).await.failed().json();
        assert_eq!(report["ok"], false);
        let checks = report["checks"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|check| check["outcome"] == "fail");
        checks.map(|check| (check["check"].to_string(), check["details"].to_string())).collect()
    };
    workspace.write("poisoned.wasm", poisoned().await);
    let failed = outcome("poisoned.wasm").await;
    let embedded = failed.iter().find(|(check, _)| check.contains("embedded")).expect("it fails");
    assert!(embedded.1.contains("steal") && embedded.1.contains("ok: "), "{failed:?}");
    workspace.write("text.wasm", "this is a text");
    assert_eq!(outcome("text.wasm").await.len(), 1);
    assert_eq!(outcome(guests::STARLARK).await.len(), 1, "it is no tool plugin");
}
