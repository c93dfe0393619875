//! The command line of the MCP Inspector.

use std::{env, fs, path::Path, process::Stdio};

use airlock_tests::{Setup, binary, peers, root};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    COUNT_WORDS, LEGACY, MODERN, Server, Transport, add_tool, all_tools, counted_words, names,
    one_plugin, program::finished, result, setup,
};

#[tokio::test]
async fn the_inspector_lists_and_calls_tools_over_http() {
    inspector_lists_and_calls_tools(Transport::Http).await;
}

#[tokio::test]
async fn the_inspector_lists_and_calls_tools_over_stdio() {
    inspector_lists_and_calls_tools(Transport::Stdio).await;
}

async fn inspector_lists_and_calls_tools(transport: Transport) {
    let server = Server::start(setup(), transport).await;
    for era in ["legacy", "modern", "auto"] {
        let listed = inspect(&server, era, &["--method", "tools/list"], &[]).await.ok();
        assert_eq!(summary(&listed["tools"]), all_tools(), "{era}");
        let call = async |tool: &str, arguments: &str| {
            let call =
                ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments];
            inspect(&server, era, &call, &[]).await
        };
        let [tool, arguments] = COUNT_WORDS;
        assert_eq!(call(tool, arguments).await.ok(), counted_words(), "{era}");
        assert_eq!(call("count-run", "{}").await.ok(), result("ok", false), "{era}");
        // It does not declare elicitation, so the call waits for a person, in vain.
        let pending = call("guest-ok", "{}").await;
        assert_eq!(pending.code, Some(INSPECTED_A_FAILURE), "{era}: {}", pending.said);
        let text = pending.document["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("airlock approvals approve call_"), "{era}: {}", pending.document);
        let failed = call("guest-fail", "{}").await;
        assert_eq!(failed.code, Some(INSPECTED_A_FAILURE), "{era}: {}", failed.said);
        assert_eq!(failed.result(), result("there is no such thing", true), "{era}");
        // The Inspector finds that itself: it looks the tool up in the list.
        let unknown = call("no-such-tool", "{}").await;
        assert_eq!(unknown.code, Some(INSPECTED_A_FAILURE), "{era}: {}", unknown.said);
        assert!(unknown.said.contains("tool_not_found"), "{era}: {}", unknown.said);
    }
}

#[tokio::test]
async fn the_inspector_lists_the_tool_of_a_reloaded_plugin() {
    let (setup, component) = one_plugin();
    let server = Server::start(setup, Transport::Http).await;
    let Server::Http(gateway) = &server else { unreachable!("it was started over HTTP") };
    let listed = async |era: &str| {
        let listed = inspect(&server, era, &["--method", "tools/list"], &[]).await.ok();
        names(&listed["tools"]).join(" ")
    };
    for (era, _) in [LEGACY, MODERN] {
        assert_eq!(listed(era).await, "guest-ok", "{era}");
    }
    add_tool(&component).await;
    let _ = gateway.post("/api/mcp/client/guest/reload", &json!({})).await.ok();
    for (era, _) in [LEGACY, MODERN] {
        assert_eq!(listed(era).await, "guest-late guest-ok", "{era}");
    }
}

/// Exit code of the Inspector if a tool failed or does not exist.
const INSPECTED_A_FAILURE: i32 = 5;

/// The outcome of one run of the Inspector.
pub(super) struct Inspected {
    code: Option<i32>,
    document: Value,
    said: String,
}

impl Inspected {
    /// Returns the result of the request. Panics unless the exit code is 0.
    pub(super) fn ok(self) -> Value {
        assert_eq!(self.code, Some(0), "{}\n{}", self.document, self.said);
        self.result()
    }

    /// Returns the result of the request, without metadata.
    fn result(&self) -> Value {
        without_meta(self.document["result"].clone())
    }
}

/// Runs the Inspector's command line.
pub(super) async fn inspect(
    server: &Server,
    era: &str,
    request: &[&str],
    headers: &[&str],
) -> Inspected {
    let mut command = command(server.directory());
    command.args(["--cli", "--format", "json", "--protocol-era", era]);
    // A server over stdio inherits little of the Inspector's environment. These tell where compiled
    // guests are kept.
    for name in ["AIRLOCK_CACHE_DIR", "XDG_CACHE_HOME", "HOME"] {
        if let Ok(value) = env::var(name) {
            command.arg("-e").arg(format!("{name}={value}"));
        }
    }
    command.args(request).args(headers).arg("--").args(&server.target()[1..]);
    let (code, document, said) = finished(&mut command).await;
    Inspected { code, document, said }
}

/// Returns the Inspector's command. It keeps files in `home`.
fn command(home: &Path) -> Command {
    let mut command = Command::new(peers::recent_node());
    command.arg(root().join(".cache/peers/node_modules/.bin/mcp-inspector"));
    command.env("HOME", home).env("NO_PROXY", "*").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Returns the configuration of the README, as far as its MCP examples need it.
fn readme_setup() -> Setup {
    let sum = peers::everything("everything").execute(&["echo", "get-sum"]).auto(&["get-sum"]);
    Setup::new().client(sum)
}

#[tokio::test]
async fn the_desktop_configuration_of_the_readme_starts_the_gateway() {
    let readme = fs::read_to_string(root().join("README.md")).expect("UTF-8");
    let block = readme.split("```jsonc\n").nth(1).and_then(|rest| rest.split("```").next());
    let setup = readme_setup();
    let mut config: Value = serde_json::from_str(block.expect("a block")).expect("JSON");
    let server = &mut config["mcpServers"]["airlock"];
    assert_eq!(server["command"], "airlock");
    server["command"] = binary("airlock-under-test").display().to_string().into();
    let path = setup.write().display().to_string();
    let arguments = server["args"].as_array_mut().expect("arguments");
    *arguments.last_mut().expect("the configuration") = path.into();
    // A desktop starts its servers with the user's environment, the Inspector with next to nothing.
    server["env"] = env::vars()
        .filter(|(name, _)| name.starts_with("PATH") || name.ends_with("CACHE_DIR"))
        .collect();
    let file = setup.file("desktop.json", config.to_string());
    let mut command = command(setup.directory());
    command.args(["--cli", "--format", "json", "--config"]).arg(file);
    command.args(["--server", "airlock", "--method", "tools/call"]);
    command.args(["--tool-name", "everything-get-sum", "--tool-args-json", r#"{"a": 2, "b": 3}"#]);
    let (code, document, said) = finished(&mut command).await;
    assert_eq!(code, Some(0), "{document}\n{said}");
    assert_eq!(document["result"]["content"][0]["text"], "The sum of 2 and 3 is 5.");
}

#[tokio::test]
async fn the_call_of_the_readme_through_the_inspector_reaches_the_tool() {
    let readme = fs::read_to_string(root().join("README.md")).expect("UTF-8");
    let start = readme.find("npx -y @modelcontextprotocol/inspector").expect("the call");
    let call = readme[start..].split("```").next().expect("its end").replace("\\\n", " ");
    let gateway = readme_setup().serve_connected().await;
    let mut command = command(gateway.directory());
    // The last argument is quoted, and has blanks.
    let (words, quoted) = call.trim().split_once('\'').expect("a quoted argument");
    let url = format!("{}/mcp", gateway.address());
    let words = words.split_whitespace().skip(3);
    command.args(words.map(|word| if word.starts_with("http://") { url.as_str() } else { word }));
    command.arg(quoted.trim_end_matches('\'')).args(["--format", "json"]);
    let (code, document, said) = finished(&mut command).await;
    assert_eq!(code, Some(0), "{document}\n{said}");
    assert_eq!(document["result"]["content"][0]["text"], "The sum of 2 and 3 is 5.");
}

/// Returns tools as the programs show them.
fn summary(tools: &Value) -> Value {
    let mut tools: Vec<_> = tools.as_array().into_iter().flatten().collect();
    tools.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    let summary = |tool: &&Value| {
        let has = |member: &str| tool.get(member).is_some();
        json!({"name": tool["name"], "title": has("title"), "annotations": has("annotations"), "outputSchema": has("outputSchema")})
    };
    tools.iter().map(summary).collect()
}

/// Returns a result without its metadata, and with `isError`.
fn without_meta(mut result: Value) -> Value {
    if let Some(members) = result.as_object_mut() {
        members.remove("_meta");
        members.remove("resultType");
        if members.contains_key("content") {
            members.entry("isError").or_insert(Value::Bool(false));
        }
    }
    result
}
