//! The time at which a running gateway takes a change of each key: the one list of it.

/// Time at which a change of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// For requests that begin after the reload.
    Live,
    /// At the next start of the gateway.
    Restart,
}

/// Each key, or the key above all that change together.
const KEYS: [(&str, Effect); 57] = [
    ("$schema", Effect::Live),
    ("server.listen", Effect::Restart),
    ("server.require_virtual_key", Effect::Live),
    ("server.tls", Effect::Restart),
    // Authorization servers of MCP servers know the gateway by it.
    ("server.external_url", Effect::Restart),
    ("server.allowed_hosts", Effect::Live),
    ("server.allowed_origins", Effect::Live),
    ("server.max_body", Effect::Live),
    ("server.max_request_memory", Effect::Live),
    ("server.max_header", Effect::Live),
    ("server.read_timeout", Effect::Live),
    ("server.write_timeout", Effect::Live),
    ("server.idle_timeout", Effect::Live),
    ("server.drain_timeout", Effect::Live),
    ("server.max_connections", Effect::Live),
    ("server.max_connections_per_peer", Effect::Live),
    ("server.startup_wait", Effect::Live),
    ("server.replica_url", Effect::Restart),
    ("server.replica_tls", Effect::Restart),
    ("server.debug_requests", Effect::Live),
    ("server.responses", Effect::Live),
    ("providers", Effect::Live),
    ("mcp.disabled", Effect::Live),
    ("mcp.client_configs", Effect::Live),
    ("mcp.virtual_mcps", Effect::Live),
    // The sandbox has instances for each depth.
    ("mcp.tool_manager_config.max_call_depth", Effect::Restart),
    ("mcp.tool_manager_config", Effect::Live),
    // What was read before the first rule is not known.
    ("mcp.information_flow", Effect::Restart),
    // What is loaded already was decided by it.
    ("plugins", Effect::Restart),
    // Their components are loaded once.
    ("guards", Effect::Restart),
    ("mcp_server.approval", Effect::Live),
    ("mcp_server.approval_rules", Effect::Live),
    ("mcp_server.approval_timeout", Effect::Live),
    ("mcp_server.approval_wait", Effect::Live),
    ("mcp_server.max_sessions", Effect::Live),
    ("mcp_server.max_sessions_per_key", Effect::Live),
    ("mcp_server.max_streams", Effect::Live),
    ("mcp_server.max_streams_per_key", Effect::Live),
    ("mcp_server.session_timeout", Effect::Live),
    ("mcp_server.sse", Effect::Live),
    ("mcp_server.oauth", Effect::Live),
    ("store", Effect::Restart),
    ("store_listen_url", Effect::Restart),
    ("store_key", Effect::Restart),
    ("store_old_keys", Effect::Restart),
    // The thread that writes them keeps the logs open.
    ("records", Effect::Restart),
    // Its threads keep their connections.
    ("telemetry", Effect::Restart),
    ("management.disabled", Effect::Restart),
    ("management.socket", Effect::Restart),
    ("management.oidc.roles", Effect::Live),
    ("management.oidc.session_idle", Effect::Live),
    ("management.oidc.session_max", Effect::Live),
    ("management.oidc", Effect::Restart),
    ("management.operators", Effect::Live),
    ("management.page", Effect::Live),
    ("management.reports", Effect::Live),
    ("governance", Effect::Live),
];

/// Returns when a change of the key with this path takes effect; `None` for a key above others, which has no
/// value of its own. A key that is not in the list waits for a restart.
pub fn effect(path: &str) -> Option<Effect> {
    let listed = KEYS.iter().find(|(key, _)| is_within(path, key));
    match listed {
        Some((_, effect)) => Some(*effect),
        None if KEYS.iter().any(|(key, _)| is_within(key, path)) => None,
        None => Some(Effect::Restart),
    }
}

/// Returns the keys whose changes wait for a restart.
pub fn restart_keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(|(_, effect)| *effect == Effect::Restart).map(|(key, _)| *key)
}

/// Returns whether a key is another one, or below it.
fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_longest_listed_key_decides_and_others_wait_for_a_restart() {
        for (path, expected) in [
            ("server.max_body", Some(Effect::Live)),
            ("server.responses.store", Some(Effect::Live)),
            ("server.tls.client_ca", Some(Effect::Restart)),
            ("mcp.tool_manager_config.max_call_depth", Some(Effect::Restart)),
            ("mcp.tool_manager_config.agent_timeout", Some(Effect::Live)),
            ("providers.openai.keys", Some(Effect::Live)),
            ("store", Some(Effect::Restart)),
            ("store_key.file", Some(Effect::Restart)),
            ("management.oidc.roles[0].role", Some(Effect::Live)),
            ("management.oidc.client_secret", Some(Effect::Restart)),
            ("server", None),
            ("mcp", None),
            ("server.listen_too", Some(Effect::Restart)),
            ("unknown", Some(Effect::Restart)),
        ] {
            assert_eq!(effect(path), expected, "{path}");
        }
    }

    #[test]
    fn every_key_of_the_file_is_listed() {
        let schema = crate::schema();
        let mut missing = Vec::new();
        find_missing(&schema, &schema, "", &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn every_listed_key_is_one_of_the_file() {
        let schema = crate::schema();
        for (key, _) in KEYS {
            let found = key
                .split('.')
                .try_fold(&schema, |part, name| resolved(&schema, part)["properties"].get(name));
            assert!(found.is_some(), "{key}");
        }
    }

    #[test]
    fn the_documented_table_has_the_keys_that_wait_for_a_restart_and_no_others() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/configuration.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let (_, section) = page.split_once("\n## Changes while the gateway runs\n").expect("it");
        let (section, _) = section.split_once("\n## ").expect("the next section");
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        assert_eq!(rows.collect::<Vec<_>>(), restart_keys().collect::<Vec<_>>());
    }

    /// Collects the keys below `path` that neither are listed nor have all keys below them listed.
    fn find_missing(schema: &Value, part: &Value, path: &str, missing: &mut Vec<String>) {
        let properties = resolved(schema, part)["properties"].as_object();
        let Some(properties) = properties else { return missing.push(path.to_owned()) };
        for (name, property) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if !KEYS.iter().any(|(key, _)| is_within(&path, key)) {
                find_missing(schema, property, &path, missing);
            }
        }
    }

    /// Follows a reference into the definitions of the schema.
    fn resolved<'s>(schema: &'s Value, part: &'s Value) -> &'s Value {
        let reference = part["$ref"].as_str().or_else(|| part["allOf"][0]["$ref"].as_str());
        let reference = reference.or_else(|| part["anyOf"][0]["$ref"].as_str());
        reference.and_then(|reference| schema.pointer(reference.strip_prefix('#')?)).unwrap_or(part)
    }
}
