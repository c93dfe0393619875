//! Environment of the demo: a real gateway on a real port, built from a configuration file like any
//! other, in a temporary directory.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

pub(super) use super::agent::Agent;
use super::{agent::MAX_EVENT_BYTES, script};
use crate::guests;
use airlock_catalog::SourceState;
use airlock_config::Config;
use airlock_egress::tls;
use airlock_gateway::{Gateway, GatewayError};
use airlock_wire::sse::{Dialect, Item, SseDecoder};

/// Number of notes that the script of scene 2 reads.
pub(super) const NOTES: usize = 40;
/// Calls that one script may make. Scene 2 makes two for each note, and one more.
pub(super) const NESTED_CALLS: usize = 100;
/// Time for the sources to connect; the MCP server is a process that must start.
const SETTLE: Duration = Duration::from_secs(30);

/// A running gateway and a client for it.
pub(super) struct Stage {
    pub(super) url: String,
    directory: tempfile::TempDir,
    client: reqwest::Client,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), GatewayError>>,
}

/// A response of the gateway.
pub(super) struct StageReply {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) elapsed: Duration,
}

impl StageReply {
    /// Returns the content of the model's message in a chat response.
    pub(super) fn content(&self) -> &str {
        self.body["choices"][0]["message"]["content"].as_str().unwrap_or_default()
    }

    /// Returns the calls that the gateway ran for a chat response.
    pub(super) fn calls(&self) -> &[Value] {
        self.body["airlock"]["calls"].as_array().map_or(&[], Vec::as_slice)
    }
}

impl Stage {
    /// Writes the files, starts the gateway and waits until every source of tools is connected.
    pub(super) async fn set(on_compile: fn(&str) -> Box<dyn Send>) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("airlock-demo-")
            .tempdir()
            .context("cannot make a directory")?;
        write_files(directory.path()).context("cannot write the demo's files")?;
        let config = Config::load(&directory.path().join("gateway.json"))?;
        let listener = TcpListener::bind(config.server.listen).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            // A dropped `Stage` stops the gateway too.
            let _ = stopped.await;
        };
        let gateway = Gateway::builder(config)
            .listener(listener)
            .shutdown(stopped)
            .on_compile(on_compile)
            .start()
            .await?;
        gateway.settled(SETTLE, |_| true).await;
        for client in gateway.catalog().snapshot().clients() {
            let reason = client.state.reason().unwrap_or("it did not connect in time");
            ensure!(
                client.state == SourceState::Connected,
                "the source {} is not connected: {reason}",
                client.name
            );
        }
        let client = tls::client().no_proxy().timeout(Duration::from_mins(1)).build()?;
        Ok(Self { url, directory, client, stop, running: tokio::spawn(gateway.serve()) })
    }

    /// Asks the model, as any OpenAI client would.
    pub(super) async fn chat(&self, messages: &[Value]) -> anyhow::Result<StageReply> {
        self.post("/v1/chat/completions", &json!({"model": "demo/scripted", "messages": messages}))
            .await
    }

    /// Sends a streamed chat request with events of tools. Returns the data of every event, with
    /// the time of its arrival.
    pub(super) async fn stream(
        &self,
        messages: &[Value],
    ) -> anyhow::Result<Vec<(Duration, String)>> {
        let started = Instant::now();
        let body = json!({
            "model": "demo/scripted", "stream": true, "airlock": {"events": true}, "messages": messages,
        });
        let request = self.client.post(format!("{}/v1/chat/completions", self.url)).json(&body);
        let mut response = request.send().await?.error_for_status()?;
        let mut events = Vec::new();
        let mut decoder = SseDecoder::new(Dialect::Model, MAX_EVENT_BYTES);
        while let Some(chunk) = response.chunk().await? {
            let mut bytes = &chunk[..];
            while let Some(item) = decoder.next(&mut bytes) {
                let Item::Event(event) = item else { bail!("an event is too long") };
                events.push((started.elapsed(), String::from_utf8(event.data)?));
            }
        }
        Ok(events)
    }

    /// Runs one tool, as a caller does who approves a pending call.
    pub(super) async fn execute(
        &self,
        name: &str,
        arguments: &Value,
    ) -> anyhow::Result<StageReply> {
        let call = json!({
            "id": "demo", "type": "function", "function": {"name": name, "arguments": arguments.to_string()},
        });
        self.post("/v1/mcp/tool/execute", &call).await
    }

    /// Returns an MCP client of the gateway.
    pub(super) fn agent(&self) -> Agent {
        Agent::new(self.client.clone(), format!("{}/mcp", self.url))
    }

    /// Returns the directory of the demo's files.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the directory that the `outbox` plugin writes to.
    pub(super) fn outbox(&self) -> PathBuf {
        self.directory.path().join("outbox")
    }

    /// Stops the gateway and waits for it.
    pub(super) async fn strike(self) -> anyhow::Result<()> {
        // If the gateway has already ended, the next line returns its error.
        let _ = self.stop.send(());
        Ok(self.running.await??)
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<StageReply> {
        let started = Instant::now();
        let response = self.client.post(format!("{}{path}", self.url)).json(body).send().await?;
        let status = response.status().as_u16();
        let body = response.json().await?;
        Ok(StageReply { status, body, elapsed: started.elapsed() })
    }
}

/// Returns a message of the user.
pub(super) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Returns the text of one note. Its number of words is known, so that the result of the script can
/// be checked.
pub(super) fn note(number: usize) -> String {
    format!("Note {number}\n{}", "one more thing to remember ".repeat(number))
}

fn write_files(directory: &Path) -> anyhow::Result<()> {
    for (name, component) in
        [("text", guests::TEXT), ("files", guests::FILES), ("unruly", guests::UNRULY)]
    {
        fs::write(directory.join(name).with_extension("wasm"), component)?;
    }
    fs::create_dir(directory.join("outbox"))?;
    fs::create_dir(directory.join("notes"))?;
    for number in 1..=NOTES {
        fs::write(directory.join(format!("notes/note-{number:02}.txt")), note(number))?;
    }
    fs::write(directory.join("model.json"), script::model().to_string())?;
    fs::write(directory.join("gateway.json"), config(directory)?.to_string())?;
    Ok(())
}

/// Returns the configuration, in the form that an operator would write.
fn config(directory: &Path) -> anyhow::Result<Value> {
    let this_program = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(json!({
        "server": {"listen": "127.0.0.1:0"},
        "providers": {"demo": {"kind": "scripted", "script": "model.json"}},
        "mcp": {
            "tool_manager_config": {"max_nested_calls": NESTED_CALLS},
            "client_configs": [
                plugin("text", "text.wasm", &json!({}), "*", false),
                plugin("unruly", "unruly.wasm", &json!({}), "*", false),
                plugin("outbox", "files.wasm", &files(directory, "outbox", "read_write"), "list_directory", false),
                plugin("files", "files.wasm", &files(directory, "notes", "read_only"), "*", true),
                plugin("words", "text.wasm", &json!({}), "*", true),
                {
                    "name": "desk", "connection_type": "stdio", "is_code_mode_client": true,
                    "stdio_config": {"command": this_program, "args": ["demo-mcp-server"]},
                    "tools_to_execute": ["tally", "totals"], "tools_to_auto_execute": ["tally", "totals"],
                },
            ],
        },
    }))
}

fn files(directory: &Path, name: &str, access: &str) -> Value {
    json!({name: {"path": directory.join(name), "access": access}})
}

fn plugin(name: &str, component: &str, files: &Value, auto: &str, code_mode: bool) -> Value {
    json!({
        "name": name, "connection_type": "wasm", "is_code_mode_client": code_mode,
        "wasm_config": {"component": component, "grants": {"files": files}},
        "tools_to_execute": ["*"], "tools_to_auto_execute": [auto],
    })
}
