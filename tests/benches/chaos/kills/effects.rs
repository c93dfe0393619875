//! The tool whose effects are counted.

use std::sync::Arc;

use airlock_tests::{Client, bench::http_tool::HttpTool};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// Name of the client of the server.
const CLIENT: &str = "effects";
/// Full name of the tool, for callers of a gateway.
pub(super) const TOOL: &str = "effects-add";

/// Numbers of the calls whose effects have happened, in their order.
type Happened = Arc<Mutex<Vec<u64>>>;

/// An MCP server in this process, which no kill reaches. The effect of a call is that its number is added to a list.
pub(super) struct EffectServer {
    url: String,
    happened: Happened,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl EffectServer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
        let happened = Happened::default();
        let (stop, stopped) = oneshot::channel();
        let tool = tool(happened.clone());
        let serving = tokio::spawn(tool.serve(listener, async {
            // It is stopped too if its owner is gone.
            let _ = stopped.await;
        }));
        Self { url, happened, stop, serving }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Waits for what gateways that have ended have sent, and stops. Returns the numbers of the calls whose effects
    /// have happened.
    pub(super) async fn end(self) -> Vec<u64> {
        let Self { happened, stop, serving, .. } = self;
        // It may have failed, which is known next.
        let _ = stop.send(());
        serving.await.expect("the server does not fail");
        happened.lock().clone()
    }
}

fn tool(happened: Happened) -> HttpTool {
    let definition =
        json!({"name": "add", "description": "Adds it.", "inputSchema": {"type": "object"}});
    HttpTool {
        definition,
        run: Box::new(move |arguments: &Value| {
            let number = arguments["n"].as_u64().expect("each call has a number");
            happened.lock().push(number);
            number.to_string()
        }),
    }
}

/// Returns the server at a URL as a source of tools.
pub(super) fn source(url: &str) -> Client {
    Client::http(CLIENT, url).auto(&["*"])
}

/// Returns what a key of the configuration may use.
pub(super) fn rights() -> Value {
    json!([{"mcp_client_name": CLIENT, "tools_to_execute": ["*"]}])
}

/// Returns the arguments of the call with a number, as they are sent.
pub(super) fn arguments(number: u64) -> String {
    json!({"n": number}).to_string()
}
