//! Shared resources of guests: slots of the pool and memory of the process, and a host whose tool
//! panics.

use std::{pin::pin, time::Duration};

use airlock::{
    NativeTool, ToolContext,
    tool::{ToolError, ToolOutput},
};
use airlock_tests::{
    Client, Embedded, Setup, guests, wait,
    wat::{Text, WELL_BEHAVED},
};
use futures_util::{FutureExt as _, future::join_all};
use serde_json::{Map, Value, json};

/// Calls one tool and returns `ok` if that call fails.
const CALLS: Text = Text {
    items: r#"(data (i32.const 256) "internal-panic{}")"#,
    ..Text::run(
        "(call $call (i32.const 256) (i32.const 14) (i32.const 270) (i32.const 2) (i32.const 0) (i64.const 0) (i32.const 1024))
         (if (i32.eqz (i32.load8_u (i32.const 1024))) (then unreachable))
         (call $ok)",
    )
};

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_pool_and_its_queue_are_busy_and_later_ones_work() {
    let spinning = Client::wasm("spin", guests::HOSTILE)
        .trusted()
        .limit("fuel", 900_000_000_000_u64)
        .limit("cpu_time", "5m");
    let gateway = Embedded::with(
        Setup::new().client(spinning).client(Client::wasm("good", guests::HOSTILE)),
        |sandbox| {
            (sandbox.instances_per_depth, sandbox.queue) = (2, 1);
            sandbox.queue_wait = Duration::from_mins(1);
        },
        |builder| builder,
    )
    .await;
    let mut spinning = tokio::task::JoinSet::new();
    for _ in 0..2 {
        spinning.spawn(gateway.admit("spin-spin", "{}").run());
    }
    let is_full = async || {
        gateway.gateway().sandbox().usage().is_none_or(|usage| usage.instances == 2).then_some(())
    };
    wait::until("both slots to be taken", is_full).await;
    let mut waiting = pin!(gateway.call("good-ok", "{}"));
    // After one poll it has its place in the queue.
    assert!(waiting.as_mut().now_or_never().is_none(), "it waits");
    for _ in 0..3 {
        assert_eq!(gateway.call("good-ok", "{}").await.text(), "busy");
    }
    spinning.shutdown().await;
    assert_eq!(waiting.await.text(), "ok");
    gateway.emptied().await;
    assert_eq!(gateway.call("good-ok", "{}").await.text(), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_takes_all_slots_it_can_get_leaves_one_to_others() {
    let spinning = Client::wasm("spin", guests::HOSTILE)
        .trusted()
        .limit("fuel", 900_000_000_000_u64)
        .limit("cpu_time", "5m");
    let gateway = Embedded::with(
        Setup::new().client(spinning).client(Client::wasm("good", guests::HOSTILE)),
        |sandbox| (sandbox.instances_per_depth, sandbox.queue_wait) = (4, Duration::from_mins(1)),
        |builder| builder,
    )
    .await;
    let mut spinning = tokio::task::JoinSet::new();
    for _ in 0..20 {
        spinning.spawn(gateway.admit("spin-spin", "{}").run());
    }
    let is_full = async || {
        gateway.gateway().sandbox().usage().is_none_or(|usage| usage.instances == 3).then_some(())
    };
    wait::until("its share to be taken", is_full).await;
    for _ in 0..5 {
        assert_eq!(gateway.call("good-ok", "{}").await.text(), "ok");
    }
    spinning.shutdown().await;
    gateway.emptied().await;
    gateway.stop().await;
}

#[tokio::test]
async fn guests_that_exhaust_the_memory_of_the_process_end_as_busy() {
    let setup = Setup::new()
        .client(Client::wasm("hoard", guests::HOSTILE).trusted().limit("memory", "256MiB"));
    let gateway =
        Embedded::with(setup, |sandbox| sandbox.process_memory_bytes = 32 << 20, |builder| builder)
            .await;
    for _ in 0..3 {
        assert_eq!(gateway.call("hoard-hoard", "{}").await.text(), "busy");
        assert_eq!(
            gateway.call("hoard-take", r#"{"mebibytes":24}"#).await.text(),
            "took 24",
            "what a guest held comes back"
        );
    }
    gateway.emptied().await;
    gateway.stop().await;
}

async fn panics(_: Map<String, Value>, _: ToolContext) -> Result<ToolOutput, ToolError> {
    std::future::ready(()).await;
    panic!("a bug of the embedding program")
}

#[tokio::test]
async fn a_tool_of_the_host_that_panics_fails_only_its_own_call() {
    let setup = Setup::new();
    let calls = Client::text(&setup, "calls", &CALLS).tools(&["internal-panic"]);
    let gateway = Embedded::with(
        setup.client(calls).client(Client::wasm("good", guests::HOSTILE)),
        |_| {},
        |builder| {
            let panic = NativeTool::new("panic", "Panics.", json!({"type": "object"}), panics);
            builder.register_tool(panic).expect("a good tool")
        },
    )
    .await;
    for _ in 0..3 {
        assert_eq!(
            gateway.call("calls-run", "{}").await.text(),
            "ok",
            "the guest is told, and goes on"
        );
        assert_eq!(gateway.call("good-ok", "{}").await.text(), "ok");
    }
    gateway.emptied().await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_its_plugin_is_replaced() {
    let setup = Setup::new();
    let answer = |text: &str| {
        wat::parse_str(
            WELL_BEHAVED
                .text()
                .replace(r#"(i32.const 0) "ok""#, &format!(r#"(i32.const 0) "{text}""#)),
        )
        .expect("a component")
    };
    let file = setup.file("changing.wasm", answer("v1"));
    let gateway = Embedded::start(setup.client(Client::wasm("changing", &file))).await;
    let call = async |number: usize| {
        // Yields first, so that each call uses the catalog of the time at which it runs.
        tokio::task::yield_now().await;
        (number, gateway.call("changing-run", "{}").await.text().to_owned())
    };
    std::fs::write(&file, answer("v2")).expect("a file");
    let replace = gateway.gateway().reloader().reload_all();
    let (calls, ()) = tokio::join!(join_all((0..1_000).map(call)), replace);
    for (number, text) in calls {
        assert!(["v1", "v2"].contains(&text.as_str()), "call {number}: {text}");
    }
    assert_eq!(gateway.call("changing-run", "{}").await.text(), "v2");
    gateway.emptied().await;
}
