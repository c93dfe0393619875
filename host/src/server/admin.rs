//! `GET /api/mcp/clients`: the configured sources of tools, in the form of Bifrost's admin API.

use serde_json::{Value, json};

use super::{
    App, Sender,
    respond::{self, Reply},
};
use crate::{
    catalog::Client,
    door::Origin,
    tool::{Tool, Whitelist},
};

/// Lists clients and their tools, without anything that could be a secret. A request without a key
/// sees every client with all its tools, callable or not. The holder of a virtual key is not an
/// operator: it sees only the tools that its key permits, and no reasons for failures.
pub(super) fn clients(app: &App, sender: &Sender) -> Reply {
    let snapshot = app.catalog.snapshot();
    let clients: Vec<Value> = if sender.key.is_none() {
        snapshot.clients().map(|client| describe_for_operator(app, client)).collect()
    } else {
        let caller = app.caller(sender, Origin::Caller);
        let visible =
            |tool: &Tool| caller.view().find(&Origin::Caller, tool.name.as_str()).is_some();
        let opened =
            snapshot.clients().filter(|client| client.tools.iter().any(|tool| visible(tool)));
        opened.map(|client| describe(client, visible)).collect()
    };
    let count = clients.len();
    respond::json(
        &json!({"clients": clients, "count": count, "total_count": count, "limit": count, "offset": 0}),
    )
}

fn describe(client: &Client, visible: impl Fn(&Tool) -> bool) -> Value {
    json!({
        "config": {
            "name": client.name.as_str(),
            "connection_type": client.connection_type,
            "is_code_mode_client": client.policy.code_mode,
        },
        "tools": client.tools.iter().filter(|tool| visible(tool)).map(|tool| describe_tool(tool)).collect::<Vec<_>>(),
        "state": client.state.name(),
    })
}

/// Describes a client for its operator: all tools, the policy, the reason it is unavailable, and
/// the digest of its component.
fn describe_for_operator(app: &App, client: &Client) -> Value {
    let mut out = describe(client, |_| true);
    out["config"]["tools_to_execute"] = names(&client.policy.execute).into();
    out["config"]["tools_to_auto_execute"] = names(&client.policy.auto_execute).into();
    if let Some(reason) = client.state.reason() {
        out["last_failure"] = json!({"message": reason});
    }
    if let Some(digest) =
        app.hooks.plugins.as_ref().and_then(|plugins| plugins.digest(client.name.as_str()))
    {
        out["plugin"] = json!({"digest": digest});
    }
    for (name, value) in client.provider().map(|provider| provider.status()).unwrap_or_default() {
        out[name] = value;
    }
    out
}

/// Describes a tool under the name that its source uses, because whitelists use that name.
fn describe_tool(tool: &Tool) -> Value {
    json!({"name": tool.original, "description": tool.description, "parameters": tool.input_schema})
}

fn names(list: &Whitelist) -> Vec<&str> {
    match list {
        Whitelist::All => vec!["*"],
        Whitelist::Only(names) => names.iter().map(String::as_str).collect(),
    }
}
