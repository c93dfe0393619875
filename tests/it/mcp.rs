//! The gateway as an MCP server, against clients that send what no SDK would send, in both eras of
//! the protocol: `/mcp` as raw HTTP, and `airlock mcp` line by line.

mod approval;
mod bridge;
mod calls;
mod changes;
mod http2;
pub(crate) mod pipe;
mod questions;
mod readers;
mod refusals;
mod relay;
mod reports;
mod sessions;
mod sse;
mod stdio;
mod streams;
mod tasks;
mod upstream;

use std::{fs, path::PathBuf};

use airlock_tests::{
    Client, Gateway, Setup,
    mcp::{McpRequest, Messages},
    wait,
    wat::{Text, WELL_BEHAVED},
};
use serde_json::{Value, json};

/// Virtual keys of two accounts.
const ANN: &str = "sk-bf-ann0123456789abcdef";
const BOB: &str = "sk-bf-bob0123456789abcdef";

/// Name of the upstream's tool `steps`.
const STEPS: &str = "up-steps";

/// Returns whether a message is the response of `steps`.
fn is_done(message: &Value) -> bool {
    message["result"]["content"] == text("done")
}

/// Returns a result of one text, without metadata.
fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// Returns a source with the tool `run`, which returns `ok` and needs no approval.
fn plain(setup: &Setup, name: &str) -> Client {
    Client::text(setup, name, &WELL_BEHAVED).auto(&["*"])
}

/// Returns a source whose tool `run` reports progress once and then computes without an end.
fn hanging(setup: &Setup, name: &str) -> Client {
    const HANG: Text = Text::run(
        "(call $progress (local.get $context) (f64.const 1) (i32.const 0) (f64.const 0)
           (i32.const 0) (i32.const 0) (i32.const 0))
         (loop $again (br $again))
         unreachable",
    );
    endless(Client::text(setup, name, &HANG))
}

/// Lets a guest run until it is stopped from outside.
fn endless(client: Client) -> Client {
    let client = client.auto(&["*"]).trusted().limit("cpu_time", "5m");
    client.limit("fuel", 1_000_000_000_000_u64)
}

/// A plugin whose list of tools changes.
struct Changing {
    component: PathBuf,
}

impl Changing {
    /// Returns it with the tool `run`, and the source of tools.
    fn new(setup: &Setup, name: &str) -> (Self, Client) {
        let component = setup.file(&format!("{name}.wasm"), WELL_BEHAVED.component());
        let client = Client::wasm(name, &component).auto(&["*"]);
        (Self { component }, client)
    }

    /// Replaces its file. Each tool has a name and a description.
    fn replace(&self, tools: &[(&str, &str)]) {
        let tool = |(name, description): &(&str, &str)| json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        let tools = json!({"schema": "airlock.tools/1", "tools": tools}).to_string();
        let component = Text { tools: tools.leak(), ..WELL_BEHAVED }.component();
        let new = self.component.with_extension("new");
        fs::write(&new, component).expect("a file");
        fs::rename(&new, &self.component).expect("it takes its place");
    }

    /// Replaces its file and has the gateway load it.
    async fn reload(&self, gateway: &Gateway, tools: &[(&str, &str)]) {
        self.replace(tools);
        let name = self.component.file_stem().expect("a name").to_str().expect("UTF-8");
        let _ = gateway.post(&format!("/api/mcp/client/{name}/reload"), &json!({})).await.ok();
    }
}

/// Sends a call and reads the stream up to its first progress.
async fn begun(call: McpRequest) -> Messages {
    let mut stream = call.with_progress().stream().await;
    let first = stream.next().await.expect("progress");
    assert_eq!(first["method"], "notifications/progress", "{first}");
    stream
}

/// Returns the numbers of sessions and of waiting streams.
async fn usage(gateway: &Gateway) -> (u64, u64) {
    let health = gateway.get("/health").await.ok();
    let count = |name: &str| health["mcp"][name].as_u64().expect("a number");
    (count("sessions"), count("streams"))
}

/// Waits until this many streams wait for notifications.
async fn wait_for_streams(gateway: &Gateway, count: u64) {
    wait::until("the streams to end", async || (usage(gateway).await.1 == count).then_some(()))
        .await;
}
