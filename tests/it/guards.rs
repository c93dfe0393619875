//! Guards: what they decide about a call holds wherever the call comes from, and a guard that fails refuses it. What they
//! decide about a definition holds for each request.

mod approvals;
mod definitions;
mod marks;
mod models;
mod origins;
mod personal;
mod plugins;
mod policy;
mod records;
mod secrets;
mod settings;
mod verdicts;

use std::{fs, path::PathBuf};

use airlock_tests::{Client, Gateway, Reply, Setup, guests, misbehaving};
use serde_json::{Value, json};

const ANN: &str = "sk-bf-ann-0123456789abcdef";
/// Tools of the server that need no approval.
const AUTO: [&str; 3] = ["echo", "fail", "note"];

/// A gateway whose tool `server-note` appends to a file, and whose calls are guarded.
struct Guarded {
    gateway: Gateway,
    notes: PathBuf,
}

impl Guarded {
    async fn start(change: impl FnOnce(Setup) -> Setup) -> Self {
        let setup = guarded(Setup::new());
        let notes = notes(&setup);
        let gateway = change(setup).serve_connected().await;
        Self { gateway, notes }
    }

    /// Calls a tool with a text, which says how the guard decides.
    async fn call(&self, tool: &str, text: &str) -> Reply {
        self.gateway.execute(tool, &json!({"text": text})).await
    }

    /// Returns what was noted.
    fn noted(&self) -> String {
        fs::read_to_string(&self.notes).unwrap_or_default()
    }
}

fn notes(setup: &Setup) -> PathBuf {
    setup.directory().join("notes")
}

/// Returns the server whose tool `note` appends to the file of a setup.
fn server(setup: &Setup, name: &str) -> Client {
    let mode = format!("notes={}", notes(setup).display());
    misbehaving(name, [mode.as_str()]).execute(&AUTO)
}

/// Adds the server, and a guard of its tools.
fn guarded(setup: Setup) -> Setup {
    let client = server(&setup, "server").auto(&AUTO);
    setup
        .set("/server/require_virtual_key", false)
        .set("/guards", json!([warden(&json!({"tools": ["server-*", "coded-*", "internal-*"]}))]))
        .client(client)
}

/// Returns the guard of the tests, for these calls.
fn warden(on: &Value) -> Value {
    json!({"name": "warden", "component": guests::WARDEN, "on": on, "limits": limits()})
}

/// Returns the limits of a guard whose time is not what a test is about. On a busy machine, a hook waits for a
/// processor longer than its default time, and the call would be refused.
fn limits() -> Value {
    json!({"time": "1s"})
}
