//! The command line of operators: on the store, through the Unix socket and over HTTP.

use std::path::Path;

use airlock_tests::{Airlock, OPERATOR, Reply, Setup};
use reqwest::Method;
use serde_json::{Value, json};

use super::{SharedStore, setup, status_with, until_status};

fn line(text: &str) -> String {
    text.trim_end().to_owned()
}

fn command(words: &[&str]) -> Airlock {
    words.iter().fold(Airlock::new(), Airlock::arg)
}

/// Returns a run of `airlock client` with this configuration.
fn client(config: &Path, words: &[&str]) -> Airlock {
    words.iter().fold(Airlock::new().arg("client"), Airlock::arg).arg("--config").arg(config)
}

#[tokio::test]
async fn keys_and_operators_are_made_on_the_store_before_a_gateway_runs() {
    for store in SharedStore::all() {
        let setup = setup(&store);
        let added = setup.airlock("operator").arg("add").arg("ann").arg("--role").arg("admin");
        let token = line(&added.run().await.ok().stdout);
        assert!(token.starts_with("alop_"), "{token}");
        let made = setup.airlock("key").arg("new").arg("ci").arg("--tools").arg("text");
        let key = line(&made.run().await.ok().stdout);
        let listed = setup.airlock("key").arg("list").run().await.ok().stdout;
        assert_eq!(listed, "ci  opens text\n");
        let gateway = setup.serve_connected().await;
        until_status(&gateway, &key, 200).await;
        let session = gateway.request(Method::GET, "/api/session").bearer_auth(&token);
        assert_eq!(Reply::fetch(session).await.ok()["operator"]["name"], "ann");
    }
}

#[tokio::test]
async fn a_key_for_a_tool_that_a_plugin_does_not_have_is_made_with_a_warning() {
    let store = &SharedStore::all()[0];
    let setup = setup(store);
    let _ = setup.airlock("plugin").arg("accept").arg("--all").arg("--yes").run().await.ok();
    for (name, tools, is_warned) in
        [("ann", "text=word_count", false), ("bob", "text=word_cuont", true)]
    {
        let made = setup.airlock("key").arg("new").arg(name).arg("--tools").arg(tools);
        let made = made.run().await.ok();
        assert!(made.stdout.starts_with("sk-bf-"), "{made}");
        assert_eq!(made.stderr.contains(r#"has no tool "word_cuont""#), is_warned, "{made}");
    }
}

#[tokio::test]
async fn a_running_gateway_is_managed_through_its_socket_and_over_http() {
    let store = &SharedStore::all()[0];
    let gateway = setup(store).serve_connected().await;
    let config = gateway.directory().join("airlock.json");
    let made = command(&["key", "new", "ann", "--tools", "text", "--json", "--config"]);
    let made = made.arg(&config).env("AIRLOCK_OPERATOR_TOKEN", "").run().await.ok().json();
    let key = made["virtual_key"]["value"].as_str().expect("a value").to_owned();
    assert_eq!(status_with(&gateway, &key).await, 200, "the running gateway made it");
    let changes = gateway.get("/api/changes").await.ok();
    assert_eq!(changes["changes"][0]["actor"], "operator \"local socket\"");

    let revoke = command(&["key", "revoke", "ann", "--url", gateway.address()]);
    let refused = revoke.env("AIRLOCK_OPERATOR_TOKEN", "").run().await.failed();
    assert!(refused.stderr.contains("AIRLOCK_OPERATOR_TOKEN"), "{refused}");
    let revoke = command(&["key", "revoke", "ann", "--url", gateway.address()]);
    let revoked = revoke.env("AIRLOCK_OPERATOR_TOKEN", OPERATOR).run().await.ok();
    assert_eq!(line(&revoked.stdout), "ann is revoked");
    assert_eq!(status_with(&gateway, &key).await, 401);
    for (token, advice) in [
        (OPERATOR, format!("airlock key list --url {}", gateway.address())),
        ("no-token", "AIRLOCK_OPERATOR_TOKEN has no token of an operator".to_owned()),
    ] {
        let revoke = command(&["key", "revoke", "ann", "--url", gateway.address()]);
        let refused = revoke.env("AIRLOCK_OPERATOR_TOKEN", token).run().await.failed();
        assert!(refused.stderr.contains(&advice), "{refused}");
    }
}

#[tokio::test]
async fn commands_need_the_variables_of_the_configuration_only_if_they_use_its_store() {
    let variable = "AIRLOCK_KEY_OF_A_PROVIDER_IN_TESTS";
    let provider = json!({"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": format!("env.{variable}")});
    let setup = Setup::new().set("/providers/remote", provider);
    let gateway = setup.serve_with(&[(variable, "sk-test")]).await;
    let config = gateway.directory().join("airlock.json");
    for words in [
        &["health"][..],
        &["operator", "list"],
        &["key", "list"],
        &["upstream", "list"],
        &["approvals", "list"],
    ] {
        let _ = command(words).arg("--config").arg(&config).run().await.ok();
    }
    let setup = gateway.kill().await;
    let refused = setup.airlock("key").arg("list").run().await.failed();
    assert!(refused.stderr.contains(variable), "{refused}");
}

#[tokio::test]
async fn a_client_is_added_disabled_and_removed_by_commands() {
    let store = &SharedStore::all()[0];
    let gateway = setup(store).serve_connected().await;
    let config = gateway.directory().join("airlock.json");
    let server = airlock_tests::binary("misbehaving-server");
    let add = client(&config, &["add", "fresh", "--tools", "*"]).arg("--").arg(&server);
    assert_eq!(line(&add.run().await.ok().stdout), "fresh is added");
    assert_eq!(gateway.connected("fresh").await["config"]["name"], "fresh");
    let _ = client(&config, &["disable", "fresh"]).run().await.ok();
    assert_eq!(gateway.client("fresh").await.expect("it is shown")["phase"], "disabled");
    let _ = client(&config, &["remove", "fresh"]).run().await.ok();
    assert_eq!(gateway.client("fresh").await, None::<Value>);
    let closed = client(&config, &["add", "closed"]).arg("--").arg(&server).run().await.ok();
    assert!(closed.stderr.contains("none of its tools can be called"), "{closed}");
}

#[tokio::test]
async fn the_differences_of_a_file_are_shown_and_nothing_is_changed() {
    let store = &SharedStore::all()[0];
    let setup = setup(store).key("ann", "sk-bf-ann0123456789abcdef", &[("text", &["*"])]);
    let gateway = setup.serve_connected().await;
    let config = gateway.directory().join("airlock.json");
    let mut file: Value =
        serde_json::from_slice(&std::fs::read(&config).expect("a file")).expect("JSON");
    let candidate = gateway.directory().join("candidate.json");
    let diff = async |file: &Value, option: &str| {
        std::fs::write(&candidate, file.to_string()).expect("written");
        let diff = command(&["diff", option]).arg(&candidate).arg("--config").arg(&config);
        diff.run().await
    };
    assert_eq!(diff(&file, "--json").await.ok().json()["same"], true);
    let clients = &mut file["mcp"]["client_configs"];
    clients[0]["allow_on_all_virtual_keys"] = json!(true);
    let added = json!({"name": "fresh", "connection_type": "http", "connection_string": "https://example.com/mcp"});
    clients.as_array_mut().expect("a list").push(added);
    file["governance"]["virtual_keys"] = json!([]);
    file["server"]["max_connections"] = json!(7);
    file["server"]["listen"] = json!("127.0.0.1:1");
    let shown = diff(&file, "--json").await.failed().json();
    assert_eq!(shown["errors"], json!([]));
    assert_eq!(
        shown["clients"],
        json!({"added": ["fresh"], "changed": [{"name": "text", "keys": ["allow_on_all_virtual_keys"]}], "removed": []})
    );
    assert_eq!(shown["virtual_keys"]["removed"], json!(["ann"]));
    assert_eq!(shown["settings"], json!(["server.max_connections"]));
    assert_eq!(shown["restart"], json!(["server.listen"]));
    file["server"]["lisen"] = json!(true);
    let shown = diff(&file, "--json").await.failed().json();
    assert_eq!(
        (&shown["same"], &shown["errors"][0]["key"]),
        (&json!(false), &json!("server.lisen"))
    );
    assert_eq!(gateway.client("fresh").await, None);
    // Who compares files could guess secrets.
    let operator = command(&["operator", "add", "oleg", "--role", "operator", "--config"]);
    let token = line(&operator.arg(&config).run().await.ok().stdout);
    let request = gateway.request(Method::POST, "/api/config/diff").bearer_auth(token);
    assert_eq!(Reply::fetch(request.json(&json!({}))).await.status, 403);
}
