//! A gateway with tools that policy permits, asks about and refuses, and all the ways into it.

use std::{fs, path::Path};

use airlock_tests::{
    Client, Finished, Gateway, Reply, Service, Setup, guests,
    mcp::{Endpoint, McpSession},
    misbehaving,
    service::{self, Asked, completion},
};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mcp::pipe::Pipe;

/// Key that has its own client.
pub(super) const ANN: &str = "sk-bf-ann0123456789abcdef";
/// File to which tools write that no attempt may call.
pub(super) const REFUSED: &str = "refused";
/// File to which tools write that policy permits.
pub(super) const PERMITTED: &str = "permitted";
const MODEL: &str = "fake/model";

/// An API through which calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Face {
    Chat,
    StreamedChat,
    Responses,
    Messages,
    Execute,
    Modern,
    Legacy,
    Stdio,
    Cli,
}

impl Face {
    /// All but the command line, which starts a gateway for each call.
    pub(super) const OF_A_GATEWAY: [Self; 8] = [
        Self::Chat,
        Self::StreamedChat,
        Self::Responses,
        Self::Messages,
        Self::Execute,
        Self::Modern,
        Self::Legacy,
        Self::Stdio,
    ];
}

/// A gateway, a client of its MCP endpoint in each era, and one over stdio with a gateway of its own.
pub(super) struct Stage {
    pub(super) gateway: Gateway,
    pub(super) session: McpSession,
    pub(super) pipe: Pipe,
    local: Setup,
    _model: Service,
}

impl Stage {
    /// Starts it. Scripts are in this language.
    pub(super) async fn start(language: &str) -> Self {
        let model = Service::start(obey).await;
        let setup = configured(Setup::new(), language).openai("fake", model.base_url());
        let gateway = setup.serve_connected().await;
        let local = configured(Setup::new(), language);
        let mut pipe = Pipe::serve(&local.write());
        // It waits for the servers.
        pipe.ask_modern("tools/list", json!({})).await;
        let session = Endpoint::of(&gateway).session().await;
        Self { gateway, session, pipe, local, _model: model }
    }

    /// Makes an attempt. Returns the response as text.
    pub(super) async fn attempt(&mut self, face: Face, name: &str, arguments: &Value) -> String {
        let call = json!({"name": name, "arguments": arguments.to_string()}).to_string();
        let message = json!([{"role": "user", "content": call}]);
        match face {
            Face::Chat => {
                self.post("/v1/chat/completions", &json!({"model": MODEL, "messages": message}))
                    .await
            }
            Face::StreamedChat => {
                let body = json!({"model": MODEL, "messages": message, "stream": true});
                self.post("/v1/chat/completions", &body).await
            }
            Face::Responses => {
                self.post("/v1/responses", &json!({"model": MODEL, "input": call})).await
            }
            Face::Messages => {
                let body = json!({"model": MODEL, "max_tokens": 99, "messages": message});
                self.post("/v1/messages", &body).await
            }
            Face::Execute => self.gateway.execute(name, arguments).await.text,
            Face::Modern => self.modern(name, arguments).await,
            Face::Legacy => {
                let params = json!({"name": name, "arguments": arguments});
                self.session.request("tools/call", params).reply().await.text
            }
            Face::Stdio => {
                let params = json!({"name": name, "arguments": arguments});
                let id = self.pipe.modern("tools/call", params).await;
                self.pipe.response(&id).await.to_string()
            }
            Face::Cli => panic!("a command starts a gateway of its own"),
        }
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        Reply::of(self.gateway.request(Method::POST, path).json(body)).await.text
    }

    /// Makes a call of the modern era, if a header can have the name. Over stdio it needs none.
    async fn modern(&self, name: &str, arguments: &Value) -> String {
        let is_safe = name.bytes().all(|byte| byte.is_ascii_graphic());
        if name.is_empty() || !is_safe {
            return "not sent".to_owned();
        }
        let params = json!({"name": name, "arguments": arguments});
        Endpoint::of(&self.gateway).modern("tools/call", params).reply().await.text
    }

    /// Reads all responses over stdio to what was sent before.
    pub(super) async fn drain(&mut self) {
        let id = self.pipe.modern("tools/list", json!({})).await;
        while let Some(message) = self.pipe.next().await {
            if message.get("id") == Some(&id) && message["result"]["tools"].is_array() {
                return;
            }
        }
        panic!("the process has ended");
    }

    /// Returns the number of refused calls that were made.
    pub(super) fn refused(&self) -> usize {
        self.count(REFUSED)
    }

    /// Returns the number of permitted calls that were made.
    pub(super) fn permitted(&self) -> usize {
        self.count(PERMITTED)
    }

    fn count(&self, file: &str) -> usize {
        lines(self.gateway.directory(), file) + lines(self.local.directory(), file)
    }

    /// Makes a permitted call, and checks that no refused one was made, also later than its response.
    pub(super) async fn end(self) {
        let reply = self.gateway.execute("ok-echo", &json!({"text": "x"})).await;
        assert_eq!(reply.content(), "x");
        let refused = [self.gateway.directory(), self.local.directory()]
            .map(|directory| fs::read_to_string(directory.join(REFUSED)).unwrap_or_default());
        assert_eq!(refused, ["", ""]);
    }
}

/// Returns the number of lines of a file.
pub(super) fn lines(directory: &Path, file: &str) -> usize {
    fs::read_to_string(directory.join(file)).unwrap_or_default().lines().count()
}

/// Configures tools that policy permits (`ok`, `scripted`), asks about (`asks`, `guarded`), and refuses (`off`, `hidden`,
/// `own`), for models and for scripts, and a plugin that relays calls.
pub(super) fn configured(setup: Setup, language: &str) -> Setup {
    let open = ["echo", "note"];
    let ok = noting(&setup, "ok", PERMITTED).execute(&open).auto(&open);
    let scripted = noting(&setup, "scripted", PERMITTED).execute(&open).auto(&open);
    let asks = noting(&setup, "asks", REFUSED).execute(&open).auto(&["echo"]);
    let guarded = noting(&setup, "guarded", REFUSED).execute(&open).auto(&["echo"]);
    let off = noting(&setup, "off", REFUSED).execute(&["echo"]).auto(&["echo"]);
    let hidden = noting(&setup, "hidden", REFUSED).execute(&["echo"]).auto(&["echo"]);
    let own = noting(&setup, "own", REFUSED).execute(&open).auto(&open);
    let guest = Client::wasm("guest", guests::HOSTILE)
        .tools(&["off-note", "asks-note"])
        .execute(&["relay"])
        .auto(&["relay"]);
    setup
        .set("/server/require_virtual_key", false)
        // Calls of MCP clients that cannot ask their users end at once.
        .set("/mcp_server/approval_wait", "0s")
        .set("/mcp/tool_manager_config/code_mode_language", language)
        .client(ok)
        .client(scripted.code_mode())
        .client(asks)
        .client(guarded.code_mode())
        .client(off)
        .client(hidden.code_mode())
        .client(own.set("/virtual_keys", json!(["ann"])))
        .client(guest)
        .key("ann", ANN, &[("own", &["*"]), ("guarded", &["*"]), ("scripted", &["*"])])
}

/// Returns a server whose tool `note` appends a line to a file.
fn noting(setup: &Setup, name: &str, file: &str) -> Client {
    let mode = format!("notes={}", setup.directory().join(file).display());
    misbehaving(name, [mode.as_str()])
}

/// Calls a tool with the command line.
pub(super) async fn call_by_command(setup: &Setup, name: &str, arguments: &Value) -> Finished {
    setup.airlock("call").arg(name).arg(arguments.to_string()).arg("--json").run().await
}

/// Runs a script with the command line. The name of the file says the language.
pub(super) async fn run_by_command(setup: &Setup, file: &str, script: &str) -> Finished {
    let file = setup.file(file, script);
    setup.airlock("run").arg(file).arg("--json").run().await
}

/// Responds as a model that makes the call which the user's message has.
fn obey(asked: &Asked) -> (u16, Value) {
    let messages = asked.body["messages"].as_array();
    let call = messages.and_then(|messages| messages.last()).and_then(wanted);
    let message = match call {
        Some(function) => json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": function},
        ]}),
        None => service::text("done"),
    };
    (200, completion(&message))
}

/// Returns the call in a message of the user.
fn wanted(message: &Value) -> Option<Value> {
    let content = &message["content"];
    let text = content.as_str().or(content[0]["text"].as_str())?;
    let call: Value = serde_json::from_str(text).ok()?;
    (message["role"] == "user" && call["name"].is_string()).then_some(call)
}
