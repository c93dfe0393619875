//! Runs of scripts: approvals of their calls, and their continuation after the gateway was killed.

mod approvals;
mod bypasses;
mod crashes;
mod decisions;
mod manifests;
mod openai;
mod operators;
mod wrong_calls;

use std::{fs, path::PathBuf};

use airlock_tests::{Client, Gateway, Setup, peers, root};
use reqwest::Method;
use serde_json::{Value, json};

/// Virtual keys of two callers.
const ANN: &str = "sk-bf-ann0123456789abcdef";
const BOB: &str = "sk-bf-bob0123456789abcdef";
/// The meta-tool that runs scripts.
const EXECUTE: &str = "executeToolCode";
/// Setting of the time for which a run belongs to the gateway that runs it. One that is not renewed in time, as on
/// a busy machine, is shown as interrupted.
const LEASE: &str = "/mcp/tool_manager_config/code_mode_run_lease";

/// A gateway with the recording server, whose tool `drop` always needs an approval.
struct Recorded {
    gateway: Gateway,
    notes: PathBuf,
    orders: PathBuf,
}

impl Recorded {
    async fn start() -> Self {
        Self::with(&["read"], |setup| setup).await
    }

    /// Starts a gateway that runs the tools of `auto` without approval.
    async fn with(auto: &[&str], change: impl FnOnce(Setup) -> Setup) -> Self {
        let setup = Setup::new().set("/server/require_virtual_key", false);
        let rows: [(&str, &[&str]); 1] = [("rec", &["*"])];
        let setup = setup.key("ann", ANN, &rows).key("bob", BOB, &rows);
        let client = recording(&setup).auto(auto).code_mode();
        // Short, because tests in which a gateway is killed wait for its end.
        let setup = setup.client(client).set(LEASE, "200ms");
        Self::serve(change(setup)).await
    }

    async fn serve(setup: Setup) -> Self {
        let (notes, orders) = files(&setup);
        Self { gateway: setup.serve_connected().await, notes, orders }
    }

    /// Gives the server an order for one of the next calls.
    fn order(&self, order: &str) {
        fs::write(&self.orders, order).expect("written");
    }

    /// Returns the calls that the server has received: the names of their tools, and `n`.
    fn received(&self) -> Vec<(String, i64)> {
        let text = fs::read_to_string(&self.notes).unwrap_or_default();
        let line = |line: &str| -> (String, Value) { serde_json::from_str(line).expect("JSON") };
        text.lines()
            .map(line)
            .map(|(tool, arguments)| (tool, arguments["n"].as_i64().expect("n")))
            .collect()
    }

    /// Returns the calls of tools that are not read-only.
    fn written(&self) -> Vec<(String, i64)> {
        self.received().into_iter().filter(|(tool, _)| tool != "read").collect()
    }

    /// Executes a script as the holder of a key; of none if the key is empty.
    async fn execute(&self, key: &str, script: &str) -> Value {
        let arguments = json!({"code": script}).to_string();
        let call = json!({"id": "call_1", "function": {"name": EXECUTE, "arguments": arguments}});
        self.post(key, "/v1/mcp/tool/execute", &call).await.ok()
    }

    /// Executes a script again with the state that was shown, which approves its pending calls.
    async fn execute_again(&self, key: &str, script: &str, shown: &Value) -> airlock_tests::Reply {
        let arguments = json!({"code": script}).to_string();
        let call = json!({
            "function": {"name": EXECUTE, "arguments": arguments},
            "request_state": shown["airlock"]["run"]["request_state"],
        });
        self.post(key, "/v1/mcp/tool/execute", &call).await
    }

    async fn post(&self, key: &str, path: &str, body: &Value) -> airlock_tests::Reply {
        let request = self.gateway.request(Method::POST, path).json(body);
        let request = if key.is_empty() { request } else { request.header("x-bf-vk", key) };
        airlock_tests::Reply::fetch(request).await
    }

    async fn get(&self, key: &str, path: &str) -> airlock_tests::Reply {
        let request = self.gateway.request(Method::GET, path);
        let request = if key.is_empty() { request } else { request.header("x-bf-vk", key) };
        airlock_tests::Reply::fetch(request).await
    }

    /// Decides about calls of a run. Returns the run after that.
    async fn decide(&self, run: &str, action: &str, calls: Value) -> Value {
        self.post("", &format!("/v1/runs/{run}/{action}"), &json!({"calls": calls})).await.ok()
    }

    /// Decides about a call in doubt, as `run` shows it. Returns the run after that.
    async fn resolve(&self, run: &Value, position: &str, action: &str) -> Value {
        let path = format!("/v1/runs/{}/resolve", run["id"].as_str().expect("an id"));
        let calls = json!([{"position": position, "action": action}]);
        let body = json!({"calls": calls, "request_state": run["request_state"]});
        self.post("", &path, &body).await.ok()
    }

    /// Replays a run with the command line.
    async fn replay(&self, run: &str) -> Value {
        let config = self.gateway.directory().join("airlock.json");
        let replay = airlock_tests::Airlock::new().arg("replay").arg("--config").arg(config);
        replay.arg("--json").arg(run).run().await.json()
    }
}

fn recording(setup: &Setup) -> Client {
    let server = root().join("tests/fixtures/recording/server.py");
    let (notes, orders) = files(setup);
    let arguments = ["-B".into(), server, notes, orders].map(|path| path.display().to_string());
    Client::stdio("rec", peers::python(), arguments)
}

fn files(setup: &Setup) -> (PathBuf, PathBuf) {
    (setup.directory().join("notes"), setup.directory().join("orders"))
}

/// Returns the names of tools and `n`, as [`Recorded::received`] returns them.
fn calls<const N: usize>(calls: [(&str, i64); N]) -> Vec<(String, i64)> {
    calls.map(|(tool, n)| (tool.to_owned(), n)).into()
}

/// Returns the positions of the pending calls of a run.
fn pending(run: &Value) -> Vec<&str> {
    run["pending"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|call| call.as_str().or(call["position"].as_str()).expect("a position"))
        .collect()
}
