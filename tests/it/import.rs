//! `airlock import`, and the commands that a person types next.

use std::{fs, os::unix::fs::PermissionsExt as _};

use airlock_tests::{Airlock, Client, Setup, guests, misbehaving};
use serde_json::json;

#[tokio::test]
async fn a_file_of_bifrost_is_translated_to_one_that_check_accepts_and_never_overwrites() {
    let home = tempfile::tempdir().expect("a directory");
    let source = json!({
        "config_store": {"enabled": true},
        "mcp": {"client_configs": [
            {"name": "sh", "connection_type": "stdio", "stdio_config": {"command": "sh"}, "tools_to_execute": ["*"],
             "tool_pricing": {"x": 1}, "openapi_config": {"x": 1}},
        ]},
    });
    fs::write(home.path().join("config.json"), source.to_string()).expect("a file");
    let airlock =
        |words: &[&str]| words.iter().fold(Airlock::new(), Airlock::arg).current_dir(home.path());
    let absent = airlock(&["check"]).run().await.failed();
    assert!(absent.stderr.contains("--config FILE"), "{absent}");
    let imported = airlock(&["import", "config.json", "--json"]).run().await.ok().json();
    let outcomes: Vec<_> = imported["settings"]
        .as_array()
        .expect("settings")
        .iter()
        .map(|line| (line["key"].as_str().unwrap_or_default(), &line["outcome"]))
        .collect();
    for expected in [
        ("config_store", &json!("no_meaning")),
        ("mcp.client_configs[0].openapi_config", &json!("refused")),
        ("mcp.client_configs[0]", &json!("taken")),
    ] {
        assert!(outcomes.contains(&expected), "{expected:?}: {imported:#}");
    }
    let written = home.path().join("airlock.json");
    let mode = fs::metadata(&written).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may have credentials");
    let checked = airlock(&["check"]).run().await.ok();
    assert!(checked.stdout.ends_with("ok\n"), "{checked}");
    let before = fs::read_to_string(&written).expect("a file");
    let again = airlock(&["import", "config.json"]).run().await.failed();
    assert!(again.stderr.contains("--output"), "{again}");
    assert_eq!(fs::read_to_string(&written).expect("a file"), before);
}

#[tokio::test]
async fn a_file_without_a_server_and_a_provider_is_an_error_and_nothing_is_written() {
    let home = tempfile::tempdir().expect("a directory");
    fs::write(home.path().join("mcp.json"), r#"{"servers": {"empty": {}}}"#).expect("a file");
    let airlock =
        |words: &[&str]| words.iter().fold(Airlock::new(), Airlock::arg).current_dir(home.path());
    let failed = airlock(&["import", "mcp.json"]).run().await.failed();
    assert!(failed.stdout.contains("servers.empty"), "{failed}");
    assert!(
        failed.stderr.contains("nothing was taken") && failed.stderr.contains("VS Code"),
        "{failed}"
    );
    let failed = airlock(&["import", "mcp.json", "--json"]).run().await.failed().json();
    assert_eq!(
        (&failed["ok"], &failed["error"]["code"]),
        (&json!(false), &json!("airlock.nothing_taken")),
        "{failed}"
    );
    assert!(!home.path().join("airlock.json").exists());
}

#[tokio::test]
async fn a_tool_is_shown_whole_and_a_name_without_its_client_gets_the_full_one() {
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT));
    let shown = setup.airlock("tools").arg("text-word_count").run().await.ok().stdout;
    assert!(shown.starts_with("text-word_count  ") && shown.contains("input schema:"), "{shown}");
    let tool = setup.airlock("tools").arg("text-word_count").arg("--json").run().await.ok().json();
    assert_eq!(
        (&tool["client"], &tool["input_schema"]["type"]),
        (&json!("text"), &json!("object"))
    );
    let wrong = setup.airlock("tools").arg("word_count").run().await.failed();
    assert!(wrong.stderr.contains("\"text-word_count\""), "{wrong}");
    let bare = setup.airlock("call").arg("word_count").run().await.failed();
    assert!(bare.stderr.contains("text-word_count"), "{bare}");
}

#[tokio::test]
async fn the_base_path_of_openai_leads_to_the_same_apis() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve().await;
    for path in ["/openai/models", "/openai/v1/models", "/v1/models"] {
        assert_eq!(gateway.get(path).await.ok()["object"], "list", "{path}");
    }
    let lost = gateway.post("/chat/completions", &json!({})).await;
    assert_eq!((lost.refusal().0, lost.code()), (404, "unknown_url"));
    let message = lost.refusal().1;
    assert!(message.contains("did you mean /v1/chat/completions?"), "{message}");
}
