//! Connects to a server that is not configured, with a gateway of its own that has no other client, and whose store is
//! removed with it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::Gateway;
use airlock_agent::approvals::effects;
use airlock_catalog::ToolSource;
use airlock_config::{Config, environment};
use airlock_server::{DryRuns, Upstreams as _};
use airlock_strings::{visible, with_causes};

/// Members that are about callers and calls, and not about the connection. Some name other elements.
const OF_CALLS: [&str; 12] = [
    "code_mode_binding_level",
    "disabled",
    "is_code_mode_client",
    "rate_limit",
    "teams",
    "tool_cache",
    "tool_fallbacks",
    "tool_limits",
    "tool_pricing",
    "tools_to_approve_twice",
    "tools_to_auto_execute",
    "virtual_keys",
];
/// Maximum tools that are described.
const MAX_TOOLS: usize = 500;
/// Maximum bytes of their descriptions and schemas, as text.
const MAX_TOOL_BYTES: usize = 1 << 20;
/// Maximum lines of stderr that are shown.
const MAX_LINES: usize = 100;

/// Makes gateways for one connection.
pub(super) struct DryGateways {
    /// Path of the configuration file, to whose directory paths are relative.
    file: PathBuf,
}

impl DryGateways {
    pub(super) fn new(file: Option<&Path>) -> Self {
        Self { file: file.map_or_else(|| PathBuf::from("airlock.json"), Path::to_owned) }
    }

    async fn run(&self, element: Map<String, Value>, limit: Duration) -> Result<Value, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let text = configuration(element, &directory.path().join("store.db"))?.to_string();
        let file = self.file.to_string_lossy();
        let config = Config::parse(&text, &file, &environment);
        let config = config.map_err(|error| with_causes(&error))?;
        let gateway = Gateway::builder(config).start().await;
        let gateway = gateway.map_err(|error| with_causes(&error))?;
        gateway.settled(limit, |_| true).await;
        let found = describe(&gateway);
        gateway.stop().await;
        Ok(found)
    }
}

impl DryRuns for DryGateways {
    fn connect(
        &self,
        element: Map<String, Value>,
        limit: Duration,
    ) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(self.run(element, limit))
    }
}

/// Returns a configuration that has this client alone. Fails if it is a plugin, which is uploaded instead.
fn configuration(mut element: Map<String, Value>, store: &Path) -> Result<Value, String> {
    if element.get("connection_type").is_some_and(|kind| kind == "wasm") {
        return Err(
            "`connection_type` is \"wasm\"; upload a plugin with `POST /api/plugins`".into()
        );
    }
    element.retain(|member, _| !OF_CALLS.contains(&member.as_str()));
    element.insert("tools_to_execute".to_owned(), json!(["*"]));
    Ok(json!({
        "store": store,
        "management": {"disabled": true},
        // No request is under way when it stops.
        "server": {"drain_timeout": "1s"},
        "mcp": {"client_configs": [element]},
    }))
}

/// Describes the only client of a gateway.
fn describe(gateway: &Gateway) -> Value {
    let snapshot = gateway.catalog().snapshot();
    let found = snapshot.clients().find(|client| client.is_server());
    let Some(client) = found else {
        return json!({"state": "failed", "reason": "the server was not taken"});
    };
    let name = client.name.as_str();
    let lines = gateway.0.parts.upstreams.0.logs(name, None).unwrap_or_default();
    let first = lines.len().saturating_sub(MAX_LINES);
    let lines: Vec<_> = lines[first..].iter().map(|line| visible(line)).collect();
    let is_connected = client.state.name() == "connected";
    let mut found = json!({"state": "failed", "stderr": lines});
    if is_connected {
        found["state"] = "connected".into();
        found["tools"] = tools(client);
        found["tool_count"] = client.tools.len().into();
        let status = client.provider().map(|provider| provider.status());
        found["status"] = Value::Object(status.unwrap_or_default());
    } else {
        let reason = client.state.reason().unwrap_or("it does not respond in time");
        found["reason"] = visible(reason).into();
    }
    found
}

fn tools(client: &ToolSource) -> Value {
    let mut bytes = 0;
    let fitting = client.tools.iter().take(MAX_TOOLS).take_while(|tool| {
        bytes += tool.description.len() + tool.input_schema.as_str().len();
        bytes <= MAX_TOOL_BYTES
    });
    let tools = fitting.map(|tool| {
        json!({
            "name": visible(&tool.original),
            "description": visible(&tool.description),
            "effects": effects(tool),
            "input_schema": tool.input_schema.to_value().ok(),
        })
    });
    tools.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(element: Value) -> Map<String, Value> {
        let Value::Object(members) = element else { panic!("an object") };
        members
    }

    #[test]
    fn a_client_is_alone_and_names_no_other_element() {
        let element = json!({
            "name": "fs", "connection_type": "stdio", "stdio_config": {"command": "x"},
            "virtual_keys": ["ann"], "tool_fallbacks": {"a": "b-c"}, "tools_to_execute": ["a"],
            "disabled": true,
        });
        let configuration = configuration(members(element), Path::new("/tmp/s.db")).expect("valid");
        let expected = json!({
            "name": "fs", "connection_type": "stdio", "stdio_config": {"command": "x"},
            "tools_to_execute": ["*"],
        });
        assert_eq!(configuration["mcp"]["client_configs"], json!([expected]));
        assert_eq!(configuration["store"], "/tmp/s.db");
        Config::parse(&configuration.to_string(), "airlock.json", &|_| None).expect("it is valid");
    }

    #[test]
    fn a_plugin_is_refused() {
        let element = members(json!({"name": "p", "connection_type": "wasm"}));
        assert!(configuration(element, Path::new("s")).is_err());
    }
}
