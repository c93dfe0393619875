//! Ways to make a call that policy refuses, each tried on every API. None may make the call.
//!
//! The ways are data, in `bypass/ways.json`; `docs/bypass.md` publishes them. Ways of one API alone are tested where that
//! API is: answers to questions in `mcp/approval.rs`, runs in `runs/bypasses.rs`, headers of MCP in `mcp/refusals.rs`.

mod stage;

use std::{collections::BTreeSet, fs};

use airlock_tests::{
    Reply, Setup,
    mcp::{Endpoint, LEGACY, MODERN},
    root, wait,
};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::stage::{
    ANN, Face, SequenceCall, Stage, call_by_command, configured, permitted_in, refused_in,
    run_by_command,
};
use super::live_settings::edit;

/// The meta-tool that runs scripts.
const EXECUTE: &str = "executeToolCode";
/// Stands for the metadata of a request in a message.
const META: &str = "$META";

/// All ways, as the file has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ways {
    calls: Vec<CallWay>,
    sequences: Vec<SequenceWay>,
    scripts: Vec<ScriptWay>,
    messages: Vec<MessageWay>,
    requests: Vec<RequestWay>,
}

/// A call of a tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallWay {
    way: String,
    name: String,
    #[serde(default = "text")]
    arguments: Value,
    /// APIs at which policy permits it, or which cannot send it.
    #[serde(default)]
    not_at: Vec<Face>,
}

/// Calls that are made one after the other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceWay {
    way: String,
    calls: Vec<SequenceCall>,
    /// APIs at which policy permits the last call.
    not_at: Vec<Face>,
}

/// A script, in one language or both.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptWay {
    way: String,
    both: Option<String>,
    starlark: Option<String>,
    python: Option<String>,
}

/// Messages of MCP, as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageWay {
    way: String,
    messages: Vec<String>,
}

/// A request over HTTP.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestWay {
    way: String,
    path: String,
    headers: Map<String, Value>,
    body: String,
}

/// Returns the arguments of the tool.
fn text() -> Value {
    json!({"text": stage::TEXT})
}

impl Ways {
    fn read() -> Self {
        let file = root().join("tests/it/bypass/ways.json");
        let text = fs::read_to_string(file).expect("UTF-8");
        serde_json::from_str(&text).expect("the ways")
    }

    /// Returns the names of all ways.
    fn names(&self) -> Vec<&str> {
        let calls = self.calls.iter().map(|way| &way.way);
        let sequences = self.sequences.iter().map(|way| &way.way);
        let scripts = self.scripts.iter().map(|way| &way.way);
        let messages = self.messages.iter().map(|way| &way.way);
        let requests = self.requests.iter().map(|way| &way.way);
        let all = calls.chain(sequences).chain(scripts).chain(messages).chain(requests);
        all.map(String::as_str).collect()
    }
}

impl ScriptWay {
    fn in_language(&self, language: &str) -> Option<&str> {
        let own = if language == "python" { &self.python } else { &self.starlark };
        self.both.as_deref().or(own.as_deref())
    }
}

#[test]
fn the_page_lists_every_way_and_no_way_is_named_twice() {
    let ways = Ways::read();
    let names = ways.names();
    assert!(names.len() >= 25, "{} ways", names.len());
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "two have one name");
    let page = fs::read_to_string(root().join("docs/bypass.md")).expect("UTF-8");
    for name in names {
        // Rows of tables, and comments in the block of scripts.
        let is_listed = [format!("| {name} |"), format!("# {name}\n")];
        let is_listed = is_listed.iter().any(|line| page.contains(line.as_str()));
        assert!(is_listed, "{name:?} is not on the page");
    }
}

#[tokio::test]
async fn every_api_makes_the_calls_that_policy_permits() {
    for (language, script) in [("starlark", "script.star"), ("python", "script.py")] {
        let mut stage = Stage::start(language).await;
        let mut made = 0;
        for face in Face::OF_A_GATEWAY {
            let script = json!({"code": "scripted.note(text='x')\nvetted.note(text='x')"});
            for (name, arguments, calls) in
                [("checked-note", text(), 1), ("ok-note", text(), 1), (EXECUTE, script, 2)]
            {
                let reply = stage.attempt(face, name, &arguments).await;
                made += calls;
                assert_eq!(stage.permitted(), made, "{language}, {face:?}, {name}: {reply}");
            }
        }
        stage.end().await;
        let setup = configured(Setup::new(), language);
        call_by_command(&setup, "ok-note", &text()).await;
        call_by_command(&setup, "checked-note", &text()).await;
        run_by_command(&setup, script, "scripted.note(text='x')").await;
        assert_eq!(permitted_in(setup.directory()), 3, "{language}");
    }
}

#[tokio::test]
async fn no_api_makes_a_refused_call_however_it_is_named() {
    let mut stage = Stage::start("starlark").await;
    for CallWay { way, name, arguments, not_at } in &Ways::read().calls {
        for face in Face::OF_A_GATEWAY.into_iter().filter(|face| !not_at.contains(face)) {
            let reply = stage.attempt(face, name, arguments).await;
            assert_eq!(stage.refused(), 0, "{face:?}, {way}: {reply}");
        }
    }
    stage.end().await;
}

#[tokio::test]
async fn no_command_makes_a_refused_call_however_it_is_named() {
    let setup = configured(Setup::new(), "starlark");
    for CallWay { way, name, arguments, not_at } in &Ways::read().calls {
        if !not_at.contains(&Face::Cli) {
            let run = call_by_command(&setup, name, arguments).await;
            assert_eq!(refused_in(setup.directory()), 0, "{way}: {run}");
        }
    }
    for SequenceWay { way, calls, not_at } in &Ways::read().sequences {
        for SequenceCall { name, arguments } in
            calls.iter().filter(|_| !not_at.contains(&Face::Cli))
        {
            let run = call_by_command(&setup, name, arguments).await;
            assert_eq!(refused_in(setup.directory()), 0, "{way}: {run}");
        }
    }
}

#[tokio::test]
async fn no_api_makes_a_refused_call_after_others() {
    let mut stage = Stage::start("starlark").await;
    for SequenceWay { way, calls, not_at } in &Ways::read().sequences {
        for face in Face::OF_A_GATEWAY.into_iter().filter(|face| !not_at.contains(face)) {
            let before = stage.permitted();
            let replies = stage.attempt_all(face, calls).await;
            assert_eq!(stage.refused(), 0, "{face:?}, {way}: {replies}");
            let notes = calls.iter().filter(|call| call.is_permitted_note()).count();
            assert_eq!(stage.permitted() - before, notes, "{face:?}, {way}: {replies}");
        }
    }
    stage.end().await;
}

#[tokio::test]
async fn no_script_makes_a_refused_call_on_any_api() {
    for language in ["starlark", "python"] {
        let mut stage = Stage::start(language).await;
        for way in &Ways::read().scripts {
            let Some(script) = way.in_language(language) else { continue };
            for face in Face::OF_A_GATEWAY {
                let reply = stage.attempt(face, EXECUTE, &json!({"code": script})).await;
                assert_eq!(stage.refused(), 0, "{language}, {face:?}, {}: {reply}", way.way);
            }
        }
        stage.end().await;
    }
}

#[tokio::test]
async fn no_script_of_a_command_makes_a_refused_call() {
    for (language, file) in [("starlark", "script.star"), ("python", "script.py")] {
        let setup = configured(Setup::new(), language);
        for way in &Ways::read().scripts {
            let Some(script) = way.in_language(language) else { continue };
            let run = run_by_command(&setup, file, script).await;
            assert_eq!(refused_in(setup.directory()), 0, "{language}, {}: {run}", way.way);
        }
    }
}

#[tokio::test]
async fn no_message_of_mcp_makes_a_refused_call_in_either_era() {
    let mut stage = Stage::start("starlark").await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    for MessageWay { way, messages } in &Ways::read().messages {
        for message in messages {
            let modern = message.replace(META, &meta.to_string());
            let legacy = message.replace(META, "{}");
            for name in ["off-note", "asks-note", "ok-echo", "checked-note"] {
                let request = Endpoint::new(&stage.gateway).post(modern.clone());
                let request = request.set("mcp-protocol-version", MODERN);
                let request = request.set("mcp-method", "tools/call").set("mcp-name", name);
                let reply = request.reply().await;
                assert_eq!(stage.refused(), 0, "modern, {way}: {}", reply.text);
            }
            let request = Endpoint::new(&stage.gateway).post(legacy.clone());
            let request = request.set("mcp-session-id", stage.session.id());
            let reply = request.set("mcp-protocol-version", LEGACY).reply().await;
            assert_eq!(stage.refused(), 0, "legacy, {way}: {}", reply.text);
            for line in [modern, legacy] {
                stage.pipe.write(format!("{line}\n")).await;
                stage.drain().await;
                assert_eq!(stage.refused(), 0, "stdio, {way}");
            }
        }
    }
    stage.end().await;
}

#[tokio::test]
async fn no_request_over_http_makes_a_refused_call() {
    let stage = Stage::start("starlark").await;
    for RequestWay { way, path, headers, body } in &Ways::read().requests {
        let request = stage.gateway.request(Method::POST, path);
        let request = request.header("content-type", "application/json").body(body.clone());
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(name, value.as_str().unwrap_or_default())
        });
        let reply = Reply::fetch(request).await;
        assert_eq!(stage.refused(), 0, "{way}: {}", reply.text);
    }
    stage.end().await;
}

/// Sends a request as the holder of a key.
async fn as_ann(stage: &Stage, path: &str, body: &Value) -> Reply {
    let request = stage.gateway.request(Method::POST, path).header("x-bf-vk", ANN);
    Reply::fetch(request.json(body)).await
}

#[tokio::test]
async fn an_approval_of_a_run_makes_no_call_that_its_key_has_lost_the_right_to() {
    let stage = Stage::start("starlark").await;
    let arguments = json!({"code": "waits.note(text='x')"}).to_string();
    let call = json!({"id": "call_1", "function": {"name": EXECUTE, "arguments": arguments}});
    let stopped = as_ann(&stage, "/v1/mcp/tool/execute", &call).await.ok();
    let run = stopped["airlock"]["run"].clone();
    assert_eq!(run["pending"][0]["tool"], "waits-note", "{stopped:#}");
    edit(&stage.gateway, |config| {
        config["governance"]["virtual_keys"][0]["mcp_configs"] =
            json!([{"mcp_client_name": "scripted", "tools_to_execute": ["*"]}]);
    });
    let probe = json!({"code": "waits.echo(text='x')"}).to_string();
    let probe = json!({"id": "call_2", "function": {"name": EXECUTE, "arguments": probe}});
    wait::until("the right to be lost", async || {
        let reply = as_ann(&stage, "/v1/mcp/tool/execute", &probe).await;
        (reply.body["is_error"] == true).then_some(())
    })
    .await;
    let id = run["id"].as_str().expect("an identifier");
    let approved =
        as_ann(&stage, &format!("/v1/runs/{id}/approve"), &json!({"calls": ["1"]})).await;
    assert_eq!(stage.refused(), 0, "approved: {}", approved.text);
    let mut again = call;
    again["request_state"] = run["request_state"].clone();
    let again = as_ann(&stage, "/v1/mcp/tool/execute", &again).await;
    assert_eq!(stage.refused(), 0, "with its state: {}", again.text);
    let resumed = as_ann(&stage, &format!("/v1/runs/{id}/resume"), &json!({})).await;
    assert_eq!(stage.refused(), 0, "resumed: {}", resumed.text);
    stage.end().await;
}
