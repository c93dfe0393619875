//! `GET /api/mcp/clients`: the configured sources of tools, as Bifrost's administrators know it.

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

/// Lists every client with all its tools, callable or not; what could be a secret is not here. The
/// holder of a virtual key is no operator: it is shown what its key opens, and neither what is
/// closed to it nor why a source is away.
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

/// The same with all its tools, its policy, why it is away, and which component it is.
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
