//! An MCP server inside the program, which the gateway governs like any other server.
//!
//! `cargo run -p airlock --example server` prints the result of its tool and stops.

use airlock::{
    CallReply, ConnectFailure, Gateway, ProgramServer, ServerStream, ServerTransport,
    config::Config,
    tool::{Allowlist, Policy},
};
use anyhow::bail;
use futures_util::future::BoxFuture;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::{Map, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse("{}", "embedded", &|_| None)?;
    // The program calls its tools without an approval. Its texts stay untrusted.
    let policy =
        Policy { execute: Allowlist::All, auto_execute: Allowlist::All, ..Policy::default() };
    let server = ProgramServer { policy, ..ProgramServer::from(InProcess) };
    let gateway = Gateway::builder(config).with_server("greeter", server)?.start().await?;
    let request = gateway.request().tools(["greeter-*"]).open()?;
    // Waits for the first connection.
    for tool in request.tools().await? {
        println!("{}", tool.name);
    }
    let CallReply::Done(output) = request.call("greeter-greet", Map::new()).await? else {
        bail!("it needs no approval")
    };
    println!("{}", output.to_text());
    gateway.stop().await;
    Ok(())
}

/// Connects to a new server for each connection.
struct InProcess;

impl ServerTransport for InProcess {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, ConnectFailure>> {
        Box::pin(async {
            let (stream, other_end) = tokio::io::duplex(64 << 10);
            // It ends when the gateway closes the connection.
            tokio::spawn(async move {
                if let Ok(serving) = Greeter.serve(other_end).await {
                    let _ = serving.waiting().await;
                }
            });
            Ok(Box::new(stream) as Box<dyn ServerStream>)
        })
    }
}

struct Greeter;

impl ServerHandler for Greeter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        Ok(ListToolsResult::with_all_items(vec![Tool::new("greet", "Greets.", schema)]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("Hello from the program!")]).into())
    }
}
