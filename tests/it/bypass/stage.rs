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
const REFUSED: &str = "refused";
/// File to which tools write that policy permits, with [`TEXT`].
const PERMITTED: &str = "permitted";
/// Text of a permitted call.
pub(super) const TEXT: &str = "x";
const MODEL: &str = "fake/model";

/// A call in a sequence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SequenceCall {
    pub(super) name: String,
    pub(super) arguments: Value,
}

impl SequenceCall {
    /// Returns whether it notes the permitted text.
    pub(super) fn is_permitted_note(&self) -> bool {
        self.name.ends_with("-note") && self.arguments["text"] == TEXT
    }
}

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
        let session = Endpoint::new(&gateway).session().await;
        Self { gateway, session, pipe, local, _model: model }
    }

    /// Makes an attempt. Returns the response as text.
    pub(super) async fn attempt(&mut self, face: Face, name: &str, arguments: &Value) -> String {
        match face {
            Face::Chat | Face::StreamedChat | Face::Responses | Face::Messages => {
                self.ask_model(face, &[function(name, arguments)]).await
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

    /// Makes calls one after the other: a model in the rounds of one request, a client of MCP in its session. Returns the
    /// responses as text.
    pub(super) async fn attempt_all(&mut self, face: Face, calls: &[SequenceCall]) -> String {
        if matches!(face, Face::Chat | Face::StreamedChat | Face::Responses | Face::Messages) {
            let functions = calls.iter().map(|call| function(&call.name, &call.arguments));
            return self.ask_model(face, &functions.collect::<Vec<_>>()).await;
        }
        let mut replies = Vec::new();
        for SequenceCall { name, arguments } in calls {
            replies.push(self.attempt(face, name, arguments).await);
        }
        replies.join("\n")
    }

    /// Sends a request to a model that makes these calls, one in each round.
    async fn ask_model(&self, face: Face, functions: &[Value]) -> String {
        let calls = Value::from(functions).to_string();
        let messages = json!([{"role": "user", "content": calls}]);
        let chat = "/v1/chat/completions";
        let (path, body) = match face {
            Face::Chat => (chat, json!({"model": MODEL, "messages": messages})),
            Face::StreamedChat => {
                (chat, json!({"model": MODEL, "messages": messages, "stream": true}))
            }
            Face::Responses => ("/v1/responses", json!({"model": MODEL, "input": calls})),
            Face::Messages => {
                let body = json!({"model": MODEL, "max_tokens": 99, "messages": messages});
                ("/v1/messages", body)
            }
            other => panic!("{other:?} has no model"),
        };
        self.post(path, &body).await
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        Reply::fetch(self.gateway.request(Method::POST, path).json(body)).await.text
    }

    /// Makes a call of the modern era, if a header can have the name. Over stdio it needs none.
    async fn modern(&self, name: &str, arguments: &Value) -> String {
        let is_safe = name.bytes().all(|byte| byte.is_ascii_graphic());
        if name.is_empty() || !is_safe {
            return "not sent".to_owned();
        }
        let params = json!({"name": name, "arguments": arguments});
        Endpoint::new(&self.gateway).modern("tools/call", params).reply().await.text
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
        refused_in(self.gateway.directory()) + refused_in(self.local.directory())
    }

    /// Returns the number of permitted calls that were made.
    pub(super) fn permitted(&self) -> usize {
        permitted_in(self.gateway.directory()) + permitted_in(self.local.directory())
    }

    /// Makes a permitted call, and checks that no refused one was made, also later than its response.
    pub(super) async fn end(self) {
        let reply = self.gateway.execute("ok-echo", &json!({"text": "x"})).await;
        assert_eq!(reply.content(), "x");
        assert_eq!(self.refused(), 0);
    }
}

/// Returns the number of refused calls that the servers of a directory have received: all of tools that no attempt may
/// call, and those with another text than the permitted one.
pub(super) fn refused_in(directory: &Path) -> usize {
    let others = lines(directory, PERMITTED).into_iter().filter(|line| line != TEXT);
    lines(directory, REFUSED).len() + others.count()
}

/// Returns the number of permitted calls that the servers of a directory have received.
pub(super) fn permitted_in(directory: &Path) -> usize {
    lines(directory, PERMITTED).into_iter().filter(|line| line == TEXT).count()
}

/// Returns the texts in a file, one for each call.
fn lines(directory: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns a call as a model makes it.
fn function(name: &str, arguments: &Value) -> Value {
    json!({"name": name, "arguments": arguments.to_string()})
}

/// Configures tools that policy permits (`ok`, `scripted`), asks about (`asks`, `waits`), and refuses (`off`, `hidden`,
/// `own`), that a guard permits with one text (`checked`, `vetted`), and that are sinks (`sink`, `sunk`), for models and for
/// scripts, and a plugin that relays calls.
pub(super) fn configured(setup: Setup, language: &str) -> Setup {
    let open = ["echo", "note"];
    let ok = noting(&setup, "ok", PERMITTED).execute(&open).auto(&open);
    let scripted = noting(&setup, "scripted", PERMITTED).execute(&open).auto(&open);
    let asks = noting(&setup, "asks", REFUSED).execute(&open).auto(&["echo"]);
    let waits = noting(&setup, "waits", REFUSED).execute(&open).auto(&["echo"]);
    let checked = noting(&setup, "checked", PERMITTED).execute(&open).auto(&open);
    let vetted = noting(&setup, "vetted", PERMITTED).execute(&open).auto(&open);
    let sink = noting(&setup, "sink", PERMITTED).execute(&open).auto(&open);
    let scripted_sink = noting(&setup, "sunk", PERMITTED).execute(&open).auto(&open);
    let off = noting(&setup, "off", REFUSED).execute(&["echo"]).auto(&["echo"]);
    let hidden = noting(&setup, "hidden", REFUSED).execute(&["echo"]).auto(&["echo"]);
    let own = noting(&setup, "own", REFUSED).execute(&open).auto(&open);
    let guest = Client::wasm("guest", guests::HOSTILE)
        .tools(&["off-note", "asks-note", "checked-note", "sink-note", "ok-echo"])
        .execute(&["relay"])
        .auto(&["relay"]);
    let sinks = json!({
        "tools": ["sink-note", "sunk-note"],
        "from": ["ok", "scripted", "checked", "vetted"],
        "decision": "deny",
    });
    setup
        .set("/server/require_virtual_key", false)
        // Calls of MCP clients that cannot ask their users end at once.
        .set("/mcp_server/approval_wait", "0s")
        .set("/mcp/tool_manager_config/code_mode_language", language)
        .set("/guards", json!([guard()]))
        .set("/mcp/information_flow/sinks", json!([sinks]))
        .client(ok)
        .client(scripted.code_mode())
        .client(asks)
        .client(waits.code_mode())
        .client(checked)
        .client(vetted.code_mode())
        .client(sink)
        .client(scripted_sink.code_mode())
        .client(off)
        .client(hidden.code_mode())
        .client(own.set("/virtual_keys", json!(["ann"])))
        .client(guest)
        .key("ann", ANN, &[("own", &["*"]), ("waits", &["*"]), ("scripted", &["*"])])
}

/// Returns the guard of `checked` and `vetted`, which permits one text.
fn guard() -> Value {
    let condition = format!("!(has(arguments.text) && arguments.text == '{TEXT}')");
    json!({
        "name": "one-text",
        "component": guests::POLICY,
        "on": {"tools": ["checked-note", "vetted-note"]},
        "settings": {"rules": [{"name": "one-text", "if": condition, "then": "deny"}]},
        "limits": {"time": "1s"},
    })
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

/// Responds as a model that makes the calls which the last message of the user has, one in each round.
fn obey(asked: &Asked) -> (u16, Value) {
    let messages = asked.body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let user = messages.iter().rposition(|message| message["role"] == "user");
    let call = user.and_then(|user| {
        let made = messages[user..].iter().filter(|message| message["role"] == "tool").count();
        wanted(&messages[user], made)
    });
    let message = match call {
        Some(function) => json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": format!("call_{}", messages.len()), "type": "function", "function": function},
        ]}),
        None => service::text("done"),
    };
    (200, completion(&message))
}

/// Returns the next call in a message of the user, which is a list of calls or one call.
fn wanted(message: &Value, made: usize) -> Option<Value> {
    let content = &message["content"];
    let text = content.as_str().or(content[0]["text"].as_str())?;
    let call = match serde_json::from_str(text).ok()? {
        Value::Array(calls) => calls.into_iter().nth(made)?,
        call => Some(call).filter(|_| made == 0)?,
    };
    call["name"].is_string().then_some(call)
}
