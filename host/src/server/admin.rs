//! `GET /api/mcp/clients`: the configured sources of tools, as Bifrost's administrators know it.

use serde_json::{Value, json};

use super::{
    App, Sender,
    respond::{self, Reply},
};
use crate::catalog::{Client, Tool, Whitelist};

/// Lists every client with all its tools, callable or not. The configuration holds more; what could be a secret is not here. They
/// are the same for every sender.
pub(super) fn clients(app: &App, _: &Sender) -> Reply {
    let clients: Vec<Value> = app.catalog.snapshot().clients().map(|client| describe(client)).collect();
    let count = clients.len();
    respond::json(&json!({"clients": clients, "count": count, "total_count": count, "limit": count, "offset": 0}))
}

fn describe(client: &Client) -> Value {
    let mut out = json!({
        "config": {
            "name": client.name.as_str(),
            "connection_type": client.connection_type,
            "is_code_mode_client": client.policy.code_mode,
            "tools_to_execute": names(&client.policy.execute),
            "tools_to_auto_execute": names(&client.policy.auto_execute),
        },
        "tools": client.tools.iter().map(|tool| describe_tool(tool)).collect::<Vec<_>>(),
        "state": client.state.name(),
    });
    if let Some(reason) = client.state.reason() {
        out["last_failure"] = json!({"message": reason});
    }
    out
}

/// A tool under the name that its source gave it, which is what whitelists are written with.
fn describe_tool(tool: &Tool) -> Value {
    json!({"name": tool.original, "description": tool.description, "parameters": tool.input_schema})
}

fn names(list: &Whitelist) -> Vec<&str> {
    match list {
        Whitelist::All => vec!["*"],
        Whitelist::Only(names) => names.iter().map(String::as_str).collect(),
    }
}
