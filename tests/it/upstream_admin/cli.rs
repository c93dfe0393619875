//! `airlock upstream` against a running gateway.

use airlock_tests::{Airlock, Client, Gateway, Setup, misbehaving, wait};
use serde_json::{Value, json};

use super::KEY;

fn airlock(gateway: &Gateway, arguments: &[&str]) -> Airlock {
    let run = arguments.iter().fold(Airlock::new().arg("upstream"), Airlock::arg);
    run.arg("--url").arg(gateway.address())
}

/// Runs a command without the token of an operator.
fn as_caller(gateway: &Gateway, arguments: &[&str]) -> Airlock {
    airlock(gateway, arguments).env("AIRLOCK_OPERATOR_TOKEN", "")
}

async fn document(gateway: &Gateway, arguments: &[&str]) -> Value {
    airlock(gateway, arguments).arg("--json").run().await.ok().json()
}

#[tokio::test]
async fn servers_are_listed_shown_and_restarted() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let table = airlock(&gateway, &["list"]).run().await.ok().stdout;
    let mut lines = table.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("NAME")), "{table}");
    let row = lines.next().expect("a server");
    assert!(row.starts_with("server  stdio   ready") && row.contains("it listed"), "{table}");
    let listed = document(&gateway, &["list"]).await;
    assert_eq!(listed["upstreams"][0]["config"]["name"], "server");

    let shown = airlock(&gateway, &["show", "server"]).run().await.ok().stdout;
    assert!(shown.contains("history") && shown.contains("first start"), "{shown}");
    assert_eq!(document(&gateway, &["show", "server"]).await["phase"], "ready");

    let before = gateway.execute("server-pid", &json!({})).await.content();
    let restarted = airlock(&gateway, &["restart", "server"]).run().await.ok().stdout;
    assert_eq!(restarted, "server is connected\n");
    assert_ne!(gateway.execute("server-pid", &json!({})).await.content(), before);
    assert_eq!(document(&gateway, &["restart", "server"]).await["status"], "success");
}

#[tokio::test]
async fn stderr_is_shown_line_by_line() {
    let script = "echo one >&2; echo two >&2; exit 1";
    let gateway =
        Setup::new().client(Client::stdio("loud", "/bin/sh", ["-c", script])).serve().await;
    let lines = wait::until("its stderr", async || {
        let logs = document(&gateway, &["logs", "loud"]).await;
        logs["lines"].as_array().filter(|lines| lines.len() >= 2).cloned()
    })
    .await;
    assert_eq!(lines[..2], [json!("one"), json!("two")]);
    let text = airlock(&gateway, &["logs", "loud"]).run().await.ok().stdout;
    assert!(text.starts_with("one\ntwo\n"), "{text}");
    let failed = airlock(&gateway, &["restart", "loud"]).run().await.failed();
    assert!(failed.stderr.contains("loud did not start: the connection ended"), "{failed:?}");
    assert!(failed.stderr.contains("exit status"), "{failed:?}");
}

#[tokio::test]
async fn problems_are_told_with_what_to_do() {
    let setup = Setup::new();
    let gateway = setup.client(misbehaving("server", [])).serve_connected().await;
    let unknown = airlock(&gateway, &["show", "nobody"]).run().await.failed();
    assert!(unknown.stderr.contains("the gateway has: server"), "{unknown:?}");
    let unknown = airlock(&gateway, &["logs", "nobody", "--json"]).run().await.failed();
    let message = unknown.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("no MCP server is named \"nobody\""), "{message}");

    let absent = Airlock::new().arg("upstream").arg("list").arg("--url").arg("http://127.0.0.1:9");
    let absent = absent.run().await.failed();
    assert!(absent.stderr.contains("no gateway responds at http://127.0.0.1:9"), "{absent:?}");
    let chosen = Setup::new();
    let config = chosen.write();
    let by_config = Airlock::new().arg("upstream").arg("list").arg("--config").arg(config);
    let by_config = by_config.run().await.failed();
    assert!(by_config.stderr.contains("name its address with --url"), "{by_config:?}");

    let silent = airlock(&gateway, &["logs", "server"]).run().await.ok();
    assert!(silent.stdout.is_empty(), "{silent:?}");
    assert!(silent.stderr.contains("has written nothing to standard error"), "{silent:?}");
}

#[tokio::test]
async fn a_gateway_that_requires_keys_is_read_with_the_one_of_the_environment() {
    let gateway = Setup::new()
        .client(misbehaving("server", []))
        .client(misbehaving("hidden", []))
        .key("ann", KEY, &[("server", &["echo"])])
        .set("/server/require_virtual_key", true)
        .serve()
        .await;
    let refused = as_caller(&gateway, &["list"]).run().await.failed();
    assert!(refused.stderr.contains("AIRLOCK_KEY"), "{refused:?}");
    let table = wait::until("the tool to be listed", async || {
        let table = as_caller(&gateway, &["list"]).env("AIRLOCK_KEY", KEY).run().await.ok().stdout;
        table
            .contains("server  http")
            .then_some(())
            .or(table.contains("connected").then_some(()))?;
        Some(table)
    })
    .await;
    assert!(table.contains("server") && !table.contains("hidden"), "{table}");
    let shown = as_caller(&gateway, &["show", "server"]).env("AIRLOCK_KEY", KEY).run().await.ok();
    assert!(shown.stdout.contains("tools       1"), "{shown:?}");
    let wrong = as_caller(&gateway, &["list"]).env("AIRLOCK_KEY", "hunter2").run().await.failed();
    assert!(wrong.stderr.contains("neither a virtual key"), "{wrong:?}");
    let order = as_caller(&gateway, &["restart", "server"]).env("AIRLOCK_KEY", KEY).run().await;
    assert!(order.failed().stderr.contains("AIRLOCK_OPERATOR_TOKEN"), "only the operator");
}
