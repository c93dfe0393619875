//! MCP servers that hang, die, flood or lie: each fault affects only its own server.

mod floods;
mod late;
mod secrets;

use std::{fs, path::PathBuf};

use airlock_tests::{Client, Setup, misbehaving, wait};
use serde_json::{Value, json};

fn tools(client: &Value) -> Vec<&str> {
    client["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

#[tokio::test]
async fn servers_that_hang_or_die_delay_neither_the_start_nor_the_others() {
    let gateway = Setup::new()
        .client(misbehaving("mute", ["mute"]))
        .client(misbehaving("dead", ["die"]))
        .client(Client::stdio("absent", "/no/such/program", Vec::<String>::new()))
        .client(Client::http("nowhere", "http://127.0.0.1:9/mcp"))
        .client(misbehaving("good", []))
        .serve()
        .await;
    // The first attempt of the one that hangs still runs, so the start has not waited for its end.
    let mute = gateway.client("mute").await.expect("it is listed");
    assert_eq!(mute["state"], "connecting", "{mute:#}");
    assert!(mute["last_failure"].is_null(), "{mute:#}");
    gateway.connected("good").await;
    assert_eq!(gateway.execute("good-echo", &json!({"text": "here"})).await.content(), "here");
    assert_eq!(gateway.client("mute").await.expect("it is listed")["state"], "connecting");
    gateway.in_state("absent", "error").await;
    for name in ["dead", "nowhere"] {
        let client = gateway.in_state(name, "disconnected").await;
        assert!(client["last_failure"]["message"].is_string(), "{client:#}");
    }
    let reply = gateway.execute("mute-echo", &json!({})).await;
    assert_eq!(reply.code(), "not_found", "{}", reply.text);
}

#[tokio::test]
async fn a_malformed_tool_is_left_out_and_reported_to_the_operator() {
    let gateway = Setup::new()
        .client(misbehaving("odd", ["malformed"]))
        .client(misbehaving("even", []))
        .serve_connected()
        .await;
    let odd = gateway.connected("odd").await;
    let even = gateway.connected("even").await;
    assert_eq!(tools(&odd), tools(&even));
    for name in ["no_schema", "odd_schema", "odd_hint"] {
        gateway.until_said(name).await;
    }
}

#[tokio::test]
async fn all_pages_are_read_up_to_a_limit() {
    let gateway = Setup::new()
        .client(misbehaving("paged", ["pages"]))
        .client(misbehaving("whole", []))
        .client(misbehaving("endless", ["endless"]));
    let gateway = gateway.serve_connected().await;
    assert_eq!(tools(&gateway.connected("paged").await), tools(&gateway.connected("whole").await));
    assert_eq!(tools(&gateway.connected("endless").await).len(), 100);
}

#[tokio::test]
async fn a_server_that_crashes_is_restarted_and_its_tools_stay() {
    let gateway = Setup::new()
        .client(misbehaving("server", []))
        .client(misbehaving("other", []))
        .serve_connected()
        .await;
    let none = json!({});
    let first = gateway.execute("server-pid", &none).await.content();
    let crashed = gateway.execute("server-die", &none).await;
    assert_eq!((crashed.status, crashed.code()), (400, "unavailable"), "{}", crashed.text);
    assert!(
        !tools(&gateway.client("server").await.expect("it is listed")).is_empty(),
        "its tools vanished"
    );
    assert_eq!(gateway.execute("other-echo", &json!({"text": "x"})).await.content(), "x");
    let second = wait::until("the server to be back", async || {
        let reply = gateway.execute("server-pid", &none).await;
        (reply.status == 200).then(|| reply.content())
    })
    .await;
    assert_ne!(first, second);
}

#[tokio::test]
async fn other_calls_go_on_while_one_hangs() {
    let none = json!({});
    let echo = json!({"text": "x"});
    let timeout = "/mcp/tool_manager_config/tool_execution_timeout";
    let setup = || Setup::new().client(misbehaving("server", []));
    let gateway = setup().set(timeout, "4m").serve_connected().await;
    let beside = async {
        for _ in 0..20 {
            assert_eq!(gateway.execute("server-echo", &echo).await.content(), "x");
        }
    };
    tokio::select! {
        hanging = gateway.execute("server-hang", &none) => panic!("it ended first: {hanging:?}"),
        () = beside => {}
    }
    drop(gateway);
    let gateway = setup().set(timeout, "500ms").serve_connected().await;
    assert_eq!(gateway.execute("server-hang", &none).await.code(), "deadline");
}

#[tokio::test]
async fn noise_on_stdout_and_floods_on_stderr_are_dropped() {
    let gateway = Setup::new().client(misbehaving("server", ["noise"])).serve_connected().await;
    let none = json!({});
    assert_eq!(gateway.execute("server-garbage", &none).await.content(), "after the garbage");
    assert_eq!(gateway.execute("server-flood_stderr", &none).await.content(), "flooded");
    assert_eq!(
        gateway.execute("server-echo", &json!({"text": "still here"})).await.content(),
        "still here"
    );
    // Sixteen mebibytes were written to stderr; the part that is logged is bounded.
    gateway.until_said("this server is happy to see you").await;
    let said = gateway.until_said("text that is no MCP message").await;
    let warned = said.lines().filter(|line| line.contains("text that is no MCP message")).count();
    assert_eq!(warned, 1);
    let said = said.len();
    assert!(said < 4 << 20, "{said} bytes of it reached the log");
}

#[tokio::test]
async fn the_message_of_a_failed_call_is_kept_and_unknown_content_is_not_fatal() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let none = json!({});
    let failed = gateway.execute("server-fail", &none).await.ok();
    assert_eq!(
        (&failed["is_error"], &failed["content"]),
        (&json!(true), &json!("it did not work")),
        "{failed:#}"
    );
    let refused = gateway.execute("server-refuse", &none).await;
    assert_ne!(refused.body["is_error"], Value::Null, "{}", refused.text);
    let odd = gateway.execute("server-odd_content", &none).await.content();
    assert!(odd.contains("beside it"), "{odd}");
}

#[tokio::test]
async fn a_child_gets_only_the_configured_environment_and_ends_with_the_gateway() {
    let gateway =
        Setup::new().client(misbehaving("server", []).envs(&["GIVEN=1"])).serve_connected().await;
    let none = json!({});
    let variables = gateway.execute("server-env", &none).await.content();
    let basic = |name: &str| {
        matches!(name, "HOME" | "LANG" | "LANGUAGE" | "LOGNAME" | "PATH" | "TMPDIR" | "TZ" | "USER")
            || name.starts_with("LC_")
    };
    let given: Vec<_> = variables.split(' ').filter(|name| !basic(name)).collect();
    assert_eq!(given, ["AIRLOCK_UPSTREAM", "GIVEN"], "{variables}");
    let pid = gateway.execute("server-pid", &none).await.content();
    let status = PathBuf::from(format!("/proc/{pid}/status"));
    assert!(status.exists(), "it runs");
    drop(gateway);
    // A process that was killed is there until it is reaped.
    wait::until("the child to end with the gateway", async || match fs::read_to_string(&status) {
        Ok(status) => status.contains("State:\tZ").then_some(()),
        Err(_) => Some(()),
    })
    .await;
}
