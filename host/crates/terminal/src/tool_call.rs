//! Calls of tools: the clients that they can reach, and their results for people.

use std::collections::BTreeSet;

use crate::output::{self, CommandFailure};
use airlock_config::{Config, Source};
use airlock_core::tool::{CallError, ToolOutput};

/// Returns the client in the full name of a tool.
pub fn client_of(tool: &str) -> Option<&str> {
    tool.split_once('-').map(|(client, _)| client)
}

/// Returns the names of the clients that a call of a client's tool can reach: its own, and those of
/// the tools that plugins on the way were granted.
pub fn reachable<'c>(config: &'c Config, first: &'c str) -> BTreeSet<&'c str> {
    let mut found = BTreeSet::from([first]);
    let mut waiting = vec![first];
    while let Some(name) = waiting.pop() {
        for client in config.clients.iter().filter(|client| client.name.as_str() == name) {
            let Source::Plugin(plugin) = &client.source else { continue };
            waiting.extend(
                plugin.grant.callable().filter_map(client_of).filter(|next| found.insert(next)),
            );
        }
    }
    found
}

/// Prints a result or a failure.
pub fn show(result: &Result<ToolOutput, CallError>) -> anyhow::Result<()> {
    match result {
        Ok(answer) => output::line(&output::for_stdout(&answer.to_text())),
        Err(error) if error.suspension().is_some() => {
            output::waiting(&error.to_string());
            Ok(())
        }
        Err(error) => {
            output::complain(&CommandFailure::from(error));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_client_that_a_call_can_reach_through_slots_and_full_names_takes_part() {
        let clients = json!([
            plugin("a", &json!({"slot": {"find": "b-x"}})),
            plugin("b", &json!({"tools": ["c-y", "a-z"]})),
            plugin("c", &json!({})),
            plugin("d", &json!({"slot": {"find": "a-x"}})),
        ]);
        let text = json!({"mcp": {"client_configs": clients}}).to_string();
        let config = Config::parse(&text, "test", &|_| None).expect("a configuration");
        for (tool, expected) in [("a-t", "abc"), ("c-t", "c"), ("d-t", "abcd")] {
            let found = reachable(&config, client_of(tool).expect("a client"));
            assert_eq!(found.into_iter().collect::<String>(), expected);
        }
        assert_eq!(client_of("executeToolCode"), None);
    }

    fn plugin(name: &str, grants: &Value) -> Value {
        let component = json!({"component": "p.wasm", "grants": grants});
        json!({"name": name, "connection_type": "wasm", "wasm_config": component})
    }
}
