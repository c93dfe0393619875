mod address;
mod clients;
mod controls;
mod defaults;
mod files;
mod guards;
mod http_client;
mod information_flow;
mod keys;
mod limits;
mod management;
mod merging;
mod plugins;
mod processes;
mod providers;
mod publishers;
mod ranges;
mod reading;
mod records;
mod redaction;
mod secrets;
mod server;
mod store;
mod stored_plugins;
mod telemetry;
mod tool_manager;
mod vaults;

use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use airlock_core::tool::Policy;

const SECRET: &str = "sk-bf-hunter2-hunter2-hunter2";

/// Every variable that starts with `GOOD` is set.
fn env(name: &str) -> Option<String> {
    match name {
        "EMPTY" => Some(String::new()),
        "PATH" => Some("/usr/bin".into()),
        _ if name.starts_with("GOOD") => Some(format!("{SECRET}-{name}")),
        _ => None,
    }
}

fn parse(file: &Value) -> Result<Config, ConfigError> {
    Config::parse(&file.to_string(), "/etc/airlock/gateway.json", &env)
}

fn good(file: &Value) -> Config {
    parse(file).expect("a good configuration")
}

/// Returns the error of a file, one problem per line.
fn error(file: &Value) -> String {
    let error = parse(file).expect_err("a bad configuration");
    assert!(!error.to_string().contains("hunter2"), "a secret is shown: {error}");
    error.problems().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn stdio(name: &str) -> Value {
    json!({"name": name, "connection_type": "stdio", "stdio_config": {"command": "server"}})
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

fn clients(clients: Value) -> Value {
    json!({"mcp": with(json!({}), "client_configs", clients)})
}

/// One stdio client named `fs` with one key changed.
fn fs_with(key: &str, value: Value) -> Value {
    clients(json!([with(stdio("fs"), key, value)]))
}

#[test]
fn an_empty_file_listens_on_loopback_and_grants_nothing() {
    let config = good(&json!({}));
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert!(config.providers.is_empty() && config.clients.is_empty() && config.keys.is_empty());
    assert_eq!(
        (config.agent.max_depth, config.agent.parallel_calls, config.agent.calls_per_answer),
        (10, 8, 128)
    );
    assert_eq!((config.agent.max_tool_bytes, config.agent.timeout.as_secs()), (8 << 20, 30 * 60));
    assert_eq!(
        (config.budget.deadline.as_secs(), config.budget.nested_calls, config.budget.depth),
        (30, 64, 4)
    );
    let client = &good(&clients(json!([stdio("fs")]))).clients[0];
    assert_eq!(client.policy, Policy::default());
}

#[test]
fn a_disabled_client_or_key_needs_no_environment_but_keeps_its_name() {
    let process = json!({"command": "x", "envs": ["UNSET"]});
    let file = json!({
        "mcp": {"client_configs": [with(with(stdio("fs"), "disabled", json!(true)), "stdio_config", process)]},
        "governance": {"virtual_keys": [
            {"name": "old", "value": "env.UNSET", "is_active": false, "mcp_configs": [{"mcp_client_name": "fs"}]},
        ]},
    });
    let config = good(&file);
    assert!(config.clients.is_empty() && config.keys.is_empty());
}

#[test]
fn every_sample_is_accepted() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(samples).expect("samples") {
        let path = entry.expect("a sample").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("a sample");
            let file = path.display().to_string();
            Config::parse(&text, &file, &environment_of_samples).expect("a good sample");
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} samples");
}

fn environment_of_samples(name: &str) -> Option<String> {
    match name {
        "TRACKER_URL" => Some("https://tracker.example.com/mcp".to_owned()),
        "NOT_THERE_YET" => None,
        // No sample names them.
        _ if name.starts_with("OTEL_") => None,
        _ => Some(SECRET.to_owned()),
    }
}
