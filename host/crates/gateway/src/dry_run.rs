//! Connects to a server that is not configured, with a gateway of its own that has no other client, and whose store is
//! removed with it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::Gateway;
use airlock_agent::approvals::effects;
use airlock_catalog::ToolSource;
use airlock_config::{Config, Vaults, environment};
use airlock_core::request_memory::{ChargeRefused, RequestCharge};
use airlock_json::text_len;
use airlock_operator_api::{DryRunError, DryRuns, Upstreams as _};
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
/// Maximum tools that are described, of the 2,000 that a client may have: the server chooses how many it has. The
/// response has the number of all.
const MAX_TOOLS: usize = 500;
/// Maximum bytes of their descriptions and schemas, as text, of the 4 MiB that a list may have. The longest are left
/// out first, so that a long tool hides no other one, and all have their names, of at most 512 bytes. Eight times as
/// much is charged for the response.
const MAX_TOOL_BYTES: usize = 1 << 20;
/// Maximum lines of stderr that are shown, the last ones: the server chooses how many it writes. The reason
/// of a failed start is usually among them.
const MAX_LINES: usize = 100;
/// Copies of a text while it is described: with marks for hidden characters, as a tree, and as a part of the response.
const COPIES: usize = 8;

/// Makes gateways for one connection.
pub(super) struct DryGateways {
    /// Path of the configuration file, to whose directory paths are relative.
    file: PathBuf,
    /// Vaults to which the connection may refer.
    vaults: Vaults,
}

impl DryGateways {
    pub(super) fn new(file: Option<&Path>, vaults: &Vaults) -> Self {
        let file = file.map_or_else(|| PathBuf::from("airlock.json"), Path::to_owned);
        Self { file, vaults: vaults.clone() }
    }

    async fn run(
        &self,
        element: Map<String, Value>,
        limit: Duration,
        charge: &RequestCharge,
    ) -> Result<Value, DryRunError> {
        let deadline = Instant::now() + limit;
        let directory =
            tempfile::tempdir().map_err(|error| DryRunError::Element(error.to_string()))?;
        let configuration = configuration(element, &directory.path().join("store.db"));
        let text = configuration.map_err(DryRunError::Element)?.to_string();
        let file = self.file.to_string_lossy();
        let config = Config::parse_with_vaults(&text, &file, &environment, &self.vaults).await;
        let config = config.map_err(|error| DryRunError::Element(with_causes(&error)))?;
        let gateway = Gateway::builder(config).start().await;
        let gateway = gateway.map_err(|error| DryRunError::Element(with_causes(&error)))?;
        gateway.settled(deadline.saturating_duration_since(Instant::now()), |_| true).await;
        let found = describe(&gateway, charge);
        gateway.stop().await;
        Ok(found?)
    }
}

impl DryRuns for DryGateways {
    fn connect<'a>(
        &'a self,
        element: Map<String, Value>,
        limit: Duration,
        charge: &'a RequestCharge,
    ) -> BoxFuture<'a, Result<Value, DryRunError>> {
        Box::pin(self.run(element, limit, charge))
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

/// Describes the only client of a gateway. Fails if there is no room for the description.
fn describe(gateway: &Gateway, charge: &RequestCharge) -> Result<Value, ChargeRefused> {
    let snapshot = gateway.catalog().snapshot();
    let found = snapshot.clients().find(|client| client.is_server());
    let Some(client) = found else {
        return Ok(json!({"state": "failed", "reason": "the server was not taken"}));
    };
    let name = client.name.as_str();
    let lines = gateway.0.parts.upstreams.0.logs(name, None).unwrap_or_default();
    let is_connected = client.state.name() == "connected";
    let mut found = json!({"state": "failed", "stderr": last_lines(&lines, charge)?});
    if is_connected {
        found["state"] = "connected".into();
        found["tools"] = tools(client, charge)?.into();
        found["tool_count"] = client.tools.len().into();
        let status = client.provider().map(|provider| provider.status()).unwrap_or_default();
        grow(charge, text_len(&status))?;
        found["status"] = Value::Object(status);
    } else {
        let reason = client.state.reason().unwrap_or("it does not respond in time");
        grow(charge, reason.len())?;
        found["reason"] = visible(reason).into();
    }
    Ok(found)
}

/// Charges a text that is about to be described.
fn grow(charge: &RequestCharge, bytes: usize) -> Result<(), ChargeRefused> {
    charge.grow(bytes.saturating_mul(COPIES))
}

/// Returns the last lines of stderr, without hidden characters.
fn last_lines(lines: &[String], charge: &RequestCharge) -> Result<Vec<String>, ChargeRefused> {
    let mut shown = Vec::new();
    for line in &lines[lines.len().saturating_sub(MAX_LINES)..] {
        grow(charge, line.len())?;
        shown.push(visible(line));
    }
    Ok(shown)
}

fn tools(client: &ToolSource, charge: &RequestCharge) -> Result<Vec<Value>, ChargeRefused> {
    let listed = client.tools.iter().take(MAX_TOOLS);
    let lengths: Vec<_> = listed
        .clone()
        .map(|tool| tool.description.len() + tool.input_schema.as_str().len())
        .collect();
    let mut tools = Vec::new();
    for (tool, (bytes, is_whole)) in listed.zip(lengths.iter().zip(whole(&lengths))) {
        grow(charge, tool.original.len())?;
        let mut shown = json!({"name": visible(&tool.original), "effects": effects(tool)});
        if is_whole {
            grow(charge, *bytes)?;
            shown["description"] = visible(&tool.description).into();
            shown["input_schema"] = tool.input_schema.to_value().ok().into();
        } else {
            shown["left_out_bytes"] = (*bytes).into();
        }
        tools.push(shown);
    }
    Ok(tools)
}

/// Returns which of the tools whose descriptions and schemas have these lengths are described whole: the shortest ones,
/// and of equal ones the first, that have at most [`MAX_TOOL_BYTES`] together.
fn whole(lengths: &[usize]) -> Vec<bool> {
    let mut shortest_first: Vec<_> = (0..lengths.len()).collect();
    shortest_first.sort_by_key(|tool| lengths[*tool]);
    let mut whole = vec![false; lengths.len()];
    let mut bytes = 0;
    for tool in shortest_first {
        bytes += lengths[tool];
        if bytes > MAX_TOOL_BYTES {
            break;
        }
        whole[tool] = true;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::{
        request_memory::{Memory, REQUEST_BYTES},
        tenant::Tenant,
    };

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
    fn lines_of_stderr_are_bounded_and_charged_before_they_are_described() {
        let memory = Memory::new(10 * REQUEST_BYTES);
        let charge = memory.open(Tenant::ANONYMOUS, 0).expect("there is room");
        let lines: Vec<_> = (0..=MAX_LINES).map(|number| number.to_string()).collect();
        let shown = last_lines(&lines, &charge).expect("there is room");
        assert_eq!((shown.len(), shown[0].as_str()), (MAX_LINES, "1"));
        let long = ["x".repeat(10 * REQUEST_BYTES)];
        assert!(last_lines(&long, &charge).is_err());
    }

    #[test]
    fn long_tools_are_left_out_before_short_ones_wherever_they_are() {
        for (lengths, expected) in [
            (vec![], vec![]),
            (vec![MAX_TOOL_BYTES], vec![true]),
            (vec![MAX_TOOL_BYTES, 1, 0], vec![false, true, true]),
            (vec![MAX_TOOL_BYTES + 1, 7], vec![false, true]),
            (vec![MAX_TOOL_BYTES / 2; 3], vec![true, true, false]),
        ] {
            assert_eq!(whole(&lengths), expected, "{lengths:?}");
        }
    }

    #[test]
    fn a_plugin_is_refused() {
        let element = members(json!({"name": "p", "connection_type": "wasm"}));
        assert!(configuration(element, Path::new("s")).is_err());
    }
}
