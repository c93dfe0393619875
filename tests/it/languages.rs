//! Plugins in Rust, JavaScript and Python: written from the templates, built by the command line,
//! called through the gateway.

mod findings;
mod guards;

use std::{fs, path::Path};

use airlock::{
    Gateway,
    config::Config,
    door::{Budget, Caller, CallerCapabilities, Event, Origin, Progress},
};
use airlock_tests::{Airlock, Client, Finished, Service, Setup, languages};
use serde_json::{Value, json};

/// Returns a gateway with the plugin as its only source.
fn setup(component: &Path) -> Setup {
    Setup::new().client(Client::wasm("skies", component))
}

/// Checks that a component behaves as the example's tool, in any language.
async fn is_the_example(component: &Path) {
    let setup = setup(component);
    let known = setup.call("skies-get_weather", &json!({"city": " Oslo"})).await;
    assert_eq!(known["ok"], true, "{known:#}");
    assert_eq!(
        (&known["structured"]["city"], &known["structured"]["sky"]),
        (&json!("oslo"), &json!("snow")),
        "{known:#}"
    );
    assert_eq!(known["structured"]["celsius"].as_f64(), Some(4.0), "{known:#}");
    assert!(
        known["content"][0]["text"].as_str().is_some_and(|text| text.contains("snow")),
        "{known:#}"
    );
    let unknown = setup.call("skies-get_weather", &json!({"city": "Olso"})).await;
    assert_eq!(
        (&unknown["ok"], &unknown["error"]["code"]),
        (&json!(false), &json!("unknown_city")),
        "{unknown:#}"
    );
    assert_eq!(
        unknown["error"]["message"], "no weather of Olso; known are cairo, lima, oslo, rome",
        "{unknown:#}"
    );
    assert_eq!(
        progress(&setup).await,
        [
            (0.0, Some(1.0), Some("looking it up".to_owned())),
            (1.0, Some(1.0), Some("found".to_owned()))
        ]
    );
    let said = logged(&setup, "get_weather", r#"{"city": "Rome"}"#).await;
    assert!(said.contains("weather asked for") && said.contains("known=4"), "{said}");
    is_described(&setup).await;
}

/// Checks that the schemas describe the arguments and the result.
async fn is_described(setup: &Setup) {
    let tools = setup.airlock("tools").arg("--json").run().await.ok();
    assert!(!tools.stderr.contains("no tool descriptors are embedded"), "{tools}");
    let tools = tools.json();
    let tools = tools["tools"].as_array().expect("a list of tools");
    let tool = tools.iter().find(|tool| tool["name"] == "skies-get_weather").expect("it is listed");
    let input = &tool["input_schema"];
    let output = &tool["output_schema"];
    assert_eq!(
        (&input["properties"]["city"]["type"], &input["required"]),
        (&json!("string"), &json!(["city"])),
        "{tool:#}"
    );
    assert_eq!(output["required"], json!(["city", "celsius", "sky"]), "{tool:#}");
    assert_eq!(tool["description"], "Tells the weather of a city, as it is right now.", "{tool:#}");
    assert_eq!(
        (&tool["title"], &tool["annotations"]["readOnlyHint"]),
        (&json!("Weather"), &json!(true)),
        "{tool:#}"
    );
}

/// Returns the progress that a call of the example's tool reports before its result.
async fn progress(setup: &Setup) -> Vec<(f64, Option<f64>, Option<String>)> {
    let config = Config::load(&setup.write()).expect("a good configuration");
    let gateway = Gateway::builder(config).start().await.expect("the gateway starts");
    let view = gateway.caller(Origin::Caller).view().clone();
    let budget = Budget {
        deadline: airlock_tests::wait::SOON,
        script: airlock_tests::wait::SOON,
        nested_calls: 64,
        depth: 4,
        in_flight: 8,
    };
    let (caller, mut events) =
        Caller::with_events(view, Origin::Caller, budget, CallerCapabilities::default());
    let call = caller.admit("skies-get_weather", r#"{"city": "Lima"}"#).expect("it is allowed");
    let _ = call.run().await.expect("it works");
    let mut seen = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let Event::Progress { progress: Progress { done, total, message }, .. } = event {
            seen.push((done, total, message));
        }
    }
    gateway.stop().await;
    seen
}

/// Returns the gateway's log of a call.
async fn logged(setup: &Setup, tool: &str, arguments: &str) -> String {
    let call = setup
        .airlock("call")
        .arg(format!("skies-{tool}"))
        .arg(arguments)
        .env("AIRLOCK_LOG", "airlock=debug");
    call.run().await.stderr
}

/// Checks that a component does not have the path of the directory that it was built in.
fn has_no_path_of_the_machine(component: &Path) {
    let directory = component.parent().expect("a directory").to_str().expect("UTF-8").as_bytes();
    let wasm = fs::read(component).expect("the component");
    let found = wasm.windows(directory.len()).position(|found| found == directory);
    let from = found.map(|at| String::from_utf8_lossy(&wasm[at.saturating_sub(40)..at + 80]));
    assert_eq!(from, None, "{}", component.display());
}

/// Checks the contract of every interpreter. A granted request works, a refusal is returned to the
/// tool, random numbers differ in each call, an uncaught exception is the tool's own error, and printed text is logged.
async fn keeps_to_the_contract(component: &Path, accident: &str, file: &str) {
    let server = Service::start(|_| (200, json!("come in"))).await;
    let url = json!({"url": server.base_url()});
    let rule = json!([{"url": server.base_url(), "private": true}]);
    let client = Client::wasm("skies", component).set("/wasm_config/profile", "trusted");
    let visit = Setup::new()
        .client(client.set("/wasm_config/grants/http", rule))
        .call("skies-visit", &url)
        .await;
    assert_eq!(
        (&visit["ok"], &visit["content"][0]["text"]),
        (&json!(true), &json!("\"come in\"")),
        "{visit:#}"
    );
    let setup = setup(component);
    let refused = setup.call("skies-knock", &url).await;
    assert_eq!(refused["structured"], json!({"kind": "denied"}), "{refused:#}");
    assert_eq!(server.asked().len(), 1, "only the request that was granted came");
    let said = logged(&setup, "knock", &url.to_string()).await;
    assert!(said.contains("about to knock"), "{said}");
    let one = setup.call("skies-dice", &json!({})).await;
    let other = setup.call("skies-dice", &json!({})).await;
    for kind in ["random", "uuid"] {
        let one = &one["structured"][kind];
        let other = &other["structured"][kind];
        assert!(!one.is_null() && one != other, "{kind}: {one} and {other}");
    }
    let crashed = setup.call("skies-crash", &json!({})).await;
    assert_eq!(crashed["ok"], false, "{crashed:#}");
    assert!(
        crashed["error"]["message"].as_str().is_some_and(|message| message.contains(accident)),
        "{crashed:#}"
    );
    let said = logged(&setup, "crash", "{}").await;
    assert!(said.contains("the tool failed") && said.contains(file), "{said}");
}

#[tokio::test]
async fn a_plugin_in_javascript_returns_fails_logs_and_reports_progress() {
    let component = languages::javascript().await;
    is_the_example(&component).await;
    imports_what_it_requests(&component).await;
    keeps_to_the_contract(&component, "TypeError", "probe.js:").await;
    has_no_path_of_the_machine(&component);
}

#[tokio::test]
async fn a_plugin_in_python_returns_fails_logs_and_reports_progress() {
    let component = languages::python().await;
    is_the_example(&component).await;
    imports_what_it_requests(&component).await;
    keeps_to_the_contract(&component, "AttributeError", "app.py").await;
    has_no_path_of_the_machine(&component);
}

#[tokio::test]
async fn a_new_plugin_in_rust_can_be_built_and_called() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let new = new(place.path(), "my-plugin", "rust").await.ok();
    let next = "  cd my-plugin\n  airlock plugin build\n  airlock plugin check\n  \
                airlock plugin install my-plugin.wasm\n  \
                airlock call my_plugin-get_weather '{\"city\":\"Oslo\"}'\n\n\
                In the configuration and in the names of its tools, my-plugin is my_plugin: these names \
                have no `-`.\n\nWhile you write, ";
    assert!(new.stdout.contains(next), "{new}");
    let dev = "\n  airlock plugin dev --call get_weather '{\"city\":\"Oslo\"}'\n";
    assert!(new.stdout.ends_with(dev), "{new}");
    let directory = place.path().join("my-plugin");
    let built = languages::build(&directory).await.ok().json();
    assert_eq!(
        (&built["ok"], &built["tools"]),
        (&json!(true), &json!(["get_weather"])),
        "{built:#}"
    );
    let component = directory.join("my-plugin.wasm");
    assert_eq!(built["file"].as_str(), component.to_str(), "{built:#}");
    is_the_example(&component).await;
    assert_eq!(
        imports(&component).await,
        ["airlock:host/context@0.1.0", "airlock:host/log@0.1.0", "airlock:types/types@0.1.0"]
    );
    // The macros embed the manifest in the module and the build embeds it in the component, where a
    // module's section cannot be taken for the component's.
    let bytes = fs::read(&component).expect("the component");
    let manifests = bytes.windows(16).filter(|window| window == b"airlock:manifest").count();
    assert_eq!(manifests, 2, "sections that hold a manifest");
}

/// Returns the imports of a component.
async fn imports(component: &Path) -> Vec<String> {
    let inspect = Airlock::new().arg("plugin").arg("inspect").arg(component).arg("--json");
    let document = inspect.run().await.ok().json();
    serde_json::from_value(document["imports"].clone()).expect("a list of names")
}

/// Checks that a component imports only what its manifest requests of the host.
async fn imports_what_it_requests(component: &Path) {
    let imports = imports(component).await;
    let of_host = imports.iter().filter_map(|import| import.strip_prefix("airlock:host/"));
    assert_eq!(of_host.collect::<Vec<_>>(), ["context@0.1.0", "http@0.1.0", "log@0.1.0"]);
}

async fn new(place: &Path, name: &str, language: &str) -> Finished {
    let new = Airlock::new().arg("plugin").arg("new").arg(name).arg("--lang").arg(language);
    new.current_dir(place).run().await
}

#[tokio::test]
async fn a_new_plugin_overwrites_nothing() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let _ = new(place.path(), "weather", "python").await.ok();
    let file = place.path().join("weather/app.py");
    fs::write(&file, "mine").expect("a file");
    for language in ["python", "rust"] {
        let again = new(place.path(), "weather", language).await.failed();
        assert!(again.stderr.contains("weather exists already"), "{again}");
    }
    assert_eq!(fs::read_to_string(file).expect("it is there"), "mine");
    assert_eq!(
        fs::read_dir(place.path().join("weather")).expect("a directory").count(),
        8,
        "nothing was added"
    );
}

#[tokio::test]
async fn without_a_compiler_the_error_names_what_to_install() {
    let place = tempfile::tempdir().expect("a temporary directory");
    for (language, advice) in [
        ("rust", "https://rustup.rs"),
        ("javascript", "https://nodejs.org"),
        ("python", "https://python.org"),
    ] {
        let name = format!("my-{language}");
        let _ = new(place.path(), &name, language).await.ok();
        let build =
            Airlock::new().arg("plugin").arg("build").arg(place.path().join(&name)).arg("--json");
        let failed = build.env("PATH", place.path()).run().await.failed().json();
        let message = failed["error"]["message"].as_str().expect("a message");
        assert!(message.contains(advice), "{failed:#}");
    }
}

#[tokio::test]
async fn a_failed_compilation_prints_the_errors_of_the_compiler() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let _ = new(place.path(), "broken", "javascript").await.ok();
    let directory = place.path().join("broken");
    fs::write(directory.join("plugin.js"), "export const tools = {\n  describe( {\n")
        .expect("a file");
    let failed = languages::build(&directory).await.failed();
    let document = failed.json();
    let output = document["output"][0]["text"].as_str().expect("the output of node");
    assert!(output.contains("plugin.js:") && output.contains("SyntaxError"), "{failed}");
    assert_eq!(
        document["error"]["message"], "node --check failed; its output is in `output`",
        "{failed}"
    );
    assert!(!directory.join("broken.wasm").exists());
}

/// Writes a new plugin whose compiler is the one of the tests. Returns its directory.
async fn with_compiler(
    place: &Path,
    language: &str,
    peer: &str,
    compiler: &str,
) -> std::path::PathBuf {
    let _ = new(place, "tried", language).await.ok();
    let directory = place.join("tried");
    let installed = airlock_tests::peers::installed(peer);
    std::os::unix::fs::symlink(installed, directory.join(compiler)).expect("a link");
    directory
}

/// Builds a plugin that cannot be built. Returns the error.
async fn error_of(directory: &Path) -> String {
    let failed = languages::build(directory).await.failed().json();
    failed["error"]["message"].as_str().expect("a message").to_owned()
}

#[tokio::test]
async fn python_that_exports_no_tools_or_cannot_be_imported_is_named_before_it_is_compiled() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let directory = with_compiler(place.path(), "python", "componentize", ".venv").await;
    let file = directory.join("app.py");
    let good = fs::read_to_string(&file).expect("it is there");
    let export = "Tools = plugin(get_weather)";
    for (source, expected) in [
        (
            good.replace(export, ""),
            "app.py has no `Tools`: its last line is `Tools = plugin(TOOL, …)`",
        ),
        (
            good.replace(export, "Tools = get_weather"),
            "`Tools` in app.py is a Tool and not the class",
        ),
        (
            format!("{good}\nimport nowhere\n"),
            "app.py cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
        ),
    ] {
        fs::write(&file, source).expect("a file");
        let message = error_of(&directory).await;
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test]
async fn the_script_build_of_a_package_writes_the_module_that_is_compiled() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let directory = with_compiler(place.path(), "typescript", "node_modules", "node_modules").await;
    let file = directory.join("package.json");
    let package = fs::read_to_string(&file).expect("it is there");
    let mut package: Value = serde_json::from_str(&package).expect("JSON");
    for (script, expected) in [
        ("node -e \"process.exit(3)\"", "npm run build failed; "),
        ("node -e \"\"", "`npm run build` did not write dist/plugin.js"),
        ("mkdir dist && echo 'export const tools = {' > dist/plugin.js", "node --check failed"),
    ] {
        package["scripts"]["build"] = script.into();
        fs::write(&file, package.to_string()).expect("a file");
        let message = error_of(&directory).await;
        assert!(message.starts_with(expected), "{script}: {message}");
    }
}

#[tokio::test]
async fn a_new_plugin_in_typescript_can_be_built_and_called_with_its_types_removed() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let directory = with_compiler(place.path(), "typescript", "node_modules", "node_modules").await;
    // The script of the template needs its own compiler and bundler. Node.js removes types too.
    let strip = "import { readFileSync, writeFileSync } from 'node:fs';\n\
                 import { stripTypeScriptTypes } from 'node:module';\n\
                 writeFileSync('plugin.js', stripTypeScriptTypes(readFileSync('plugin.ts', 'utf8')));\n";
    fs::write(directory.join("strip.mjs"), strip).expect("a file");
    let file = directory.join("package.json");
    let package = fs::read_to_string(&file).expect("it is there");
    let mut package: Value = serde_json::from_str(&package).expect("JSON");
    package["main"] = "plugin.js".into();
    let node = airlock_tests::peers::recent_node();
    package["scripts"]["build"] = format!("'{}' strip.mjs", node.display()).into();
    fs::write(&file, package.to_string()).expect("a file");
    let _ = languages::build(&directory).await.ok();
    is_the_example(&directory.join("tried.wasm")).await;
}

#[tokio::test]
async fn the_schema_of_the_configuration_comes_from_the_code_and_no_path_of_the_machine_with_it() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let _ = new(place.path(), "tuned", "rust").await.ok();
    let directory = place.path().join("tuned");
    let manifest = directory.join("plugin.toml");
    let source = directory.join("src/lib.rs");
    let good = fs::read_to_string(&source).expect("it is there");
    let text = fs::read_to_string(&manifest).expect("it is there");
    fs::write(&manifest, format!("{text}\n[config]\nfrom_code = true\n")).expect("a file");
    let message = error_of(&directory).await;
    assert!(
        message.contains("declares none; write `plugin!(TOOL, …; config = Settings)`"),
        "{message}"
    );
    let settings = "/// Settings.\n#[airlock_guest::data]\nstruct Settings {\n    /// Rows.\n    rows: u8,\n}\n\n";
    let declared = good.replace("plugin!(get_weather)", "plugin!(get_weather; config = Settings)");
    fs::write(&source, declared.replace("plugin!(", &format!("{settings}plugin!(")))
        .expect("a file");
    let _ = languages::build(&directory).await.ok();
    let component = directory.join("tuned.wasm");
    let inspect = Airlock::new().arg("plugin").arg("inspect").arg(&component).arg("--json");
    let document = inspect.run().await.ok().json();
    let schema = &document["config_schema"];
    assert_eq!(
        (&schema["properties"]["rows"]["type"], &schema["additionalProperties"]),
        (&json!("integer"), &json!(false)),
        "{document:#}"
    );
    assert_eq!(document["tools"][0]["_meta"], Value::Null, "{document:#}");
    let check = Airlock::new().arg("plugin").arg("check").arg(&component).arg("--json");
    let report = check.run().await.ok().json();
    for name in [
        "it is built from plugin.toml as it is now",
        "the embedded descriptors match the tools that it describes",
    ] {
        let checks = report["checks"].as_array().expect("a list");
        let check = checks.iter().find(|check| check["check"] == name).expect("it is checked");
        assert_eq!(check["outcome"], "pass", "{check:#}");
    }
    let wasm = fs::read(&component).expect("the component");
    let home = std::env::var("HOME").unwrap_or_default();
    for path in [place.path().to_str().expect("UTF-8"), home.as_str(), ".cargo/registry"] {
        let is_in = wasm.windows(path.len().max(1)).any(|found| found == path.as_bytes());
        assert!(!is_in, "{path}");
    }
}

#[test]
fn the_example_in_rust_locks_crates_that_the_workspace_locks_too() {
    let read =
        |file: &str| fs::read_to_string(airlock_tests::root().join(file)).expect("a lock file");
    let packages = |text: &str| {
        let packages = text.split("\n[[package]]\n").skip(1);
        let lines = packages.map(|package| package.lines().take(2).collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>()
    };
    let ours = packages(&read("Cargo.lock"));
    let example = packages(&read("plugins/examples/rust/Cargo.lock"));
    let others: Vec<_> = example
        .iter()
        .filter(|package| !package.contains("\"skies\"") && !ours.contains(package))
        .collect();
    assert!(
        example.len() > 20 && others.is_empty(),
        "not in the workspace's Cargo.lock: {others:#?}"
    );
}

#[test]
fn the_examples_compile_with_the_versions_that_the_tests_install() {
    let read = |file: &str| -> Value {
        let text = fs::read_to_string(airlock_tests::root().join(file)).expect("it is there");
        serde_json::from_str(&text).expect("JSON")
    };
    let peers = read("tests/peers/package.json");
    for example in ["javascript", "guard-javascript"] {
        let package = read(&format!("plugins/examples/{example}/package.json"));
        for (name, version) in package["devDependencies"].as_object().expect("a table") {
            assert_eq!(&peers["dependencies"][name], version, "{example}: {name}");
        }
        assert_eq!(package["overrides"], peers["overrides"], "{example}");
    }
    // The tests install what the example of a plugin requires.
    let [plugin, guard] = ["python", "guard-python"].map(|example| {
        let file = languages::example(example).join("requirements.txt");
        fs::read_to_string(file).expect("it is there")
    });
    assert_eq!(plugin, guard);
}
