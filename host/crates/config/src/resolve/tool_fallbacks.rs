//! `tool_fallbacks` of the clients, which name tools of each other.

use super::resolved::Resolved;
use airlock_config_file::{file, key_path::KeyPath};
use airlock_core::tool::Allowlist;

/// Checks that each fallback can take a call: that it is a tool of another client that needs no approval, that
/// is seen by the same callers, and that has no fallback itself.
pub(super) fn check(clients: &[file::Client]) -> Resolved<()> {
    Resolved::new(|problems| {
        for (index, client) in clients.iter().enumerate() {
            let key = KeyPath::default().element(index).member("tool_fallbacks");
            for (tool, fallback) in &client.tool_fallbacks {
                if let Err(reason) = check_one(client, tool, fallback, clients) {
                    problems.refuse(key.member(tool), reason);
                }
            }
        }
    })
}

fn check_one(
    client: &file::Client,
    tool: &str,
    fallback: &str,
    clients: &[file::Client],
) -> Result<(), String> {
    if !allows(&client.tools_to_execute, tool) {
        return Err(format!("{tool:?} is not in `tools_to_execute`, so it is never called"));
    }
    let Some((name, other_tool)) = fallback.split_once('-') else {
        return Err(format!(
            "expected the full name of a tool of another client, such as \"search-web\", found {fallback:?}"
        ));
    };
    if name == client.name {
        return Err(format!("{fallback:?} is a tool of the same client, which is away with it"));
    }
    let Some(other) = clients.iter().find(|other| other.name == name) else {
        return Err(format!("there is no client {name:?}"));
    };
    if other.disabled {
        return Err(format!(
            "client {name:?} is disabled, so its tools take no calls; enable it, or name a tool of another client"
        ));
    }
    let mut of_other = other.tool_fallbacks.keys();
    if of_other.any(|own| own.to_lowercase() == other_tool.to_lowercase()) {
        return Err(format!("{fallback:?} has a fallback itself, and a call falls back once"));
    }
    if !allows(&other.tools_to_auto_execute, other_tool) {
        return Err(format!(
            "{other_tool:?} is not in `tools_to_auto_execute` of {name:?}: a fallback must need no approval"
        ));
    }
    if is_trusted(client) && !is_trusted(other) {
        return Err(format!(
            "{name:?} is not `trusted`, as this client is: its results would not be marked as external"
        ));
    }
    if client.code_mode != other.code_mode {
        return Err(format!(
            "either this client or {name:?} is in code mode, so that no caller sees both"
        ));
    }
    Ok(())
}

/// Returns whether a list allows a tool. An invalid list is refused where it is read.
fn allows(list: &[String], tool: &str) -> bool {
    Allowlist::parse(list).is_ok_and(|list| list.allows(tool))
}

fn is_trusted(client: &file::Client) -> bool {
    client.connection_type.is_plugin() || matches!(client.trust, Some(file::Trust::Trusted))
}
