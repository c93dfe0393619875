//! Tenants that use everything they can get, next to other tenants: each is limited to its own
//! share.

use std::{sync::Arc, time::Duration};

use airlock::{
    NativeTool,
    tool::{Allowlist, Policy, ToolOutput},
};
use airlock_tests::{Client, Embedded, Setup, guests, wait};
use futures_util::{FutureExt as _, future::join_all};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

const EXECUTE: &str = "executeToolCode";
const WAITING: &str = r#"{"code":"internal.wait()"}"#;
const QUICK: &str = r#"{"code":"result = 6 * 7"}"#;

/// Starts a gateway with few slots and a short queue. Its scripts can call a tool that waits until
/// the gate is closed.
async fn gateway(gate: &Arc<Semaphore>) -> Embedded {
    let gate = gate.clone();
    let waits = move |_, _| {
        let gate = gate.clone();
        async move {
            // Acquiring fails when the gate is closed, which ends the wait.
            drop(gate.acquire_owned().await);
            Ok(ToolOutput::text("went on"))
        }
    };
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::All,
        code_mode: true,
        ..Policy::default()
    };
    Embedded::with(
        Setup::new()
            .client(Client::wasm("scripted", guests::TEXT).code_mode().auto(&["*"]))
            .client(Client::wasm("good", guests::TEXT)),
        |sandbox| {
            (sandbox.instances_per_depth, sandbox.queue) = (8, 20);
            sandbox.queue_wait = Duration::from_mins(1);
        },
        |builder| {
            let wait = NativeTool::new("wait", "Waits.", json!({"type": "object"}), waits);
            builder.native_policy(policy).register_tool(wait).expect("a good tool")
        },
    )
    .await
}

/// Runs a call. Returns the code of its error, or `ok`.
async fn ended(call: airlock::door::Admitted) -> &'static str {
    call.run().await.map_or_else(|error| error.code().as_str(), |_| "ok")
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_of_one_key_run_while_another_key_has_sixty_four_slow_ones() {
    let gate = Arc::new(Semaphore::new(0));
    let gateway = gateway(&gate).await;
    let greedy = gateway.holder("greedy");
    let mut slow = JoinSet::new();
    for _ in 0..64 {
        slow.spawn(ended(greedy.admit(EXECUTE, WAITING).expect("it is there")));
    }
    // Five run: three quarters of the executor's share, which is six of eight slots. Fifteen wait:
    // three quarters of the queue.
    let mut codes = Vec::new();
    while codes.len() < 44 {
        let code = tokio::time::timeout(wait::SOON, slow.join_next())
            .await
            .expect("those without a place end at once");
        codes.push(code.expect("there are more").expect("no panic in it"));
    }
    assert!(codes.iter().all(|code| *code == "busy"), "{codes:?}");
    // A call has its slot a moment before its instance.
    wait::until("five instances", async || {
        let usage = gateway.gateway().sandbox().usage();
        usage.is_none_or(|usage| usage.instances == 5).then_some(())
    })
    .await;
    let neighbour = gateway.holder("neighbour");
    for _ in 0..20 {
        assert_eq!(ended(neighbour.admit(EXECUTE, QUICK).expect("it is there")).await, "ok");
        assert_eq!(
            ended(neighbour.admit("good-word_count", r#"{"text":"a b"}"#).expect("it is there"))
                .await,
            "ok"
        );
    }
    // More calls than the one free slot: each runs before the waiting calls of the other tenant. The
    // four that wait fit into the queue, so that none of the other tenant's calls is evicted.
    let many =
        (0..5).map(|_| tokio::spawn(ended(neighbour.admit(EXECUTE, QUICK).expect("it is there"))));
    for code in join_all(many).await {
        assert_eq!(code.expect("no panic in it"), "ok");
    }
    gate.close();
    let rest = slow.join_all().await;
    assert_eq!((rest.len(), rest.iter().all(|code| *code == "ok")), (20, true), "{rest:?}");
    gateway.emptied().await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_evicts_a_call_for_another_key_and_dropped_calls_leave_no_trace() {
    let gate = Arc::new(Semaphore::new(0));
    let gateway = gateway(&gate).await;
    let mut slow = JoinSet::new();
    // The executor's share is six: five for the first and one for the second. Together they fill
    // the queue.
    for (name, count) in [("one", 20), ("two", 6)] {
        let holder = gateway.holder(name);
        for _ in 0..count {
            let mut call = Box::pin(ended(holder.admit(EXECUTE, WAITING).expect("it is there")));
            // After one poll it has its slot or its place in the queue.
            assert_eq!((&mut call).now_or_never(), None);
            slow.spawn(call);
        }
    }
    let newcomer = gateway.holder("three").admit(EXECUTE, QUICK).expect("it is there");
    let newcomer = tokio::spawn(ended(newcomer));
    // It waits in the queue, and a call of the tenant with the most calls is evicted for it.
    let pushed_out =
        tokio::time::timeout(wait::SOON, slow.join_next()).await.expect("one is turned away");
    assert_eq!(pushed_out.expect("there are many").expect("no panic in it"), "busy");
    assert!(!newcomer.is_finished());
    // All running and waiting calls are dropped except the newcomer, which then runs.
    slow.shutdown().await;
    assert_eq!(newcomer.await.expect("no panic in it"), "ok");
    gateway.emptied().await;
    let greedy = gateway.holder("one");
    for _ in 0..10 {
        assert_eq!(ended(greedy.admit(EXECUTE, QUICK).expect("it is there")).await, "ok");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_whose_arguments_overrun_a_tool_opens_the_circuit_for_itself_alone() {
    const ANN: &str = "sk-bf-ann-0123456789abcdef";
    const BOB: &str = "sk-bf-bob-0123456789abcdef";
    let plugin = Client::wasm("text", guests::TEXT)
        .trusted()
        .limit("fuel", 50_000_000)
        .limit("cpu_time", "60s");
    let setup = Setup::new().client(plugin).client(Client::wasm("crash", guests::HOSTILE));
    let rows: &[(&str, &[&str])] = &[("text", &["*"]), ("crash", &["*"])];
    let gateway = setup
        .set("/server/require_virtual_key", false)
        .key("ann", ANN, rows)
        .key("bob", BOB, rows)
        .serve_connected()
        .await;
    let execute = async |key: &str, tool: &str, arguments: Value| {
        let reply = gateway.execute_with(&[("x-bf-vk", key)], tool, &arguments).await;
        if reply.status == 200 { "ok".to_owned() } else { reply.code().to_owned() }
    };
    let endless = || json!({"json": "null", "query": "def f: f; f"});
    let quick = || json!({"json": "[1, 2]", "query": ".[0]"});
    for _ in 0..5 {
        assert_eq!(execute(ANN, "text-json_query", endless()).await, "out_of_fuel");
    }
    assert_eq!(execute(ANN, "text-json_query", quick()).await, "circuit_open");
    assert_eq!(
        execute(ANN, "text-word_count", json!({"text": "a b"})).await,
        "ok",
        "another tool of the plugin"
    );
    assert_eq!(execute(BOB, "text-json_query", quick()).await, "ok", "another key");
    // A crash opens the circuit of all tools of the plugin, for this key alone.
    for _ in 0..5 {
        assert_eq!(execute(ANN, "crash-trap", json!({})).await, "trap");
    }
    assert_eq!(execute(ANN, "crash-ok", json!({})).await, "circuit_open");
    assert_eq!(execute(BOB, "crash-ok", json!({})).await, "ok");
}
