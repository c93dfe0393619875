//! `tool_cache` of a client.

use super::resolved::Resolved;
use airlock_config_file::file;
use airlock_core::tool::{Allowlist, CacheRule};

/// Resolves the rules for results that are kept. `automatic` are the tools that need no approval.
pub(super) fn resolve(client: &file::Client, automatic: &Allowlist) -> Resolved<Vec<CacheRule>> {
    if !client.tool_cache.is_empty() && !client.allowed_extra_headers.is_empty() {
        return Resolved::new(|problems| {
            problems.refuse_whole(
                "belongs to a client without `allowed_extra_headers`: results may depend on the headers of each caller",
            );
            Vec::new()
        });
    }
    if !client.tool_cache.is_empty() && client.auth_type.of_users().is_some() {
        return Resolved::new(|problems| {
            problems.refuse_whole(
                "belongs to a client whose calls are made with the operator's credentials: results depend on the account of each user",
            );
            Vec::new()
        });
    }
    let mut seen = Vec::<Allowlist>::new();
    Resolved::elements(&client.tool_cache, |problems, rule| {
        let tools = problems.accept("tools", Allowlist::parse(&rule.tools))?;
        if tools.is_empty() {
            problems.refuse(
                "tools",
                "names no tool; name those that change nothing, or remove the entry",
            );
        }
        if let Some(name) = tools.beyond(automatic) {
            problems.refuse("tools", format_args!(
                "{name:?} is not in `tools_to_auto_execute`, and the result of a call that needs an approval is not kept"
            ));
        }
        if let Some(name) = seen.iter().find_map(|other| overlap(other, &tools)) {
            problems.refuse("tools", format_args!("{name:?} is named by another entry already"));
        }
        seen.push(tools.clone());
        Some(CacheRule {
            tools,
            ttl: rule.ttl.get().0,
            max_bytes: rule.max_bytes.get().bytes(),
            is_shared: rule.shared,
        })
    })
}

/// Returns a name that both lists allow; `None` if there is none.
fn overlap(one: &Allowlist, other: &Allowlist) -> Option<String> {
    match (one, other) {
        (Allowlist::All, Allowlist::All) => Some("*".to_owned()),
        (Allowlist::Only(names), list) | (list, Allowlist::Only(names)) => {
            names.iter().find(|name| list.allows(name)).map(str::to_owned)
        }
    }
}
