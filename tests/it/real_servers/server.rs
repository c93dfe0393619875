//! One server, called directly and through the gateway by the same client.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use airlock_tests::{Client, Setup, peers, root};
use serde_json::{Map, Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command};

/// Time limit of one run of the client.
const LIMIT: Duration = Duration::from_mins(1);
const NAME: &str = "real";

/// A server, and the calls with which it is compared.
pub(super) struct Server {
    reached: Reached,
    calls: Vec<(&'static str, Value)>,
}

/// Way to a server.
enum Reached {
    Stdio { program: PathBuf, arguments: Vec<String>, environment: Vec<(&'static str, String)> },
    Http(String),
    Sse(String),
}

impl Server {
    /// Describes a server over stdio. Its environment is empty.
    pub(super) fn stdio<I: IntoIterator<Item: Into<String>>>(
        program: PathBuf,
        arguments: I,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self::at(Reached::Stdio { program, arguments, environment: Vec::new() })
    }

    /// Describes a server that listens at a URL for streamable HTTP.
    pub(super) fn http(url: String) -> Self {
        Self::at(Reached::Http(url))
    }

    /// Describes a server that listens at a URL for HTTP+SSE.
    pub(super) fn sse(url: String) -> Self {
        Self::at(Reached::Sse(url))
    }

    fn at(reached: Reached) -> Self {
        Self { reached, calls: Vec::new() }
    }

    /// Sets a variable of its environment.
    pub(super) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Reached::Stdio { environment, .. } = &mut self.reached {
            environment.push((name, value.into()));
        }
        self
    }

    /// Passes on the `PATH` of this process, in which the server finds its interpreter.
    pub(super) fn path(self) -> Self {
        self.env("PATH", std::env::var("PATH").expect("this process has one"))
    }

    /// Adds a call. Calls follow one another in this order.
    pub(super) fn call(mut self, tool: &'static str, arguments: Value) -> Self {
        self.calls.push((tool, arguments));
        self
    }

    /// Lists all tools and makes all calls, directly and through the gateway. Panics unless both have
    /// the same results. `prepare` runs before each of them. Returns the results.
    pub(super) async fn compared(self, prepare: impl Fn()) -> Seen {
        prepare();
        let direct = self.run(self.target()).await;
        prepare();
        let gateway = Setup::new().client(self.client()).serve_connected().await;
        let url = format!("{}/mcp/{NAME}", gateway.address());
        let through = self.run(json!({"http": url})).await;
        for (one, other) in direct.tools.iter().zip(&through.tools) {
            assert_eq!(one, other, "a tool changed on its way through the gateway");
        }
        assert_eq!(direct.tools.len(), through.tools.len(), "{:#?}", through.tools);
        for ((call, one), other) in self.calls.iter().zip(&direct.results).zip(&through.results) {
            assert_eq!(one, other, "the result of {call:?} changed on its way through the gateway");
        }
        direct
    }

    /// Returns the server as the direct client takes it.
    fn target(&self) -> Value {
        match &self.reached {
            Reached::Stdio { program, arguments, environment } => {
                let mut command = vec![program.display().to_string()];
                command.extend(arguments.iter().cloned());
                let environment: Map<_, _> = environment
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
                    .collect();
                json!({"stdio": command, "env": environment})
            }
            Reached::Http(url) => json!({"http": url}),
            Reached::Sse(url) => json!({"sse": url}),
        }
    }

    /// Returns the server as a source of tools.
    fn client(&self) -> Client {
        let client = match &self.reached {
            Reached::Stdio { program, arguments, environment } => {
                let set: Vec<_> =
                    environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let set: Vec<_> = set.iter().map(String::as_str).collect();
                Client::stdio(NAME, program, arguments.clone()).envs(&set)
            }
            Reached::Http(url) => Client::http(NAME, url),
            Reached::Sse(url) => Client::http(NAME, url).set("/connection_type", "sse"),
        };
        client.auto(&["*"])
    }

    async fn run(&self, mut target: Value) -> Seen {
        target["calls"] = self.calls.iter().map(|(name, value)| json!([name, value])).collect();
        let document = said(&direct(), &target).await;
        Seen {
            tools: list(&document, "tools").into_iter().map(comparable).collect(),
            results: list(&document, "results"),
        }
    }
}

/// Observations of a client.
pub(super) struct Seen {
    /// Definitions of all tools, sorted by name.
    pub(super) tools: Vec<Value>,
    /// Results of the calls, in their order.
    pub(super) results: Vec<Value>,
}

impl Seen {
    /// Returns the names of all tools.
    pub(super) fn names(&self) -> Vec<&str> {
        self.tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
    }

    /// Returns the first text of a result. Panics if the call failed or has none.
    pub(super) fn text(&self, index: usize) -> &str {
        let result = &self.results[index];
        assert_eq!(result["isError"], false, "{result:#}");
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result:#}"))
    }
}

/// Removes the parts of a definition that differ on purpose: the name of the gateway's source in the
/// description, and support of the tasks of 2025-11-25, which the gateway does not offer.
fn comparable(mut tool: Value) -> Value {
    let mark = format!("[MCP Service: {NAME} (external)] ");
    if let Some(own) = tool["description"].as_str().and_then(|text| text.strip_prefix(&mark)) {
        tool["description"] = own.into();
    }
    if let Some(members) = tool.as_object_mut() {
        members.remove("execution");
    }
    tool
}

fn direct() -> PathBuf {
    root().join("tests/fixtures/real_servers/direct.py")
}

fn list(document: &Value, member: &str) -> Vec<Value> {
    document[member].as_array().unwrap_or_else(|| panic!("no {member}: {document:#}")).clone()
}

/// Runs a program of the Python client with a document on its stdin. Returns the document that it
/// prints.
async fn said(program: &Path, document: &Value) -> Value {
    let mut command = Command::new(peers::python());
    command.arg(program).env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("Python can be started");
    let mut stdin = child.stdin.take().expect("piped above");
    stdin.write_all(document.to_string().as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    let output = output
        .unwrap_or_else(|_| panic!("{document:#} did not end in {LIMIT:?}"))
        .expect("its output can be read");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{document:#}\n{errors}");
    serde_json::from_slice(&output.stdout).expect("it prints one JSON document")
}
