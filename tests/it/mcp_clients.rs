//! Real MCP clients against the gateway, over HTTP and as `airlock mcp`, in both eras of the
//! protocol; and over the deprecated HTTP+SSE. `tests/fixtures/mcp_clients` has their programs, and describes what these print; the
//! MCP Inspector is run as it is.

mod inspector;
mod program;
mod rmcp;

use std::{
    fs,
    path::{Path, PathBuf},
};

use airlock_tests::{
    Client, Gateway, Setup, binary, component, guests,
    wat::{Text, WELL_BEHAVED},
};
use serde_json::{Value, json};

use self::{inspector::inspect, program::Program};

const LEGACY: (&str, &str) = ("legacy", "2025-11-25");
const MODERN: (&str, &str) = ("modern", "2026-07-28");
const KEY: &str = "sk-bf-0123456789abcdef";

/// A plugin that reports its progress three times.
const COUNT: Text = Text {
    items: r#"(data (i32.const 1024) "step")"#,
    run: "(loop $again
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (call $progress (local.get $context) (f64.convert_i32_s (local.get $i)) (i32.const 1) (f64.const 3)
              (i32.const 1) (i32.const 1024) (i32.const 4))
            (br_if $again (i32.lt_s (local.get $i) (i32.const 3))))
          (call $ok)",
    tools: r#"{"schema":"airlock.tools/1","tools":[{"name":"run","title":"Count","description":"Counts to three.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}"#,
    ..WELL_BEHAVED
};
/// A plugin that reports its progress once, and then computes without an end.
const HANG: Text = Text {
    items: r#"(data (i32.const 1024) "hangs")"#,
    run: "(call $progress (local.get $context) (f64.const 1) (i32.const 1) (f64.const 2)
            (i32.const 1) (i32.const 1024) (i32.const 5))
          (loop $again (br $again))
          unreachable",
    ..WELL_BEHAVED
};

/// Returns a configuration with every tool that the scenarios call. `guest-ok` needs an approval.
fn setup() -> Setup {
    let setup = Setup::new();
    let count = Client::text(&setup, "count", &COUNT).auto(&["*"]);
    // It must not reach a limit before a slow client has cancelled it.
    let hang = Client::text(&setup, "hang", &HANG).auto(&["*"]).trusted();
    let hang = hang.limit("fuel", 1_000_000_000_000_u64).limit("cpu_time", "5m");
    let guest = Client::wasm("guest", guests::HOSTILE).execute(&["fail", "ok"]).auto(&["fail"]);
    let text = Client::wasm("text", guests::TEXT).execute(&["word_count"]).auto(&["word_count"]);
    let setup = setup.set("/mcp_server/approval_wait", "0s");
    setup.client(count).client(hang).client(guest).client(text)
}

/// Returns the tools of [`setup`], as the programs show them.
fn all_tools() -> Value {
    let tool = |name: &str, [title, annotations, output_schema]: [bool; 3]| json!({"name": name, "title": title, "annotations": annotations, "outputSchema": output_schema});
    json!([
        tool("count-run", [true, true, false]),
        tool("guest-fail", [false, false, false]),
        tool("guest-ok", [false, true, false]),
        tool("hang-run", [false, false, false]),
        tool("text-word_count", [true, true, true]),
    ])
}

const COUNT_WORDS: [&str; 2] = ["text-word_count", r#"{"text": "one two"}"#];

/// Returns the result of [`COUNT_WORDS`].
fn counted_words() -> Value {
    let counts = json!({"bytes": 7, "characters": 7, "words": 2, "lines": 1, "paragraphs": 1});
    let text = json!({"type": "text", "text": counts.to_string()});
    json!({"content": [text], "isError": false, "structuredContent": counts})
}

/// Returns a result of one text.
fn result(text: &str, is_error: bool) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

/// Returns the error of a call of a tool that does not exist or is hidden.
fn unknown(name: &str) -> Value {
    let message = format!("tool '{name}' is not available or not permitted");
    json!({"error": {"code": -32602, "message": message}})
}

#[derive(Clone, Copy)]
enum Transport {
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    Stdio,
}

/// The gateway as an MCP server.
enum Server {
    Http(Gateway),
    Sse(Gateway),
    Stdio(Setup),
}

impl Server {
    async fn start(setup: Setup, transport: Transport) -> Self {
        match transport {
            Transport::Http => Self::Http(setup.serve_connected().await),
            Transport::Sse => Self::Sse(setup.set("/mcp_server/sse", true).serve_connected().await),
            // Its client starts it.
            Transport::Stdio => Self::Stdio(setup),
        }
    }

    /// Returns the arguments by which a program finds it. `path` is that of the endpoint.
    fn at(&self, path: &str) -> Vec<String> {
        match self {
            Self::Http(gateway) => vec!["http".into(), format!("{}{path}", gateway.address())],
            Self::Sse(gateway) => {
                let path = path.replacen("/mcp", "/sse", 1);
                vec!["sse".into(), format!("{}{path}", gateway.address())]
            }
            Self::Stdio(setup) => {
                let airlock = binary("airlock-under-test");
                let config = setup.write();
                let [airlock, config] = [airlock, config].map(|path| path.display().to_string());
                vec!["stdio".into(), airlock, "mcp".into(), "--config".into(), config]
            }
        }
    }

    fn target(&self) -> Vec<String> {
        self.at("/mcp")
    }

    /// Returns the eras that a program is tried in.
    fn eras(&self, program: Program) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Sse(_) => &[LEGACY],
            Self::Http(_) | Self::Stdio(_) => program.eras(),
        }
    }

    fn directory(&self) -> &Path {
        match self {
            Self::Http(gateway) | Self::Sse(gateway) => gateway.directory(),
            Self::Stdio(setup) => setup.directory(),
        }
    }
}

async fn lists_and_calls_tools(program: Program, transport: Transport) {
    let server = Server::start(setup(), transport).await;
    let automatic = Some(program.automatic()).filter(|_| !matches!(server, Server::Sse(_)));
    for (era, version) in server.eras(program).iter().copied().chain(automatic) {
        let [tool, arguments] = COUNT_WORDS;
        let options = ["--tool", tool, "--arguments", arguments];
        let toured = program.run("tour", era, &options, &server.target()).await;
        let expected = json!({
            "version": version,
            "tools": all_tools(),
            "call": counted_words(),
            "unknown": unknown("no-such-tool"),
        });
        assert_eq!(toured, expected, "{era}");
        let failed =
            program.run("progress", era, &["--tool", "guest-fail"], &server.target()).await;
        let expected = result("there is no such thing", true);
        assert_eq!(failed, json!({"progress": [], "result": expected}), "{era}");
    }
}

async fn receives_progress_and_cancels(program: Program, transport: Transport) {
    let server = Server::start(setup(), transport).await;
    let target = server.target();
    for (era, _) in server.eras(program) {
        let counted = program.run("progress", era, &["--tool", "count-run"], &target).await;
        let steps = json!([[1, 3, "step"], [2, 3, "step"], [3, 3, "step"]]);
        assert_eq!(counted, json!({"progress": steps, "result": result("ok", false)}), "{era}");
        let [tool, arguments] = COUNT_WORDS;
        let options = ["--tool", "hang-run", "--then", tool, "--then-arguments", arguments];
        let begun = program.begin("cancel", era, &options, &target, "cancelled").await;
        if let Server::Http(gateway) | Server::Sse(gateway) = &server {
            // The guest has ended, although the client is still connected.
            gateway.sandbox_is_empty().await;
        }
        let expected =
            json!({"progress": [[1, 2, "hangs"]], "ended": "aborted", "after": counted_words()});
        assert_eq!(begun.finish().await, expected, "{era}");
    }
}

async fn asks_its_user(program: Program, transport: Transport) {
    let server = Server::start(setup(), transport).await;
    let question = "Run the tool guest-ok with these arguments?\n\n{}";
    let declined = result("tool 'guest-ok' did not run: the user declined it", true);
    for (era, _) in server.eras(program) {
        for (answer, expected) in [("accept", &result("ok", false)), ("decline", &declined)] {
            let options = ["--answer", answer, "--tool", "guest-ok"];
            let asked = program.run("elicit", era, &options, &server.target()).await;
            assert_eq!(asked, json!({"asked": [question], "result": expected}), "{era} {answer}");
        }
        // Without elicitation nothing runs unasked.
        let called = program.run("progress", era, &["--tool", "guest-ok"], &server.target()).await;
        assert_eq!(called["result"]["isError"], true, "{era}: {called}");
    }
}

async fn notices_the_tool_of_a_reloaded_plugin(program: Program, transport: Transport) {
    let eras = if matches!(transport, Transport::Sse) { &[LEGACY] } else { program.eras() };
    for (era, _) in eras {
        let (setup, component) = one_plugin();
        let server = Server::start(setup, transport).await;
        let begun = program.begin("changed", era, &[], &server.target(), "ready").await;
        add_tool(&component).await;
        let expected = json!({"before": ["guest-ok"], "after": ["guest-late", "guest-ok"]});
        assert_eq!(begun.finish().await, expected, "{era}");
    }
}

/// Returns a configuration with one plugin, and the file of its component.
fn one_plugin() -> (Setup, PathBuf) {
    let setup = Setup::new();
    let component = setup.file("guest.wasm", fs::read(guests::HOSTILE).expect("the component"));
    let plugin = Client::wasm("guest", &component).execute(&["late", "ok"]).auto(&["late", "ok"]);
    (setup.client(plugin), component)
}

/// Replaces the component of [`one_plugin`] by one with the additional tool `late`.
async fn add_tool(component: &Path) {
    let late =
        json!({"name": "late", "description": "Added later.", "inputSchema": {"type": "object"}});
    let changed = component::with_tools(guests::HOSTILE, |tools| tools.push(late)).await;
    let new = component.with_extension("new");
    fs::write(&new, changed).expect("a file");
    fs::rename(&new, component).expect("it takes its place");
}

/// A module of tests for each client and transport.
macro_rules! clients {
    ($($name:ident: $program:ident, $transport:ident;)*) => {$(
        mod $name {
            use super::{Program::$program, Transport::$transport};

            #[tokio::test]
            async fn lists_and_calls_tools() {
                super::lists_and_calls_tools($program, $transport).await;
            }

            #[tokio::test]
            async fn receives_progress_and_cancels() {
                super::receives_progress_and_cancels($program, $transport).await;
            }

            #[tokio::test]
            async fn asks_its_user() {
                super::asks_its_user($program, $transport).await;
            }

            #[tokio::test]
            async fn notices_the_tool_of_a_reloaded_plugin() {
                super::notices_the_tool_of_a_reloaded_plugin($program, $transport).await;
            }
        }
    )*};
}

clients! {
    python_over_http: Python, Http;
    python_over_sse: Python, Sse;
    python_over_stdio: Python, Stdio;
    node_over_http: Node, Http;
    node_over_sse: Node, Sse;
    node_over_stdio: Node, Stdio;
    sdk_over_http: Sdk, Http;
    sdk_over_sse: Sdk, Sse;
    sdk_over_stdio: Sdk, Stdio;
}

#[tokio::test]
async fn a_key_and_a_filter_narrow_the_tools_that_every_client_sees() {
    let rows: [(&str, &[&str]); 2] = [("guest", &["ok"]), ("text", &["*"])];
    // The harness waits for the sources without a key.
    let setup = setup().set("/server/require_virtual_key", false).key("ann", KEY, &rows);
    let server = Server::start(setup, Transport::Http).await;
    let key = format!("authorization: Bearer {KEY}");
    let headers = ["--header", &key, "--header", "x-bf-mcp-include-clients: text"];
    let seen = async |program: Program, headers: &[&str], path: &str| {
        let [tool, arguments] = COUNT_WORDS;
        let call = ["--tool", tool, "--arguments", arguments, "--then", "guest-ok"];
        let options = [headers, &call[..]].concat();
        program.run("tour", "auto", &options, &server.at(path)).await
    };
    for program in Program::ALL {
        let with_key = seen(program, &headers[..2], "/mcp").await;
        assert_eq!(names(&with_key["tools"]), ["guest-ok", "text-word_count"]);
        let pending = with_key["unknown"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(pending.contains("airlock approvals approve call_"), "{with_key}");
        let narrowed = seen(program, &headers, "/mcp").await;
        assert_eq!(names(&narrowed["tools"]), ["text-word_count"]);
        assert_eq!(narrowed["call"], counted_words());
        assert_eq!(narrowed["unknown"], unknown("guest-ok"));
        let of_one_client = seen(program, &headers[..2], "/mcp/guest").await;
        assert_eq!(names(&of_one_client["tools"]), ["ok"]);
        assert_eq!(of_one_client["call"], unknown("text-word_count"));
    }
    for (era, _) in [LEGACY, MODERN] {
        let listed = inspect(&server, era, &["--method", "tools/list"], &headers).await.ok();
        assert_eq!(names(&listed["tools"]), ["text-word_count"], "{era}");
    }
}

/// Returns the names of some tools, sorted.
fn names(tools: &Value) -> Vec<&str> {
    let tools = tools.as_array().into_iter().flatten();
    let mut names: Vec<_> = tools.filter_map(|tool| tool["name"].as_str()).collect();
    names.sort_unstable();
    names
}
