//! An MCP server over stdio whose tools do nothing, in a process of its own: this program with other
//! arguments.

use std::{env, process::Stdio, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
        ToolAnnotations,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::process::Command;

use super::option;
use crate::Client;

/// Argument that makes this program the server. The number of tools follows.
const SERVE: &str = "--serve";

/// First of its tools.
pub const FIRST: &str = "ok_000";

/// Returns the number of tools that this program is to serve; `None` if it is to measure.
pub fn requested() -> Option<usize> {
    let count = option(SERVE)?;
    Some(count.parse().expect("a number of tools"))
}

/// Serves on stdin and stdout until stdin is closed.
pub async fn serve(count: usize) {
    let tools = (0..count).map(tool).collect();
    let service = Server { tools }.serve(rmcp::transport::stdio()).await.expect("a client");
    service.waiting().await.expect("no panic in it");
}

/// Returns the server as a source of tools of the gateway.
pub fn source(name: &str, count: usize) -> Client {
    let program = env::current_exe().expect("a program knows its own file");
    Client::stdio(name, program, [SERVE.to_owned(), count.to_string()]).auto(&["*"])
}

/// Returns the command that starts the server.
pub fn command(count: usize) -> Command {
    let mut command = Command::new(env::current_exe().expect("a program knows its own file"));
    command.args([SERVE.to_owned(), count.to_string()]).stderr(Stdio::null());
    command
}

struct Server {
    tools: Vec<Tool>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("benchmark", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("ok")]).into())
    }
}

/// Returns a definition of a common size.
fn tool(index: usize) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Text to look for, in titles and bodies."},
            "state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Results of a page."},
        },
        "additionalProperties": false,
    });
    let Value::Object(schema) = schema else { unreachable!("an object is written above") };
    let description = "Searches the entries of a project and returns those that match, the newest first, with title and author.";
    let hints = ToolAnnotations::with_title("Search").read_only(true).open_world(false);
    Tool::new(format!("ok_{index:03}"), description, Arc::new(schema)).with_annotations(hints)
}
