//! Files and tools that a configuration names.

use super::*;
use airlock_core::tool::ClientName;
use airlock_lock::FILE_NAME as LOCK_FILE;

#[test]
fn a_missing_configuration_file_is_reported_with_the_cause() {
    let error = Config::load(Path::new("/nowhere/gateway.json")).expect_err("no file");
    assert_snapshot!(error, @"there is no configuration file /nowhere/gateway.json; give the path of another one, on the command line with `--config FILE`");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn missing_files_and_values_named_by_the_configuration_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    let wasm = json!({
        "component": "p.wasm",
        "grants": {"files": {"in": {"path": ".", "access": "read_only"}}},
    });
    let file = clients(json!([{"name": "p", "connection_type": "wasm", "wasm_config": wasm}]));
    std::fs::write(&path, file.to_string()).expect("a file");
    let config = Config::load(&path).expect("a good file");
    let error = config.check_files("gateway.json").await.expect_err("no component").to_string();
    let masked = error.replace(&directory.path().display().to_string(), "…");
    assert_snapshot!(masked, @r#"gateway.json: mcp.client_configs[name = "p"].wasm_config.component: there is no file …/p.wasm"#);
    let wasm = directory.path().join("p.wasm");
    std::fs::write(&wasm, "").expect("a file");
    let error = config.check_files("gateway.json").await.expect_err("no component").to_string();
    assert!(error.contains("wasm_config.component: "), "{error}");
    std::fs::write(&wasm, wat::parse_str("(component)").expect("a component")).expect("a file");
    config.check_files("gateway.json").await.expect("all files");
}

#[tokio::test]
async fn a_secret_without_a_value_is_reported_with_its_plugin_and_what_the_plugin_is_not_granted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    let manifest = json!({
        "schema": "airlock.plugin/1", "id": "p", "version": "1.0.0", "contract": "0.1",
        "request": {
            "clocks": {"reason": "dates"},
            "secret": {"token": {"reveal": true, "reason": "signs in"}},
        },
    });
    let manifest = manifest.to_string();
    let component = format!("(component (@custom \"airlock:manifest\" {manifest:?}))");
    let wasm = wat::parse_str(component).expect("a component");
    std::fs::write(directory.path().join("p.wasm"), wasm).expect("a file");
    let wasm = json!({
        "component": "p.wasm",
        "grants": {"secret": {
            "token": {"from": "env:AIRLOCK_TEST_UNSET"},
            "other": {"from": "env:AIRLOCK_TEST_UNSET"},
        }},
    });
    let file = clients(json!([{"name": "mail", "connection_type": "wasm", "wasm_config": wasm}]));
    std::fs::write(&path, file.to_string()).expect("a file");
    let config = Config::load(&path).expect("a good file");
    let error = config.check_files("gateway.json").await.expect_err("refused").to_string();
    assert_snapshot!(error, @r#"
    gateway.json has 2 errors:
      mcp.client_configs[name = "mail"].wasm_config.grants.secret.token.from: the secret "token" of the plugin mail has no value, so that the plugin is not loaded: the environment variable AIRLOCK_TEST_UNSET is not set, or is not text
      mcp.client_configs[name = "mail"].wasm_config: the plugin needs clocks, which is not granted; its reason: dates; grant it with "clocks": true
    "#);
}

/// Writes the component of a plugin with the tools `today` and `week`, and one that embeds none.
fn write_components(home: &Path) {
    let section = r#"{"schema":"airlock.tools/1","tools":[{"name":"today","inputSchema":{}},{"name":"week","inputSchema":{}}]}"#;
    let weather = format!(
        r#"(component (instance $i) (export "airlock:plugin/tools@0.1.0" (instance $i)) (@custom "airlock:tools" {section:?}))"#
    );
    for (name, text) in [("weather", weather.as_str()), ("plan", "(component)")] {
        let wasm = wat::parse_str(text).expect("a component");
        std::fs::write(home.join(name).with_extension("wasm"), wasm).expect("a file");
    }
}

#[test]
fn a_name_that_no_tool_of_a_plugin_has_is_a_warning() {
    let home = tempfile::tempdir().expect("a directory");
    write_components(home.path());
    let path = home.path().join("gateway.json");
    let lock = "version = 1\n[[plugin]]\nclient = \"plan\"\ncomponent = \"sha256:00\"\n\
                descriptors = \"sha256:00\"\nrequests = []\n\
                [[plugin.tool]]\nname = \"make\"\ndescription = \"\"\ndefinition = '{}'\n";
    let unknown = r#"the plugin weather has no tool "tody"; it has today, week"#;
    let unaccepted = r#"the plugin plan has no tool "mak"; it has make"#;
    for (name, tools, lock, message) in [
        ("weather", json!(["today", "WEEK"]), "", None),
        ("weather", json!(["*"]), "", None),
        ("weather", json!(["tody", "week"]), "", Some(unknown)),
        // The tools of a component that embeds none are known if they were accepted.
        ("plan", json!(["mak"]), "", None),
        ("plan", json!(["mak"]), lock, Some(unaccepted)),
        ("plan", json!(["make"]), lock, None),
    ] {
        let file = clients(json!([{
            "name": name, "connection_type": "wasm", "tools_to_execute": tools,
            "wasm_config": {"component": format!("{name}.wasm")},
        }]));
        std::fs::write(&path, file.to_string()).expect("a file");
        std::fs::write(path.with_file_name(LOCK_FILE), lock).expect("a file");
        let config = Config::load(&path).expect("a configuration");
        let found: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
        let key = format!("mcp.client_configs[name = {name:?}].tools_to_execute");
        let expected = message.map(|message| format!("{key}: {message}"));
        assert_eq!(found, Vec::from_iter(expected), "{tools}");
    }
}

#[tokio::test]
async fn a_tool_for_a_slot_must_be_one_that_the_configured_plugin_has_and_may_run() {
    let home = tempfile::tempdir().expect("a directory");
    write_components(home.path());
    let check = async |tool: Value, tools: Value| {
        let file = clients(json!([
            {"name": "weather", "connection_type": "wasm", "wasm_config": {"component": "weather.wasm"},
             "tools_to_execute": ["today"]},
            {"name": "web", "connection_type": "http", "connection_string": "http://127.0.0.1:9/mcp"},
            {"name": "plan", "connection_type": "wasm",
             "wasm_config": {"component": "plan.wasm", "grants": {"slot": tool, "tools": tools}}},
        ]));
        let origin = home.path().join("gateway.json").display().to_string();
        let config = Config::parse(&file.to_string(), &origin, &|_| None).expect("a configuration");
        config.check_files("gateway.json").await.map_err(|error| error.to_string())
    };
    // The tools of a server, and those of a component that embeds none, are not known.
    let known = json!({"forecast": "weather-today", "search": "web-any", "self": "plan-any"});
    assert_eq!(check(known, json!(["weather-today"])).await, Ok(()));
    assert_snapshot!(
        check(json!({"forecast": "weather-tomorrow"}), json!(["weather-week"])).await.expect_err("unknown"),
        @r#"
    gateway.json has 2 errors:
      mcp.client_configs[name = "plan"].wasm_config.grants.slot.forecast: the plugin weather has no tool "weather-tomorrow"; it has weather-today, weather-week
      mcp.client_configs[name = "plan"].wasm_config.grants.tools[0]: "weather-week" is not in the `tools_to_execute` of weather, so nothing can call it
    "#
    );
}

#[test]
fn plugins_are_unpinned_while_the_configuration_has_no_lock_file() {
    let plugin =
        json!({"name": "p", "connection_type": "wasm", "wasm_config": {"component": "p.wasm"}});
    let file = clients(json!([stdio("fs"), plugin]));
    assert!(good(&file).unpinned().is_empty(), "not loaded from a file");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    std::fs::write(&path, file.to_string()).expect("a file");
    assert_eq!(unpinned(&path).iter().map(ClientName::as_str).collect::<Vec<_>>(), ["p"]);
    std::fs::write(directory.path().join(LOCK_FILE), "").expect("a file");
    assert!(unpinned(&path).is_empty(), "a plugin that is not in the lock file is refused");
}

fn unpinned(path: &Path) -> Vec<ClientName> {
    Config::load(path).expect("a good file").unpinned()
}
