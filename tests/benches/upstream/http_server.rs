//! An MCP server over streamable HTTP whose tool does nothing, in a process of its own: this program
//! with another argument.

use std::{env, future::pending, process::Stdio};

use airlock_tests::bench::{http_tool::HttpTool, server::FIRST};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

/// Argument that makes this program the server.
pub(crate) const SERVE: &str = "--serve-http";

/// The server in its own process, which is killed with the value.
pub(crate) struct HttpServer {
    address: String,
    child: Child,
}

impl HttpServer {
    /// Starts it on a port that the system chooses.
    pub(crate) async fn start() -> Self {
        let mut command = Command::new(env::current_exe().expect("a program knows its own file"));
        command.arg(SERVE).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("it can be started");
        let stdout = child.stdout.take().expect("piped above");
        let mut address = String::new();
        BufReader::new(stdout).read_line(&mut address).await.expect("its first line is its URL");
        Self { address: address.trim_end().to_owned(), child }
    }

    /// Returns the URL without its path, which is `/mcp`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the identifier of its process.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }
}

/// Serves until the process is killed.
pub(crate) async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!("http://{}", listener.local_addr().expect("it is bound"));
    let definition =
        json!({"name": FIRST, "description": "Does nothing.", "inputSchema": {"type": "object"}});
    let tool = HttpTool { definition, run: Box::new(|_| "ok".to_owned()) };
    tool.serve(listener, pending()).await;
}
