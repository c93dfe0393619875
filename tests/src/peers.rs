//! Real MCP servers, and real clients of OpenAI's and Anthropic's APIs and of MCP, installed by `make
//! peers`.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::{Child, Command};

use crate::{Client, wait};

/// Returns `server-everything` over stdio.
pub fn everything(name: &str) -> Client {
    Client::stdio(name, everything_program(), ["stdio"]).envs(&["PATH"])
}

/// Returns the path of the program of `server-everything`.
pub fn everything_program() -> PathBuf {
    node_server("everything")
}

/// Returns `server-filesystem` over stdio, with access to one directory.
pub fn filesystem(name: &str, directory: &Path) -> Client {
    Client::stdio(name, node_server("filesystem"), [directory.display().to_string()])
        .envs(&["PATH"])
}

/// Returns the time server from PyPI, which speaks the MCP revision of 2026-07-28.
pub fn time(name: &str) -> Client {
    Client::stdio(name, installed("python/bin/mcp-server-time"), ["--local-timezone", "UTC"])
}

/// Returns the path of a Python with the clients `openai`, `anthropic` and `mcp`.
pub fn python() -> PathBuf {
    installed("python/bin/python")
}

/// Returns the path of a Python with `FastMCP` 4.
pub fn fastmcp() -> PathBuf {
    installed("fastmcp/bin/python")
}

/// Returns the path of a Python with verifiers of audit logs and receipts that others have written.
pub fn audit_python() -> PathBuf {
    installed("audit/bin/python")
}

/// Returns the command of a Node.js that finds the `openai` client. Panics if the client is missing.
pub fn node() -> &'static str {
    node_with("openai")
}

/// Returns the command of a Node.js that finds this package from npm. Panics if it is missing.
pub fn node_with(package: &str) -> &'static str {
    installed(&format!("node_modules/{package}"));
    "node"
}

/// Returns a Node.js of version 22.19 or newer, which MCP's Inspector and its conformance suite need:
/// that of `make peers`, which has none for some platforms, or else that of `PATH`.
pub fn recent_node() -> PathBuf {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let package = format!("node-{}-{architecture}", std::env::consts::OS);
    let own = crate::root().join(".cache/peers/node_modules").join(package).join("bin/node");
    if own.exists() { own } else { "node".into() }
}

/// Returns the path of the program `mcp-server-NAME` from npm.
pub fn node_server(name: &str) -> PathBuf {
    installed(&format!("node_modules/.bin/mcp-server-{name}"))
}

/// Returns the path of the program `mcp-server-NAME` from PyPI.
pub fn python_server(name: &str) -> PathBuf {
    // It needs an older version of the package `mcp` than the others.
    let environment = if name == "sqlite" { "sqlite" } else { "python" };
    installed(&format!("{environment}/bin/mcp-server-{name}"))
}

/// Returns the path of the program `mcp-hub` from npm.
pub fn hub() -> PathBuf {
    installed("node_modules/.bin/mcp-hub")
}

/// Returns the path of a file that `make peers` installs. Panics if it is missing.
pub fn installed(file: &str) -> PathBuf {
    let path = crate::root().join(".cache/peers").join(file);
    assert!(path.exists(), "{} is missing: run `make peers`", path.display());
    path
}

/// An HTTP server that cannot choose a port itself, in its own process, which is killed with the value.
pub struct Listening {
    address: String,
    _server: Child,
}

impl Listening {
    /// Starts the server that `command` makes for a port, and waits until it responds to `GET path`.
    /// The port was free a moment before; another one is tried if the server ends.
    pub async fn start(command: impl Fn(u16) -> Command, path: &str) -> Self {
        let http = airlock::tls::client()
            .no_proxy()
            .timeout(Duration::from_secs(5))
            .build()
            .expect("a client");
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0")
                .and_then(|free| free.local_addr())
                .expect("a free port")
                .port();
            let mut server = command(port)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .expect("it can be started");
            let address = format!("http://127.0.0.1:{port}");
            let url = format!("{address}{path}");
            let what = "a server to respond over HTTP";
            let is_up =
                wait::until_within(wait::COMPILED, what, async || match server.try_wait() {
                    Ok(None) => http.get(&url).send().await.is_ok().then_some(true),
                    _ => Some(false),
                })
                .await;
            if is_up {
                return Self { address, _server: server };
            }
        }
        panic!("a server found no free port in five attempts");
    }

    /// Returns the URL `http://127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// `server-everything` over HTTP, in its own process.
pub struct EverythingOverHttp(Listening);

impl EverythingOverHttp {
    /// Starts it with streamable HTTP.
    pub async fn start() -> Self {
        Self(everything_over("streamableHttp").await)
    }

    /// Returns the source of tools that connects to it.
    pub fn client(&self, name: &str) -> Client {
        Client::http(name, &format!("{}/mcp", self.0.address()))
    }
}

/// Starts `server-everything` with the transport `streamableHttp` or `sse`.
pub async fn everything_over(transport: &str) -> Listening {
    let command = |port: u16| {
        let mut command = Command::new(node_server("everything"));
        command.arg(transport).env("PORT", port.to_string());
        command
    };
    // Not the endpoint itself: a request for an event stream would open a session.
    Listening::start(command, "/").await
}
