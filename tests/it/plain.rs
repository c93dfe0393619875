//! A plain component, built without Airlock's contract, as a source of tools.

use std::{fs, path::PathBuf};

use airlock_tests::{Airlock, Client, Gateway, Setup, component, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The comments of the guest's `wit/station.wit`, in the form of a section `package-docs`. A tool
/// on the author's side puts that section into the component.
const DOCS: &str = r#"{
    "docs": "A weather station.",
    "worlds": {"station": {"docs": "What the component exports.", "func_exports": {"greet": {"docs": "Greets whoever asks."}}}},
    "interfaces": {"api": {
        "docs": "What the station knows.",
        "funcs": {
            "[constructor]sensor": {},
            "checksum": {"docs": "Adds up bytes."},
            "get-reading": {"docs": "Tells the temperature in a city."}
        },
        "types": {
            "reading": {"docs": "One measurement.", "items": {"city": "Where.", "wind-speed": "Absent on a quiet day."}},
            "scale": {"docs": "How warm it is."},
            "sensor": {"docs": "Belongs to a resource, so it is no tool."},
            "trouble": {"docs": "Why there is none."}
        }
    }}
}"#;

/// Writes the guest with a section of its documentation appended.
fn documented(directory: &TempDir) -> PathBuf {
    let component = fs::read(guests::PLAIN).expect("the component");
    let file = directory.path().join("station.wasm");
    fs::write(
        &file,
        component::with_section(&component, "package-docs", &[&[1], DOCS.as_bytes()].concat()),
    )
    .expect("a file");
    file
}

async fn gateway(directory: &TempDir, descriptions: Value) -> Gateway {
    let client = Client::wasm("station", documented(directory))
        .set("/wasm_config/descriptions", descriptions);
    Setup::new().client(client).serve_connected().await
}

/// Returns the names of the tools with their descriptions.
async fn tools(gateway: &Gateway) -> Vec<(String, String)> {
    let client = gateway.client("station").await.expect("it is listed");
    let text = |tool: &Value, key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    let tools = client["tools"].as_array().expect("a list");
    tools.iter().map(|tool| (text(tool, "name"), text(tool, "description"))).collect()
}

#[tokio::test]
async fn documented_functions_are_tools_and_others_are_once_the_operator_describes_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let own = [
        ("api_checksum", "Adds up bytes."),
        ("api_get_reading", "Tells the temperature in a city."),
        ("greet", "Greets whoever asks."),
    ];
    let own = own.map(|(name, description)| (name.to_owned(), description.to_owned()));
    let plain = gateway(&directory, json!({})).await;
    assert_eq!(tools(&plain).await, own);
    plain.until_said("it belongs to a resource").await;
    let described = gateway(&directory, json!({"api_count": "Counts."})).await;
    assert!(tools(&described).await.contains(&("api_count".into(), "Counts.".into())));
    assert_eq!(
        described.execute("station-api_count", &json!({})).await.content(),
        r#"{"result":1}"#
    );
}

#[tokio::test]
async fn functions_take_json_and_return_json() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let gateway = gateway(&directory, json!({})).await;
    for (tool, arguments, answer) in [
        ("greet", json!({"name": "Ada"}), "hello, Ada"),
        ("api_checksum", json!({"data": "AQID"}), r#"{"result":6}"#),
        (
            "api_get_reading",
            json!({"city": "Oslo"}),
            r#"{"result":{"city":"Oslo","degrees":-3.5,"scale":"celsius"}}"#,
        ),
        (
            "api_get_reading",
            json!({"city": "Oslo", "scale": "kelvin"}),
            r#"{"result":{"city":"Oslo","degrees":269.65,"scale":"kelvin"}}"#,
        ),
    ] {
        assert_eq!(gateway.execute(&format!("station-{tool}"), &arguments).await.content(), answer);
    }
    gateway.sandbox_is_empty().await;
}

#[tokio::test]
async fn an_err_is_the_error_of_the_tool_and_a_wrong_argument_that_of_the_caller() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let gateway = gateway(&directory, json!({})).await;
    let failed =
        gateway.execute("station-api_get_reading", &json!({"city": "Atlantis"})).await.ok();
    assert_eq!(
        (&failed["is_error"], &failed["content"]),
        (&json!(true), &json!("there is no station in Atlantis"))
    );
    let asleep = gateway.execute("station-api_get_reading", &json!({"city": "Nowhere"})).await.ok();
    assert_eq!(asleep["content"], "asleep");
    let wrong = gateway
        .execute("station-api_get_reading", &json!({"city": "Oslo", "scale": "fahrenheit"}))
        .await;
    assert!(wrong.text.contains("scale") && wrong.text.contains("celsius"), "{}", wrong.text);
}

/// Modules for other hosts, in WebAssembly's text format, and a part of the reason that each is refused.
const FOREIGN: [(&str, &str); 2] = [
    // As a plugin of hyper-mcp is.
    (
        r#"(module
            (import "extism:host/env" "input_length" (func (result i64)))
            (func (export "call_tool") (result i32) (i32.const 0))
        )"#,
        "a plugin for Extism",
    ),
    // As some components for wassette do.
    (
        r#"(component (import "wasi:config/store@0.2.0-draft" (instance)))"#,
        "wasi:config/store@0.2.0-draft; a plugin reads its configuration by airlock:host/config",
    ),
];

#[tokio::test]
async fn a_module_for_another_host_is_refused_with_the_reason_in_one_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("foreign.wasm");
    for (text, reason) in FOREIGN {
        fs::write(&file, wat::parse_str(text).expect("it is valid")).expect("written");
        for command in [["plugin", "inspect"], ["plugin", "install"]] {
            let run = command.iter().fold(Airlock::new(), Airlock::arg).arg(&file);
            let refused = run.current_dir(directory.path()).run().await.failed();
            assert!(refused.stderr.lines().any(|line| line.contains(reason)), "{refused}");
        }
    }
    assert!(!directory.path().join("airlock.json").exists(), "nothing was changed");
}

#[tokio::test]
async fn an_operator_installs_it_with_the_descriptions_that_it_lacks() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let install = async |more: &[&str]| {
        let install = Airlock::new()
            .current_dir(directory.path())
            .arg("plugin")
            .arg("install")
            .arg(guests::PLAIN);
        more.iter().fold(install.arg("--name").arg("station"), Airlock::arg).run().await
    };
    let refused = install(&[]).await.failed();
    assert!(refused.stderr.contains("--describe 'api_checksum=<WHAT IT DOES>'"), "{refused}");
    assert!(!directory.path().join("airlock.json").exists(), "nothing was changed");
    let installed = install(&["--describe", "greet=Greets whoever asks."]).await.ok();
    assert!(installed.stderr.contains("api_checksum, api_count, api_get_reading"), "{installed}");
    assert!(installed.stdout.contains("airlock call station-greet"), "{installed}");
    let call = Airlock::new()
        .current_dir(directory.path())
        .arg("call")
        .arg("station-greet")
        .arg(r#"{"name": "Ada"}"#);
    assert_eq!(call.run().await.ok().stdout.trim(), "hello, Ada");
}
