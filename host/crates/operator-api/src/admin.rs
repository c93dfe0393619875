//! `GET /api/mcp/clients`: the configured sources of tools, in the form of Bifrost's admin API.

mod texts;

use std::sync::Arc;

use serde_json::{Value, json};

pub(super) use self::texts::ToolTexts;
use self::texts::{Audience, Rendering};
use super::OperatorApi;
use airlock_catalog::{Snapshot, ToolSource};
use airlock_core::{
    door::{Caller, Origin},
    operator::Operator,
    request_memory::RequestCharge,
    tool::{Allowlist, Tool},
};
use airlock_http::{
    listing::Page,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_requests::Sender;
use airlock_strings::visible;

/// Maximum characters of the message of a failure, which can repeat what a server sent.
const MAX_FAILURE_CHARS: usize = 512;

/// Lists clients and their tools, without anything that could be a secret. An operator sees every
/// client with all its tools, callable or not. Another sender sees only the tools that it may use, and
/// no reasons for failures. `query` may narrow the list to a page; fails if it is invalid.
///
/// The text is written on a blocking thread, where the tools that a key sees are found too, and charged
/// before it is written.
pub async fn clients(
    api: &OperatorApi,
    sender: &Sender,
    operator: Option<&Operator>,
    query: Option<&str>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let page = Page::parse(query.unwrap_or_default())?;
    let texts = api.tool_texts.clone();
    let text = if operator.is_some() {
        let (entries, total) = of_operator(api, &page);
        let written = work::blocking(charge, move |charge| {
            let rendering = Rendering { texts: &texts, reader: Audience::Operator, charge };
            write(&entries, &page, total, None, &rendering)
        });
        written.await
    } else {
        let snapshot = api.parts.catalog.snapshot();
        let caller = api.parts.caller(sender, Origin::Caller);
        let written = work::blocking(charge, move |charge| {
            let (entries, total) = of_caller(&snapshot, &caller, &page);
            let rendering = Rendering { texts: &texts, reader: Audience::Caller, charge };
            write(&entries, &page, total, Some(&caller), &rendering)
        });
        written.await
    };
    Ok(respond::json_text(text?))
}

/// One entry of the list: its members, and its tools.
struct ClientEntry {
    members: Value,
    tools: Option<Arc<[Arc<Tool>]>>,
}

fn of_operator(api: &OperatorApi, page: &Page) -> (Vec<ClientEntry>, usize) {
    let snapshot = api.parts.catalog.snapshot();
    let disabled = api.hooks.upstreams.disabled();
    let disabled = disabled.into_iter().filter(|(name, _)| page.matches(name));
    let matching = snapshot.clients().filter(|client| page.matches(client.name.as_str()));
    let mut listed: Vec<_> = matching.map(ListedClient::Active).collect();
    listed.extend(disabled.map(|(name, kind)| ListedClient::Disabled(name, kind)));
    listed.sort_by(|one, other| one.name().cmp(other.name()));
    let (listed, total) = page.select(listed);
    (listed.iter().map(|client| client.entry(api)).collect(), total)
}

/// Returns the clients of which a caller sees a tool.
fn of_caller(snapshot: &Snapshot, caller: &Caller, page: &Page) -> (Vec<ClientEntry>, usize) {
    let opened = snapshot.clients().filter(|client| {
        page.matches(client.name.as_str()) && client.tools.iter().any(|tool| sees(caller, tool))
    });
    let (clients, total) = page.select(opened.collect());
    let entries = clients
        .into_iter()
        .map(|client| ClientEntry { members: describe(client), tools: Some(client.tools.clone()) });
    (entries.collect(), total)
}

fn sees(caller: &Caller, tool: &Tool) -> bool {
    caller.view().find(&Origin::Caller, tool.name.as_str()).is_some()
}

/// Writes the list. `caller` is `None` for an operator, who sees all tools.
fn write(
    entries: &[ClientEntry],
    page: &Page,
    total: usize,
    caller: Option<&Caller>,
    rendering: &Rendering<'_>,
) -> Result<String, ApiError> {
    let mut text = String::from("{\"clients\":[");
    for (number, entry) in entries.iter().enumerate() {
        let mut tools: Vec<&Arc<Tool>> =
            entry.tools.iter().flat_map(|tools| tools.iter()).collect();
        tools.retain(|tool| caller.is_none_or(|caller| sees(caller, tool)));
        tools.sort_by(|one, other| one.original.cmp(&other.original));
        let separator = if number > 0 { "," } else { "" };
        let mut members = entry.members.clone();
        members["tools_total"] = tools.len().into();
        let members = members.to_string();
        rendering.push(&mut text, &[separator, members.trim_end_matches('}'), ",\"tools\":["])?;
        for (number, tool) in page.tools(&tools).iter().enumerate() {
            let separator = if number > 0 { "," } else { "" };
            rendering.push(&mut text, &[separator, &rendering.text(tool)])?;
        }
        rendering.push(&mut text, &["]}"])?;
    }
    let rest = json!({
        "count": entries.len(),
        "total_count": total,
        "limit": page.limit,
        "offset": page.offset,
        "tools_limit": page.tools_limit,
        "tools_offset": page.tools_offset,
    });
    let rest = rest.to_string();
    rendering.push(&mut text, &["],", rest.trim_start_matches('{')])?;
    Ok(text)
}

/// A client as the operator sees it.
enum ListedClient<'c> {
    Active(&'c Arc<ToolSource>),
    /// An MCP server that the configuration disables: its name and its transport.
    Disabled(String, &'static str),
}

impl ListedClient<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Active(client) => client.name.as_str(),
            Self::Disabled(name, _) => name,
        }
    }

    fn entry(&self, api: &OperatorApi) -> ClientEntry {
        match self {
            Self::Active(client) => ClientEntry {
                members: describe_for_operator(api, client),
                tools: Some(client.tools.clone()),
            },
            Self::Disabled(name, kind) => ClientEntry {
                members: json!({
                    "config": {"name": name, "client_id": name, "connection_type": kind},
                    "state": "disconnected",
                    "phase": "disabled",
                    "reason": "`disabled` is true",
                }),
                tools: None,
            },
        }
    }
}

fn describe(client: &ToolSource) -> Value {
    json!({
        "config": {
            "name": client.name.as_str(),
            "connection_type": client.kind.name(),
            "is_code_mode_client": client.policy.code_mode,
        },
        "state": client.state.name(),
    })
}

/// Describes a client for its operator: the policy, the reason it is unavailable, the
/// digest of its component, and the state of its connection with its history.
fn describe_for_operator(api: &OperatorApi, client: &ToolSource) -> Value {
    let mut out = describe(client);
    out["config"]["client_id"] = client.name.as_str().into();
    out["config"]["tools_to_execute"] = names(&client.policy.execute).into();
    out["config"]["tools_to_exclude"] = names(client.policy.exclude.as_list()).into();
    out["config"]["tools_to_auto_execute"] = names(&client.policy.auto_execute).into();
    out["config"]["tools_to_approve_twice"] = names(client.policy.approve_twice.as_list()).into();
    if !client.left_out.is_empty() {
        out["left_out"] = client.left_out.iter().map(|left_out| &*left_out.reason).collect();
    }
    if let Some(reason) = client.state.reason() {
        let message: String = reason.chars().take(MAX_FAILURE_CHARS).collect();
        out["last_failure"] = json!({"message": message});
    }
    if let Some(digest) = api.hooks.plugins.digest(client.name.as_str()) {
        out["plugin"] = json!({"digest": digest});
    }
    for (name, value) in client.provider().map(|provider| provider.status()).unwrap_or_default() {
        out[name] = value;
    }
    let fallbacks = api.parts.catalog.snapshot().fallbacks(client);
    if !fallbacks.is_empty() {
        let fallbacks = fallbacks.into_iter().map(|state| {
            json!({"tool": state.tool, "fallback": state.fallback, "problem": state.problem})
        });
        out["tool_fallbacks"] = fallbacks.collect();
    }
    show_hidden(&mut out);
    out
}

/// Makes hidden characters visible in all texts of a value: a server's reasons and names are in it.
fn show_hidden(value: &mut Value) {
    match value {
        Value::String(text) => *text = visible(text),
        Value::Array(values) => values.iter_mut().for_each(show_hidden),
        Value::Object(members) => members.values_mut().for_each(show_hidden),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn names(list: &Allowlist) -> Vec<&str> {
    match list {
        Allowlist::All => vec!["*"],
        Allowlist::Only(names) => names.iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_in_the_state_of_a_server_are_made_visible() {
        let mut state =
            json!({"reason": "a\u{202e}b", "history": [{"reason": "c\u{200b}"}], "attempts": 1});
        show_hidden(&mut state);
        assert_eq!(
            state,
            json!({"reason": "a⟨U+202E⟩b", "history": [{"reason": "c⟨U+200B⟩"}], "attempts": 1})
        );
    }
}
