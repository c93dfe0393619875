//! Clients: MCP servers and plugins, as elements of `mcp.client_configs`.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    body,
    change::{ChangeContent, ConfigState, RequestedChange, StoredChange},
    gateway::FirstConnection,
    refusal::{Result, conflict, forbidden, invalid, not_found, refusal},
    service::Service,
};
use airlock_config::{StoredComponents, restore};
use airlock_core::{
    act::Actor,
    operator::{Operator, Right},
    tool::Allowlist,
};
use airlock_operator_api::ManagementRefusal;
use airlock_store::entries::EntryKind;

/// Time for a new client to connect and list its tools. Starting a server may take two minutes by
/// default.
pub(crate) const CONNECTING: Duration = Duration::from_mins(3);
/// Members that cannot be changed: who wants another server adds another client.
const FIXED: [&str; 6] = [
    "connection_type",
    "connection_string",
    "connection_strings",
    "stdio_config",
    "docker_config",
    "auth_type",
];
/// Members that say which tools are used, and not which server is reached and how.
const OF_POLICY: [&str; 15] = [
    "allow_on_all_virtual_keys",
    "disabled",
    "is_code_mode_client",
    "name",
    "prefix",
    "prompts_to_get",
    "rate_limit",
    "resources_to_read",
    "teams",
    "tool_limits",
    "tool_pricing",
    "tool_sync_interval",
    "tools_to_execute",
    "virtual_keys",
    "is_ping_available",
];
/// Refusal of components in the store, which only their upload and acceptance set.
const UPLOADED: &str = "`wasm_config.stored` is set by `POST /api/plugins` and `POST /api/plugins/{name}/accept` alone";
/// Member that says which tools need no approval. Operators who decide about no call may shorten it.
const AUTO_EXECUTE: &str = "tools_to_auto_execute";
/// Member that takes tools away. Operators give none of them back that would need no approval.
const EXCLUDE: &str = "tools_to_exclude";

impl Service {
    /// Adds a client, and waits until it is connected. One that does not connect is removed again, unless
    /// all that it needs is a login of the operator.
    pub(crate) async fn add_client(&self, actor: &Operator, body: Option<Value>) -> Result<Value> {
        let element = Value::Object(body::members(body)?);
        let name = element["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(invalid("Invalid client name: `name` is required"));
        }
        if StoredComponents::read(&element).is_some() {
            return Err(invalid(UPLOADED));
        }
        let is_disabled = element["disabled"] == true;
        let by = Actor::from(actor);
        let storing = self.store_change(&by, |state| plan_new(state, &name, &element));
        // Without a change, there is none to revert if the client does not connect.
        let StoredChange::Made { id, kind } = storing.await? else { return Err(name_taken(&name)) };
        self.apply(id, kind).await;
        let Some(gateway) = self.gateway.as_ref().filter(|_| !is_disabled) else {
            return Ok(success("MCP client added successfully"));
        };
        match gateway.connected(&name, CONNECTING).await {
            Ok(FirstConnection::Ready) => Ok(success("MCP client connected successfully")),
            Ok(FirstConnection::NeedsLogin { reason }) => Ok(pending_login(&name, &reason)),
            Err(reason) => {
                self.revert(actor, id).await?;
                let message = format!("Failed to connect MCP client: {reason}");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Err(refusal(status, "client_not_connected", message))
            }
        }
    }

    /// Changes the members of a client that the request has. A member that is `null` is removed.
    pub(crate) async fn update_client(
        &self,
        actor: &Operator,
        name: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let sent = body::members(body)?;
        self.change(actor, |state| plan_update(state, actor, name, &sent)).await?;
        Ok(success("MCP client edited successfully"))
    }

    /// Removes a client, also one of the configuration file.
    pub(crate) async fn remove_client(&self, actor: &Operator, name: &str) -> Result<Value> {
        let removing = self.change(actor, |state| {
            let found = known(state, name).and_then(|(name, element)| {
                if StoredComponents::read(element).is_some() && !actor.role.has(Right::Administer) {
                    let message = "only an administrator may remove a plugin that was uploaded";
                    return Err(forbidden(message));
                }
                Ok(name)
            });
            let name = state.name_to_remove(actor, EntryKind::Client, name, found)?;
            let action = "client.remove";
            Ok(RequestedChange {
                action,
                kind: EntryKind::Client,
                name,
                content: ChangeContent::Absent,
            })
        });
        removing.await?;
        Ok(success("MCP client removed successfully"))
    }
}

fn plan_new(state: &ConfigState, name: &str, element: &Value) -> Result<RequestedChange> {
    if state.element(EntryKind::Client, name).is_some() {
        return Err(name_taken(name));
    }
    state.check_readable(EntryKind::Client, name)?;
    let content = ChangeContent::Element(element.clone());
    Ok(RequestedChange {
        action: "client.add",
        kind: EntryKind::Client,
        name: name.to_owned(),
        content,
    })
}

pub(crate) fn plan_update(
    state: &ConfigState,
    actor: &Operator,
    name: &str,
    sent: &Map<String, Value>,
) -> Result<RequestedChange> {
    let (name, stored) = known(state, name)?;
    let mut element = stored.clone();
    for (member, value) in changed(stored, sent) {
        if FIXED.contains(&member.as_str()) || member == "name" {
            return Err(invalid(format!("{member} cannot be changed for an existing MCP client")));
        }
        if member == "wasm_config" && value["stored"] != stored["wasm_config"]["stored"] {
            return Err(invalid(UPLOADED));
        }
        let is_policy = match member.as_str() {
            AUTO_EXECUTE => is_part(&value, &stored[AUTO_EXECUTE]),
            EXCLUDE => !uncovers(&stored[EXCLUDE], &value, &stored[AUTO_EXECUTE]),
            other => OF_POLICY.contains(&other),
        };
        if !is_policy && !actor.role.has(Right::Administer) {
            return Err(forbidden(format!(
                "`{member}` is about the connection or about approvals, which only an administrator may change"
            )));
        }
        match value {
            Value::Null => {
                drop(element.as_object_mut().and_then(|members| members.remove(&member)));
            }
            value => element[&member] = value,
        }
    }
    let content = ChangeContent::Element(element);
    Ok(RequestedChange { action: "client.update", kind: EntryKind::Client, name, content })
}

/// Returns whether a list of excluded tools in the place of another one gives a tool back that needs no
/// approval. A list that is not valid is taken for one that does.
fn uncovers(before: &Value, after: &Value, auto_execute: &Value) -> bool {
    let lists = [before, after, auto_execute].map(list_of_tools);
    let [Some(before), Some(after), Some(auto_execute)] = lists else { return true };
    match &auto_execute {
        Allowlist::All => before.beyond(&after).is_some(),
        Allowlist::Only(names) => {
            names.iter().any(|name| before.allows(name) && !after.allows(name))
        }
    }
}

fn list_of_tools(list: &Value) -> Option<Allowlist> {
    let list: Option<Vec<String>> = Deserialize::deserialize(list).ok()?;
    Allowlist::parse(&list.unwrap_or_default()).ok()
}

/// Returns whether a list of tools has only tools of another list.
fn is_part(list: &Value, whole: &Value) -> bool {
    let whole = whole.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_all = whole.iter().any(|name| name == "*");
    match list {
        Value::Null => true,
        Value::Array(list) => is_all || list.iter().all(|name| whole.contains(name)),
        _ => false,
    }
}

/// Returns the members that a request changes. A secret that is sent as it was shown stays.
fn changed(stored: &Value, sent: &Map<String, Value>) -> Map<String, Value> {
    let restored = restore(EntryKind::Client, stored, &Value::Object(sent.clone()));
    let Value::Object(mut restored) = restored else { return Map::new() };
    restored.retain(|member, value| stored.get(member).unwrap_or(&Value::Null) != value);
    restored
}

/// Returns the name and the element of a client, which the path names by its name or its identifier.
pub(crate) fn known<'s>(state: &'s ConfigState, name: &str) -> Result<(String, &'s Value)> {
    let by_name = state.element(EntryKind::Client, name);
    let found = by_name.or_else(|| state.named(EntryKind::Client, name));
    let found = found.and_then(|found| Some((found.name.clone(), found.value.as_ref()?)));
    if found.is_none() {
        state.check_readable(EntryKind::Client, name)?;
    }
    found.ok_or_else(|| not_found("MCP client not found"))
}

/// Describes a client that is kept and waits for a login, by Bifrost's name of this state. There is no URL
/// to open: the operator logs in by the command, to whose machine the browser returns.
fn pending_login(name: &str, reason: &str) -> Value {
    json!({
        "status": "pending_oauth",
        "message": format!("MCP client added; it is connected after a login: {reason}"),
        "mcp_client_id": name,
    })
}

fn name_taken(name: &str) -> ManagementRefusal {
    conflict(format!("an MCP client is named {name:?} already"))
}

fn success(message: &str) -> Value {
    json!({"status": "success", "message": message})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_exclusions_uncovers_a_tool_that_is_in_it_and_needs_no_approval() {
        for (before, after, auto_execute, expected) in [
            (json!(["b"]), json!([]), json!(["*"]), true),
            (json!(["b"]), json!(["b", "c"]), json!(["*"]), false),
            (json!(["b"]), json!(null), json!(["a", "B"]), true),
            (json!(["b"]), json!(["c"]), json!(["a"]), false),
            (json!(["*"]), json!(["b"]), json!(["a"]), true),
            (json!(["*"]), json!(["b"]), json!(null), false),
            (json!(null), json!(["b"]), json!(["*"]), false),
            (json!(["b"]), json!("b"), json!(["a"]), true),
        ] {
            let found = uncovers(&before, &after, &auto_execute);
            assert_eq!(found, expected, "{before} {after} {auto_execute}");
        }
    }

    #[test]
    fn a_list_without_new_tools_is_a_part() {
        for (list, whole, expected) in [
            (json!(["a"]), json!(["a", "b"]), true),
            (json!([]), json!(["a"]), true),
            (json!(null), json!(["a"]), true),
            (json!(["a"]), json!(["*"]), true),
            (json!(["*"]), json!(["a"]), false),
            (json!(["a", "c"]), json!(["a", "b"]), false),
            (json!(["a"]), json!(null), false),
            (json!("a"), json!(["a"]), false),
        ] {
            assert_eq!(is_part(&list, &whole), expected, "{list} {whole}");
        }
    }
}
