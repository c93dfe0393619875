//! What plugins cost that do nothing: time to load them, memory while they wait.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use airlock::{
    sandbox::{Grants, Lender, Limits, Plugin, Sandbox, Settings},
    tool::{ClientName, ToolError, ToolOutput},
};
use airlock_tests::{Client, Embedded, Setup, guests};
use futures_util::{FutureExt as _, future::join_all};
use serde_json::json;

/// Time to load a plugin whose native code is not there yet, and time where it is; in that order.
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
    times.sort_unstable();
    (first, times[times.len() / 2])
}

async fn timed(sandbox: &Sandbox, wasm: &Arc<[u8]>) -> (Plugin, Duration) {
    let name: ClientName = ClientName::parse("text").expect("a name");
    let began = Instant::now();
    let plugin = sandbox
        .plugin(&name, wasm.clone(), Grants::default(), Limits::PLUGIN, Lender::default())
        .await
        .expect("it loads");
    (plugin, began.elapsed())
}

/// KiB of resident memory that a loaded plugin takes while nobody calls it.
pub(crate) async fn per_plugin(count: usize) -> u64 {
    let directory = tempfile::tempdir().expect("a directory");
    let sandbox =
        Sandbox::new(&Settings::new(Some(directory.path().join("cache")))).expect("a sandbox");
    let wasm: Arc<[u8]> = fs::read(guests::TEXT).expect("the component").into();
    let mut plugins = vec![timed(&sandbox, &wasm).await.0];
    let before = resident();
    for _ in 0..count {
        plugins.push(timed(&sandbox, &wasm).await.0);
    }
    resident().saturating_sub(before) / count as u64
}

/// KiB of resident memory that a call takes while it waits for another tool.
pub(crate) async fn per_call(count: usize) -> u64 {
    let relay = Client::wasm("relay", guests::HOSTILE).tools(&["internal-wait"]);
    let wait = |_| std::future::pending::<Result<ToolOutput, ToolError>>();
    let gateway = Embedded::with(
        Setup::new().client(relay),
        |_| {},
        |builder| builder.register_tool("wait", "Waits.", json!({"type": "object"}), wait),
    )
    .await;
    let call = || gateway.admit("relay-relay", r#"{"tool":"internal-wait","arguments":{}}"#).run();
    let before = resident();
    let mut calls = join_all((0..count).map(|_| call()));
    // A guest runs up to its own call when it is polled; more than once, because tokio makes many
    // at once take turns.
    for _ in 0..10 {
        assert!((&mut calls).now_or_never().is_none(), "they wait for ever");
        tokio::task::yield_now().await;
    }
    let after = resident();
    drop(calls);
    gateway.emptied().await;
    gateway.stop().await;
    after.saturating_sub(before) / count as u64
}

/// KiB of this process's memory that are resident.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
