//! `GET` and `PUT /api/config`: the configuration of the gateway, in Bifrost's form. Only the switch of all
//! tools is changed here. A member that is sent as it is shown stays; any other one is refused with the
//! place where it is changed.

use serde_json::{Map, Value, json};

use crate::{
    body,
    change::{Content, State, Wanted},
    kind::LISTED,
    refusal::{forbidden, invalid},
    service::Service,
};
use airlock_config::{Config, Effect, effect, redacted};
use airlock_core::operator::{Operator, Right};
use airlock_server::ManagementRefusal;
use airlock_store::entries::EntryKind;

/// Key of the switch of all tools.
const SWITCH: &str = "mcp.disabled";
/// Members of Bifrost's `client_config`, and the keys of the configuration file that have their meaning.
const CLIENT_CONFIG: [(&str, &str); 5] = [
    ("client_config.mcp_agent_depth", "mcp.tool_manager_config.max_agent_depth"),
    ("client_config.mcp_tool_execution_timeout", "mcp.tool_manager_config.tool_execution_timeout"),
    (
        "client_config.mcp_code_mode_binding_level",
        "mcp.tool_manager_config.code_mode_binding_level",
    ),
    (
        "client_config.mcp_disable_auto_tool_inject",
        "mcp.tool_manager_config.disable_auto_tool_inject",
    ),
    ("client_config.enforce_auth_on_inference", "server.require_virtual_key"),
];
/// Keys of elements, which have paths of their own.
const ELEMENTS: [(&str, &str); 3] = [
    ("mcp.client_configs", "/api/mcp/client"),
    ("mcp.virtual_mcps", "/api/mcp/virtual-mcps"),
    ("governance", "/api/governance/…"),
];

/// Settings of a gateway that are in force.
#[derive(Debug, Clone)]
pub struct RunningSettings {
    client_config: Value,
    tool_manager: Value,
}

impl RunningSettings {
    /// Takes them from the configuration that is in force.
    pub fn new(config: &Config) -> Self {
        let Config { agent, budget, server, .. } = config;
        let tool_manager = config.tool_manager();
        let client_config = json!({
            "mcp_agent_depth": agent.max_depth,
            // In seconds.
            "mcp_tool_execution_timeout": budget.deadline.as_secs(),
            "mcp_code_mode_binding_level": tool_manager["code_mode_binding_level"],
            "mcp_disable_auto_tool_inject": agent.disable_auto_tool_inject,
            "enforce_auth_on_inference": server.require_virtual_key,
        });
        Self { client_config, tool_manager }
    }
}

impl Service {
    /// Shows the configuration as it has effect, without secrets.
    pub(crate) async fn show_config(&self) -> Result<Value, ManagementRefusal> {
        let state = self.state().await?;
        Ok(self.document(&state))
    }

    /// Changes the switch of all tools.
    pub(crate) async fn update_config(
        &self,
        actor: &Operator,
        body: Option<Value>,
    ) -> Result<Value, ManagementRefusal> {
        let sent = Value::Object(body::members(body)?);
        let state = self.state().await?;
        let switch = wanted_switch(&self.document(&state), &sent)?;
        if let Some(is_off) = switch {
            if !is_off && !actor.role.has(Right::Administer) {
                return Err(forbidden(
                    "every operator with the role \"operator\" may switch the tools off, and only an administrator on again",
                ));
            }
            let switching = self.change(actor, |_| {
                let content = Content::Element(is_off.into());
                let name = SWITCH.to_owned();
                Ok(Wanted { action: "config.update", kind: EntryKind::Setting, name, content })
            });
            switching.await?;
        }
        let mut shown = self.show_config().await?;
        shown["status"] = "success".into();
        shown["message"] = "configuration updated successfully".into();
        Ok(shown)
    }

    fn document(&self, state: &State) -> Value {
        let running = self.running.load();
        let RunningSettings { client_config, tool_manager } = &**running;
        let mut shown = json!({
            "client_config": client_config,
            "mcp": {
                "disabled": state.merged.config.tools_off,
                "client_configs": elements(state, EntryKind::Client),
                "tool_manager_config": tool_manager,
            },
            "governance": {"virtual_keys": elements(state, EntryKind::VirtualKey)},
            "is_db_connected": true,
            "is_logs_connected": false,
            "is_cache_connected": false,
        });
        for listed in &LISTED {
            let [area, _] = listed.path;
            shown[area][listed.many] = elements(state, listed.kind);
        }
        shown
    }
}

/// Returns the elements of a kind, without secrets.
fn elements(state: &State, kind: EntryKind) -> Value {
    let elements = state.elements(kind).filter_map(|element| element.value.as_ref());
    elements.map(|value| redacted(kind, value)).collect()
}

/// Returns the value that a request sets the switch to; `None` if it changes nothing. Fails if it changes
/// another member.
fn wanted_switch(shown: &Value, sent: &Value) -> Result<Option<bool>, ManagementRefusal> {
    let mut wanted = None;
    let mut members = vec![(String::new(), shown, sent)];
    while let Some((path, shown, sent)) = members.pop() {
        if sent == shown {
            continue;
        }
        match (sent, shown) {
            (Value::Object(sent), Value::Object(shown)) => {
                members.extend(inner(&path, shown, sent));
            }
            (Value::Bool(is_off), _) if path == SWITCH => wanted = Some(*is_off),
            _ => return Err(invalid(instruction(&path, shown))),
        }
    }
    Ok(wanted)
}

/// Returns the members of an object that a request has, with what is shown of each.
fn inner<'v>(
    path: &str,
    shown: &'v Map<String, Value>,
    sent: &'v Map<String, Value>,
) -> Vec<(String, &'v Value, &'v Value)> {
    let members = sent.iter().map(|(name, value)| {
        let separator = if path.is_empty() { "" } else { "." };
        let shown = shown.get(name).unwrap_or(&Value::Null);
        (format!("{path}{separator}{name}"), shown, value)
    });
    members.collect()
}

/// Tells where a member is changed.
fn instruction(path: &str, shown: &Value) -> String {
    if path == SWITCH {
        return format!("`{SWITCH}` must be true or false");
    }
    let of_elements = ELEMENTS.iter().find(|(key, _)| path.starts_with(key));
    if let Some((_, way)) = of_elements {
        return format!("`{path}` is changed at {way}, one element at a time");
    }
    if shown.is_null() {
        let path = airlock_strings::cut(path.to_owned(), 128);
        return format!(
            "`{path}` is not supported; GET /api/config has the members, and `{SWITCH}` is the one that is changed here"
        );
    }
    let in_file = CLIENT_CONFIG.iter().find(|(own, _)| *own == path);
    let key = in_file.map_or(path, |(_, key)| key);
    if path.starts_with("is_") {
        return format!("`{path}` is only shown; leave it out");
    }
    if effect(key) == Some(Effect::Restart) {
        return format!(
            "`{path}` is taken only when the gateway is restarted: set `{key}` in the configuration file, and restart the gateway"
        );
    }
    format!(
        "`{path}` is not changed here: set `{key}` in the configuration file, which is taken while the gateway runs"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_switch_is_changed_and_what_is_sent_as_it_is_shown_stays() {
        let shown = json!({
            "client_config": {"mcp_agent_depth": 10},
            "mcp": {
                "disabled": false,
                "client_configs": [],
                "tool_manager_config": {"approval": "wait", "max_call_depth": 8},
            },
            "is_db_connected": true,
        });
        assert_eq!(wanted_switch(&shown, &shown), Ok(None));
        let mut sent = shown.clone();
        sent["framework_config"] = Value::Null;
        sent["mcp"]["disabled"] = json!(true);
        assert_eq!(wanted_switch(&shown, &sent), Ok(Some(true)));
        for (sent, words) in [
            (
                json!({"client_config": {"mcp_agent_depth": 3}}),
                "`mcp.tool_manager_config.max_agent_depth`",
            ),
            (json!({"client_config": {"enable_logging": true}}), "is not supported"),
            (
                json!({"mcp": {"tool_manager_config": {"approval": "omit"}}}),
                "taken while the gateway runs",
            ),
            (json!({"mcp": {"tool_manager_config": {"max_call_depth": 3}}}), "restarted"),
            (json!({"mcp": {"disabled": "yes"}}), "must be true or false"),
            (json!({"mcp": {"disabled": null}}), "must be true or false"),
            (json!({"mcp": {"client_configs": [{}]}}), "at /api/mcp/client"),
            (json!({"mcp": 7}), "taken while the gateway runs"),
            (json!({"is_db_connected": false}), "only shown"),
        ] {
            let refused = wanted_switch(&shown, &sent).expect_err("refused");
            assert!(refused.message.contains(words), "{sent}: {}", refused.message);
        }
    }
}
