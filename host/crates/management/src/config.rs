//! `GET` and `PUT /api/config`: the configuration of the gateway, in Bifrost's form. The switch of all tools and
//! some settings of tool calls are changed here ([`SETTINGS`] has the list). A member that is sent as it is shown
//! stays; any other one is refused with the place where it is changed.

mod running;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub use self::running::RunningSettings;
use crate::{
    body,
    change::{ChangeContent, ConfigState, RequestedChange},
    kind::LISTED,
    refusal::{Result, forbidden, invalid},
    service::Service,
};
use airlock_config::{Effect, SETTINGS, check_setting, effect, redacted};
use airlock_core::operator::{Operator, Right};
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

impl Service {
    /// Shows the configuration as it has effect, without secrets.
    pub(crate) async fn show_config(&self) -> Result<Value> {
        let running = self.running.load_full();
        self.shown(move |state| document(&running, state)).await
    }

    /// Changes the settings that are sent with another value than is shown. Each is a change of its own in the
    /// record; nothing is changed unless all values are valid.
    pub(crate) async fn update_config(
        &self,
        actor: &Operator,
        body: Option<Value>,
    ) -> Result<Value> {
        let sent = Value::Object(body::members(body)?);
        let wanted = wanted_settings(&self.show_config().await?, &sent)?;
        let switches_off = wanted.keys().eq([&SWITCH]) && wanted[SWITCH] == true;
        if !wanted.is_empty() && !switches_off && !actor.role.has(Right::Administer) {
            return Err(forbidden(
                "every operator with the role \"operator\" may switch the tools off; only an administrator switches them on again, and changes other settings",
            ));
        }
        for (key, value) in &wanted {
            let changing = self.change(actor, |_| {
                let content = ChangeContent::Element(value.clone());
                let name = (*key).to_owned();
                Ok(RequestedChange {
                    action: "config.update",
                    kind: EntryKind::Setting,
                    name,
                    content,
                })
            });
            changing.await?;
        }
        let mut shown = self.show_config().await?;
        shown["status"] = "success".into();
        shown["message"] = "configuration updated successfully".into();
        Ok(shown)
    }
}

/// Returns the settings in force, and the elements without secrets.
fn document(running: &RunningSettings, state: &ConfigState) -> Value {
    let RunningSettings { client_config, tool_manager } = running;
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

/// Returns the elements of a kind, without secrets.
fn elements(state: &ConfigState, kind: EntryKind) -> Value {
    let elements = state.elements(kind).filter_map(|element| element.value.as_ref());
    elements.map(|value| redacted(kind, value)).collect()
}

/// Returns the settings that a request changes, with their values. Fails if a value is not valid, or if the
/// request changes another member.
fn wanted_settings(shown: &Value, sent: &Value) -> Result<BTreeMap<&'static str, Value>> {
    let mut wanted = BTreeMap::new();
    let mut members = vec![(String::new(), shown, sent)];
    while let Some((path, shown, sent)) = members.pop() {
        if sent == shown {
            continue;
        }
        if let (Value::Object(sent), Value::Object(shown)) = (sent, shown) {
            members.extend(inner(&path, shown, sent));
            continue;
        }
        let key = setting(&path).ok_or_else(|| invalid(instruction(&path, shown)))?;
        check_setting(key, sent).map_err(|problems| {
            let problems = problems.iter().map(ToString::to_string);
            invalid(problems.collect::<Vec<_>>().join("; "))
        })?;
        if wanted.insert(key, sent.clone()).is_some_and(|other| other != *sent) {
            return Err(invalid(format!("`{key}` is sent twice, with different values")));
        }
    }
    Ok(wanted)
}

/// Returns the key of the setting that a member is; `None` if it is not changed here.
fn setting(path: &str) -> Option<&'static str> {
    let key = key_in_file(path);
    SETTINGS.into_iter().find(|setting| *setting == key)
}

/// Returns the key of the configuration file with the meaning of a member.
fn key_in_file(path: &str) -> &str {
    let of_client = CLIENT_CONFIG.iter().find(|(own, _)| *own == path);
    of_client.map_or(path, |(_, key)| key)
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

/// Returns the text that names the place at which a member is changed.
fn instruction(path: &str, shown: &Value) -> String {
    let of_elements = ELEMENTS.iter().find(|(key, _)| path.starts_with(key));
    if let Some((_, way)) = of_elements {
        return format!("`{path}` is changed at {way}, one element at a time");
    }
    if shown.is_null() {
        let path = airlock_strings::cut(path.to_owned(), 128);
        return format!(
            "`{path}` is not supported; GET /api/config has the members, and these are changed here: {}",
            SETTINGS.join(", ")
        );
    }
    let key = key_in_file(path);
    if path.starts_with("is_") {
        return format!("`{path}` is only shown; leave it out");
    }
    let named = if key == path { "it".to_owned() } else { format!("`{key}`") };
    if effect(key) == Some(Effect::Restart) {
        return format!(
            "`{path}` is not changed while the gateway runs: set {named} in the configuration file, and restart the gateway"
        );
    }
    format!(
        "`{path}` is not changed here: set {named} in the configuration file, which is taken while the gateway runs"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_settings_are_changed_and_what_is_sent_as_it_is_shown_stays() {
        let shown = json!({
            "client_config": {"mcp_agent_depth": 10, "enforce_auth_on_inference": true},
            "mcp": {
                "disabled": false,
                "client_configs": [],
                "tool_manager_config": {"approval": "wait", "max_call_depth": 8, "max_agent_depth": 10},
            },
            "is_db_connected": true,
        });
        assert_eq!(wanted_settings(&shown, &shown), Ok(BTreeMap::new()));
        let mut sent = shown.clone();
        sent["framework_config"] = Value::Null;
        sent["mcp"]["disabled"] = json!(true);
        assert_eq!(wanted_settings(&shown, &sent), Ok([(SWITCH, json!(true))].into()));
        sent["client_config"]["mcp_agent_depth"] = json!(3);
        let depth = "mcp.tool_manager_config.max_agent_depth";
        let both = [(SWITCH, json!(true)), (depth, json!(3))].into();
        assert_eq!(wanted_settings(&shown, &sent), Ok(both));
        sent["mcp"]["tool_manager_config"]["max_agent_depth"] = json!(4);
        let twice = wanted_settings(&shown, &sent).expect_err("the two differ");
        assert!(twice.message.contains("sent twice"), "{}", twice.message);
        let restart = json!({"mcp": {"tool_manager_config": {"max_call_depth": 3}}});
        let refused = wanted_settings(&shown, &restart).expect_err("it waits for a restart");
        for word in ["restart", "max_call_depth"] {
            assert_eq!(refused.message.matches(word).count(), 1, "{}", refused.message);
        }
        for (sent, words) in [
            (
                json!({"client_config": {"enforce_auth_on_inference": false}}),
                "`server.require_virtual_key`",
            ),
            (
                json!({"client_config": {"mcp_agent_depth": 1_000}}),
                "max_agent_depth: must be from 1 to 100",
            ),
            (json!({"client_config": {"mcp_agent_depth": null}}), "found null"),
            (json!({"client_config": {"enable_logging": true}}), "is not supported"),
            (
                json!({"mcp": {"tool_manager_config": {"approval": "omit"}}}),
                "taken while the gateway runs",
            ),
            (json!({"mcp": {"disabled": "yes"}}), "expected true or false"),
            (json!({"mcp": {"disabled": null}}), "found null"),
            (json!({"mcp": {"client_configs": [{}]}}), "at /api/mcp/client"),
            (json!({"mcp": 7}), "taken while the gateway runs"),
            (json!({"is_db_connected": false}), "only shown"),
        ] {
            let refused = wanted_settings(&shown, &sent).expect_err("refused");
            assert!(refused.message.contains(words), "{sent}: {}", refused.message);
        }
    }
}
