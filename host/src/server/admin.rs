//! `GET /api/mcp/clients`: the configured sources of tools, in the form of Bifrost's admin API.

mod page;

use std::sync::Arc;

use serde_json::{Value, json};

use self::page::Page;
use super::{
    App, Sender,
    respond::{self, ApiError, Reply},
};
use crate::{
    catalog::Client,
    door::Origin,
    text::{visible, visible_line},
    tool::{Tool, Whitelist},
};

/// Maximum characters of the message of a failure.
const MAX_FAILURE_CHARS: usize = 512;

/// Lists clients and their tools, without anything that could be a secret. A request without a key
/// sees every client with all its tools, callable or not. The holder of a virtual key is not an
/// operator: it sees only the tools that its key permits, and no reasons for failures. `query` may
/// narrow the list to a page; fails if it is invalid.
pub(super) fn clients(app: &App, sender: &Sender, query: Option<&str>) -> Result<Reply, ApiError> {
    let page = Page::parse(query.unwrap_or_default())?;
    let snapshot = app.catalog.snapshot();
    let matching = snapshot.clients().filter(|client| page.matches(client.name.as_str()));
    let (clients, total): (Vec<Value>, usize) = if sender.key.is_none() {
        let disabled = app.hooks.upstreams.as_ref().map(|it| it.disabled()).unwrap_or_default();
        let disabled = disabled.into_iter().filter(|(name, _)| page.matches(name));
        let mut listed: Vec<_> = matching.map(Listed::Active).collect();
        listed.extend(disabled.map(|(name, kind)| Listed::Disabled(name, kind)));
        listed.sort_by(|one, other| one.name().cmp(other.name()));
        let (listed, total) = page.of(listed);
        (listed.iter().map(|it| it.describe(app)).collect(), total)
    } else {
        let caller = app.caller(sender, Origin::Caller);
        let listed =
            |tool: &Tool| caller.view().find(&Origin::Caller, tool.name.as_str()).is_some();
        let opened = matching.filter(|client| client.tools.iter().any(|tool| listed(tool)));
        let (clients, total) = page.of(opened.collect());
        (clients.iter().map(|client| describe(client, listed, describe_tool)).collect(), total)
    };
    Ok(respond::json(&json!({
        "count": clients.len(),
        "clients": clients,
        "total_count": total,
        "limit": page.limit.unwrap_or(total),
        "offset": page.offset,
    })))
}

/// A client as the operator sees it.
enum Listed<'c> {
    Active(&'c Arc<Client>),
    /// An MCP server that the configuration disables: its name and its transport.
    Disabled(String, &'static str),
}

impl Listed<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Active(client) => client.name.as_str(),
            Self::Disabled(name, _) => name,
        }
    }

    fn describe(&self, app: &App) -> Value {
        match self {
            Self::Active(client) => describe_for_operator(app, client),
            Self::Disabled(name, kind) => json!({
                "config": {"name": name, "client_id": name, "connection_type": kind},
                "tools": [],
                "state": "disconnected",
                "phase": "disabled",
                "reason": "disabled by the configuration",
            }),
        }
    }
}

fn describe(
    client: &Client,
    is_listed: impl Fn(&Tool) -> bool,
    describe_tool: impl Fn(&Tool) -> Value,
) -> Value {
    let mut tools: Vec<&Tool> =
        client.tools.iter().map(AsRef::as_ref).filter(|tool| is_listed(tool)).collect();
    tools.sort_by(|one, other| one.original.cmp(&other.original));
    json!({
        "config": {
            "name": client.name.as_str(),
            "connection_type": client.connection_type,
            "is_code_mode_client": client.policy.code_mode,
        },
        "tools": tools.into_iter().map(describe_tool).collect::<Vec<_>>(),
        "state": client.state.name(),
    })
}

/// Describes a client for its operator: all tools, the policy, the reason it is unavailable, the
/// digest of its component, and the state of its connection with its history.
fn describe_for_operator(app: &App, client: &Client) -> Value {
    let mut out = describe(client, |_| true, describe_tool_for_operator);
    out["config"]["client_id"] = client.name.as_str().into();
    out["config"]["tools_to_execute"] = names(&client.policy.execute).into();
    out["config"]["tools_to_auto_execute"] = names(&client.policy.auto_execute).into();
    if !client.left_out.is_empty() {
        out["left_out"] = client.left_out.iter().map(String::as_str).collect();
    }
    if let Some(reason) = client.state.reason() {
        let message: String = reason.chars().take(MAX_FAILURE_CHARS).collect();
        out["last_failure"] = json!({"message": message});
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
    json!({"name": tool.shown_original(), "description": tool.description, "parameters": tool.input_schema})
}

/// Describes a tool as its source announced it, with hidden characters made visible, and the changes
/// that the gateway made.
fn describe_tool_for_operator(tool: &Tool) -> Value {
    let mut out = json!({
        "name": visible_line(&tool.original),
        "description": visible(tool.announced_description()),
        "parameters": tool.visible_schema(),
        "wire_name": tool.name,
    });
    let repairs: Vec<_> = tool.changes().collect();
    if !repairs.is_empty() {
        out["repairs"] = repairs.into();
    }
    out
}

fn names(list: &Whitelist) -> Vec<&str> {
    match list {
        Whitelist::All => vec!["*"],
        Whitelist::Only(names) => names.iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{ClientName, ToolDefinition};

    #[test]
    fn an_operator_sees_hidden_text_and_repairs_and_a_keys_holder_sees_neither() {
        let hidden = "a\u{202e}b";
        let schema = json!({"title": hidden, "properties": {"p": {"type": "array"}}});
        let definition: ToolDefinition = serde_json::from_value(
            json!({"name": hidden, "description": hidden, "inputSchema": schema}),
        )
        .expect("a definition");
        let client = ClientName::parse("fs").expect("a name");
        let tool = Tool::adopt(&client, definition).expect("a tool");
        let schema = |title| json!({"title": title, "properties": {"p": {"type": "array"}}, "type": "object"});
        let visible = "a⟨U+202E⟩b";
        assert_eq!(
            describe_tool_for_operator(&tool),
            json!({
                "name": visible, "description": visible, "parameters": schema(visible),
                "wire_name": tool.name,
                "repairs": [
                    "inputSchema: \"type\": \"object\" added",
                    "hidden characters removed",
                    "for models: `items` added to arrays",
                ],
            })
        );
        assert_eq!(
            describe_tool(&tool),
            json!({"name": "ab", "description": "ab", "parameters": schema("ab")})
        );
    }
}
