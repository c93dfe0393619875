//! Cost of idle plugins: time to load them, memory while they wait.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use airlock::{
    NativeTool,
    sandbox::{Grants, HostResources, Limits, Plugin, Sandbox, Settings},
    tool::ClientName,
};
use airlock_tests::{
    Client, Embedded, Setup,
    bench::{
        latency::Latencies,
        process::{Process, kib_each},
    },
    guests,
};
use futures_util::{FutureExt as _, future::join_all};
use serde_json::json;

/// Returns the time to load a plugin without cached native code, and the median time with it.
pub(crate) async fn load() -> (Duration, Duration) {
    let directory = tempfile::tempdir().expect("a directory");
    let sandbox =
        Sandbox::new(&Settings::new(Some(directory.path().join("cache")))).expect("a sandbox");
    let wasm: Arc<[u8]> = fs::read(guests::TEXT).expect("the component").into();
    let (_compiled, first) = timed(&sandbox, &wasm).await;
    let mut times = Vec::new();
    for _ in 0..10 {
        times.push(timed(&sandbox, &wasm).await.1);
    }
    (first, Latencies::new(times).percentile(50))
}

async fn timed(sandbox: &Sandbox, wasm: &Arc<[u8]>) -> (Plugin, Duration) {
    let name: ClientName = ClientName::parse("text").expect("a name");
    let began = Instant::now();
    let plugin = sandbox
        .plugin(&name, wasm.clone(), Grants::default(), Limits::PLUGIN, HostResources::default())
        .await
        .expect("it loads");
    (plugin, began.elapsed())
}

/// Returns the resident memory of a loaded plugin while no caller uses it, in KiB.
pub(crate) async fn per_plugin(count: u32) -> f64 {
    let directory = tempfile::tempdir().expect("a directory");
    let sandbox =
        Sandbox::new(&Settings::new(Some(directory.path().join("cache")))).expect("a sandbox");
    let wasm: Arc<[u8]> = fs::read(guests::TEXT).expect("the component").into();
    let mut plugins = vec![timed(&sandbox, &wasm).await.0];
    let before = Process::own().resident();
    for _ in 0..count {
        plugins.push(timed(&sandbox, &wasm).await.0);
    }
    kib_each(Process::own().resident(), before, count)
}

/// Returns the resident memory of a call while it waits for another tool, in KiB.
pub(crate) async fn per_call(count: u32) -> f64 {
    let relay = Client::wasm("relay", guests::HOSTILE).tools(&["internal-wait"]);
    let gateway = Embedded::with(
        Setup::new().client(relay),
        |_| {},
        |builder| {
            let wait = NativeTool::new("wait", "Waits.", json!({"type": "object"}), |_, _| {
                std::future::pending()
            });
            builder.register_tool(wait).expect("a good tool")
        },
    )
    .await;
    let call = || gateway.admit("relay-relay", r#"{"tool":"internal-wait","arguments":{}}"#).run();
    let before = Process::own().resident();
    let mut calls = join_all((0..count).map(|_| call()));
    // A poll runs a guest up to its own call. Several rounds are needed, because tokio makes many
    // concurrent calls take turns.
    for _ in 0..10 {
        assert!((&mut calls).now_or_never().is_none(), "they wait for ever");
        tokio::task::yield_now().await;
    }
    let after = Process::own().resident();
    drop(calls);
    gateway.emptied().await;
    gateway.stop().await;
    kib_each(after, before, count)
}
