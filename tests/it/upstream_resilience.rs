//! MCP servers whose processes are replaced while they serve, whose results are kept, and whose calls go to
//! another server while they are away.

use airlock_tests::{Client, Setup, binary, misbehaving, wait};
use serde_json::json;

#[tokio::test]
async fn a_process_is_replaced_at_its_age_and_no_call_fails_meanwhile() {
    let client = misbehaving("up", []).set("/stdio_config/max_age", "1s");
    let gateway = Setup::new().client(client).serve_connected().await;
    let first = gateway.execute("up-pid", &json!({})).await.content();
    wait::until("another process to answer", async || {
        let pid = gateway.execute("up-pid", &json!({})).await.content();
        (pid != first).then_some(())
    })
    .await;
    let client = gateway.connected("up").await;
    // On a slow machine the next one has reached that age too.
    assert!(client["replacements"].as_u64() >= Some(1), "{client}");
    assert_eq!(client["restarts"], 0, "{client}");
    let reason = "it ran for its `max_age` of 1s";
    assert_eq!(client["last_replacement"]["reason"], reason);
    wait::until("the old process to end", async || {
        std::fs::metadata(format!("/proc/{first}/cwd")).is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_equal_call_gets_the_kept_result_and_the_operator_sees_it() {
    let rule = json!([{"tools": ["pid", "listed"], "ttl": "1h"}]);
    let client = misbehaving("up", []).auto(&["pid", "listed"]).set("/tool_cache", rule);
    let setup = Setup::new().client(client);
    let gateway = setup.serve_connected().await;
    let first = gateway.execute("up-pid", &json!({})).await.ok();
    assert_eq!(first["airlock"].get("result"), None, "{first}");
    // The server is another process meanwhile.
    assert_eq!(gateway.execute("up-die", &json!({})).await.code(), "unavailable");
    gateway.connected("up").await;
    let again = gateway.execute("up-pid", &json!({})).await.ok();
    assert_eq!(again["content"], first["content"], "{again}");
    let meta = &again["airlock"]["result"]["_meta"]["airlock/cache"];
    assert!(meta["age_ms"].is_u64(), "{again}");
    let cache = &gateway.connected("up").await["tool_cache"];
    assert_eq!((&cache["hits"], &cache["misses"]), (&json!(1), &json!(1)), "{cache}");
}

#[tokio::test]
async fn a_call_goes_to_the_fallback_while_its_server_is_away() {
    let setup = Setup::new();
    let mark = setup.directory().join("mark");
    let server = binary("misbehaving-server").display().to_string();
    // It starts once.
    let script = format!("mkdir {} && exec \"$0\"", mark.display());
    let main = Client::stdio("main", "/bin/sh", ["-c", &script, &server]).set(
        "/tool_fallbacks",
        json!({"die": "other-pid", "echo": "other-echo", "pid": "other-pid"}),
    );
    let other = misbehaving("other", []).auto(&["echo", "pid"]);
    let gateway = setup.client(main).client(other).serve_connected().await;
    let own = gateway.execute("main-echo", &json!({"text": "a"})).await.ok();
    assert_eq!(own["airlock"].get("result"), None, "{own}");
    // It may have run, so its fallback is not called, which would succeed.
    assert_eq!(gateway.execute("main-die", &json!({})).await.code(), "unavailable");
    gateway.in_state("main", "disconnected").await;
    let reply = gateway.execute("main-echo", &json!({"text": "b"})).await.ok();
    assert_eq!(reply["content"], "b", "{reply}");
    let mark = json!({"tool": "other-echo", "because": "airlock.unavailable"});
    assert_eq!(reply["airlock"]["result"]["_meta"]["airlock/fallback"], mark);
    assert_eq!(reply["airlock"]["calls"][0]["name"], "other-echo", "{reply}");
    assert_eq!(gateway.execute("main-fail", &json!({})).await.code(), "unavailable");
    let main = gateway.client("main").await.expect("it is listed");
    let expected = json!([
        {"tool": "die", "fallback": "other-pid", "problem": null},
        {"tool": "echo", "fallback": "other-echo", "problem": null},
        {"tool": "pid", "fallback": "other-pid", "problem": null},
    ]);
    assert_eq!(main["tool_fallbacks"], expected);
}
