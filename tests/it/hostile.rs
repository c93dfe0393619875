//! Guests that misbehave: each is stopped with its own error and leaves nothing behind, and the
//! next call works.

mod cancel;
mod fairness;
mod isolation;
mod load;
mod misdeeds;
mod room;
mod tenants;

use std::time::{Duration, Instant};

use airlock_tests::{Client, Gateway, Setup, guests, wait};
use serde_json::{Value, json};

fn hostile() -> Client {
    // Some limits here exceed those of an untrusted plugin, so that another limit ends the guest.
    Client::wasm("hostile", guests::HOSTILE).trusted()
}

/// Calls a tool that must be stopped. Returns the error code, after checking that the gateway still
/// works.
async fn stopped(gateway: &Gateway, tool: &str, arguments: Value) -> String {
    let reply = gateway.execute(tool, &arguments).await;
    let code = reply.code().to_owned();
    assert!(!reply.text.contains("wasm"), "host internals in {}", reply.text);
    is_well(gateway).await;
    code
}

async fn is_well(gateway: &Gateway) {
    assert_eq!(gateway.execute("hostile-ok", &json!({})).await.content(), "ok");
    gateway.sandbox_is_empty().await;
}

#[tokio::test]
async fn a_guest_that_spins_is_out_of_fuel() {
    let gateway = Setup::new()
        .client(hostile().limit("fuel", 50_000_000).limit("cpu_time", "60s"))
        .serve_connected()
        .await;
    assert_eq!(stopped(&gateway, "hostile-spin", json!({})).await, "out_of_fuel");
}

#[tokio::test]
async fn a_guest_that_spins_is_out_of_cpu_time() {
    let gateway = Setup::new()
        .client(hostile().limit("fuel", 900_000_000_000_u64).limit("cpu_time", "500ms"))
        .serve_connected()
        .await;
    assert_eq!(stopped(&gateway, "hostile-spin", json!({})).await, "cpu_time");
}

#[tokio::test]
async fn a_guest_that_spins_is_stopped_at_its_deadline() {
    let client = hostile()
        .limit("fuel", 900_000_000_000_u64)
        .limit("cpu_time", "60s")
        .limit("deadline", "2s");
    let gateway = Setup::new().client(client).serve_connected().await;
    let began = Instant::now();
    assert_eq!(stopped(&gateway, "hostile-spin", json!({})).await, "deadline");
    // Generous, because the machine may be busy; the benchmark has the real figure.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_guest_gets_its_memory_and_no_more() {
    let gateway = Setup::new()
        .client(hostile().limit("memory", "32MiB").limit("fuel", 20_000_000_000_u64))
        .serve_connected()
        .await;
    assert_eq!(
        gateway.execute("hostile-take", &json!({"mebibytes": 24})).await.content(),
        "took 24"
    );
    assert_eq!(stopped(&gateway, "hostile-take", json!({"mebibytes": 32})).await, "memory");
    assert_eq!(stopped(&gateway, "hostile-hoard", json!({})).await, "memory");
}

#[tokio::test]
async fn the_reply_to_a_trap_reveals_nothing_of_the_guest() {
    let gateway = Setup::new().client(hostile()).serve_connected().await;
    let reply = gateway.execute("hostile-trap", &json!({})).await;
    assert_eq!(reply.refusal(), (400, "tool hostile-trap trapped"));
    assert_eq!(reply.code(), "trap");
    assert!(!reply.text.contains("/etc/shadow"), "{}", reply.text);
    is_well(&gateway).await;
}

#[tokio::test]
async fn a_guest_that_recurses_overflows_its_own_stack() {
    let gateway = Setup::new().client(hostile()).serve_connected().await;
    assert_eq!(stopped(&gateway, "hostile-recurse", json!({})).await, "stack_overflow");
}

#[tokio::test]
async fn a_result_may_be_as_large_as_the_limit_and_no_larger() {
    let gateway = Setup::new().client(hostile().limit("result", "64KiB")).serve_connected().await;
    let fits = gateway.execute("hostile-huge_result", &json!({"bytes": 60 << 10})).await.content();
    assert_eq!(fits.len(), 60 << 10);
    assert_eq!(
        stopped(&gateway, "hostile-huge_result", json!({"bytes": (64 << 10) + 1})).await,
        "result_too_large"
    );
    assert_eq!(
        stopped(&gateway, "hostile-huge_result", json!({"bytes": 12 << 20})).await,
        "result_too_large"
    );
}

#[tokio::test]
async fn a_flood_of_host_calls_ends_at_the_limit() {
    let gateway = Setup::new().client(hostile().limit("host_calls", 500)).serve_connected().await;
    assert_eq!(
        gateway.execute("hostile-flood_host", &json!({"times": 500})).await.content(),
        "done"
    );
    let reply = gateway.execute("hostile-flood_host", &json!({"times": 501})).await;
    assert_eq!(
        (reply.refusal(), reply.code()),
        ((400, "the call reached its limit of 500 host calls"), "budget")
    );
    is_well(&gateway).await;
}

#[tokio::test]
async fn log_lines_beyond_the_limit_of_a_call_are_dropped() {
    let gateway = Setup::new().client(hostile().limit("log_lines", 100)).serve_connected().await;
    let flood = json!({"lines": 2_000, "bytes": 100});
    assert_eq!(gateway.execute("hostile-flood_log", &flood).await.content(), "done");
    is_well(&gateway).await;
    let said = gateway.said();
    assert!(
        said.matches("xxxxxxxxxx ").count() <= 100 && said.len() < 100_000,
        "{} bytes of log",
        said.len()
    );
}

#[tokio::test]
async fn many_calls_together_stay_within_the_rate_limit_of_the_log() {
    let gateway = Setup::new().client(hostile()).serve_connected().await;
    // Four MiB per call: the first call may write all of them at once.
    let flood = json!({"lines": 999, "bytes": 4 << 10});
    for _ in 0..4 {
        assert_eq!(gateway.execute("hostile-flood_log", &flood).await.content(), "done");
    }
    is_well(&gateway).await;
    let said = gateway.until_said_times("plugin log plugin=hostile", 999).await;
    // The rate limit adds little over time, however slow the machine: 64 KiB a second.
    assert!(said.len() < 12 << 20, "{} bytes of log", said.len());
    gateway.until_said("plugin log lines are dropped").await;
}

#[tokio::test]
async fn no_state_is_kept_from_call_to_call() {
    let gateway = Setup::new().client(hostile()).serve_connected().await;
    for _ in 0..3 {
        assert_eq!(gateway.execute("hostile-remember", &json!({})).await.content(), "1");
    }
}

#[tokio::test]
async fn a_guest_without_grants_reaches_nothing() {
    let gateway = Setup::new().client(hostile()).serve_connected().await;
    assert_eq!(gateway.execute("hostile-reach_out", &json!({})).await.content(), "nothing");
    let other = gateway
        .execute("hostile-relay", &json!({"tool": "hostile-ok", "arguments": {}}))
        .await
        .ok();
    let message = json!("tool 'hostile-ok' is not available or not permitted");
    assert_eq!((&other["is_error"], &other["content"]), (&json!(true), &message), "{other:#}");
}

#[tokio::test]
async fn an_error_that_a_tool_returns_keeps_its_code_and_message() {
    let setup = Setup::new().client(hostile());
    let failed = setup.call("hostile-fail", &json!({})).await;
    assert_eq!(
        (&failed["ok"], &failed["error"]["code"]),
        (&json!(false), &json!("no_such_thing")),
        "{failed:#}"
    );
    assert_eq!(failed["error"]["message"], "there is no such thing");
}

#[tokio::test]
async fn arguments_that_are_no_object_never_reach_the_guest() {
    let gateway = Setup::new().client(hostile()).serve_connected().await;
    for arguments in ["[]", "7", "{", "{} {}"] {
        let call = json!({"function": {"name": "hostile-ok", "arguments": arguments}});
        let reply = gateway.post("/v1/mcp/tool/execute", &call).await;
        assert_eq!(
            (reply.refusal().0, reply.code()),
            (400, "bad_arguments"),
            "{arguments}: {}",
            reply.text
        );
    }
    gateway.sandbox_is_empty().await;
}

#[tokio::test]
async fn a_hundred_calls_at_once_share_the_pool_with_a_hostile_one() {
    let client = hostile()
        .limit("fuel", 900_000_000_000_u64)
        .limit("cpu_time", "60s")
        .limit("deadline", "6s");
    let gateway = Setup::new().client(client).serve_connected().await;
    let none = json!({});
    let spinning = async { gateway.execute("hostile-spin", &none).await.code().to_owned() };
    let calls =
        futures_util::future::join_all((0..100).map(|_| gateway.execute("hostile-ok", &none)));
    let (spun, answers) = tokio::join!(spinning, calls);
    assert_eq!(spun, "deadline");
    assert!(answers.into_iter().all(|answer| answer.content() == "ok"));
    gateway.sandbox_is_empty().await;
}

#[tokio::test]
async fn a_guest_is_stopped_when_its_caller_disconnects() {
    let client = hostile()
        .limit("fuel", 900_000_000_000_u64)
        .limit("cpu_time", "4m")
        .limit("deadline", "5m");
    let gateway = Setup::new()
        .set("/mcp/tool_manager_config/tool_execution_timeout", "5m")
        .client(client)
        .serve_connected()
        .await;
    let none = json!({});
    let mut call = Box::pin(gateway.execute("hostile-spin", &none));
    let running = wait::until("the guest to run", async || {
        let health = gateway.get("/health").await.ok();
        (health["sandbox"]["instances"] == 1).then_some(())
    });
    tokio::select! {
        () = running => {}
        reply = &mut call => panic!("it ended by itself: {reply:?}"),
    }
    drop(call);
    is_well(&gateway).await;
}

#[tokio::test]
async fn a_plugin_that_keeps_crashing_fails_fast_and_the_admin_api_shows_it() {
    let gateway = Setup::new()
        .client(hostile())
        .client(Client::wasm("other", guests::HOSTILE))
        .serve_connected()
        .await;
    let none = json!({});
    for _ in 0..4 {
        assert_eq!(gateway.execute("hostile-trap", &none).await.code(), "trap");
    }
    assert_eq!(gateway.execute("hostile-ok", &none).await.content(), "ok", "four are not enough");
    assert_eq!(gateway.execute("hostile-trap", &none).await.code(), "trap");
    let refused = gateway.execute("hostile-ok", &none).await;
    assert_eq!((refused.refusal().0, refused.code()), (503, "circuit_open"), "{}", refused.text);
    assert_eq!(
        gateway.execute("other-ok", &none).await.content(),
        "ok",
        "it is this plugin's alone"
    );
    let circuit =
        async |name: &str| gateway.client(name).await.expect("it is listed")["circuit"].clone();
    let open = circuit("hostile").await;
    let closed = circuit("other").await;
    assert_eq!((&open["state"], &open["failures"]), (&json!("open"), &json!(5)), "{open}");
    assert!(
        open["retry_after_ms"].as_u64().is_some_and(|wait| (1..=30_000).contains(&wait)),
        "{open}"
    );
    assert_eq!((&closed["state"], &closed["failures"]), (&json!("closed"), &json!(0)), "{closed}");
}
