//! Guards: components that decide about the calls of tools, and have none. A build and the checks recognise one by
//! its exports.

use std::{path::Path, sync::Arc};

use crate::{Check, CheckOutcome, Finding, component};
use airlock_compile::CompileHook;
use airlock_plugin::{Manifest, Metadata, Requests};
use airlock_strings::with_causes;

const LOADED: &str = "it is a guard that the gateway can load, and imports nothing";
const REQUESTS: &str = "its manifest requests nothing";

/// Returns the tables of a manifest that have no meaning for a guard.
pub(crate) fn meaningless(manifest: &Manifest) -> Vec<&'static str> {
    let tables = [
        ("request", manifest.request != Requests::default()),
        ("tool", !manifest.tools.is_empty()),
        ("config", manifest.config_schema().is_some()),
    ];
    tables.into_iter().filter(|(_, is_there)| *is_there).map(|(table, _)| table).collect()
}

/// Runs every check on a guard except that of its embedded manifest.
pub(crate) async fn checks(
    file: &Path,
    wasm: &Arc<[u8]>,
    metadata: &Metadata,
    on_compile: &CompileHook,
) -> Vec<Check> {
    let loaded = match component::load_guard(file, wasm, on_compile).await {
        Ok(()) => Check::pass(LOADED),
        Err(error) => Check::fail(LOADED, with_causes(&error)),
    };
    let found = metadata.manifest.iter().flat_map(meaningless).map(|table| {
        Finding::from("a guard can be granted nothing").of_key(table).write("no such table")
    });
    vec![loaded, Check::unless(REQUESTS, CheckOutcome::Fail, found)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest_with;

    #[test]
    fn the_manifest_of_a_guard_has_a_name_and_no_rights() {
        assert!(meaningless(&manifest_with(&json!({}))).is_empty());
        let manifest = manifest_with(&json!({
            "request": {"kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}}},
            "tool": [{"name": "t"}],
            "config": {"schema": {"type": "object"}},
        }));
        assert_eq!(meaningless(&manifest), ["request", "tool", "config"]);
        let limits = manifest_with(&json!({"request": {"limits": {"memory": "1MiB"}}}));
        assert_eq!(meaningless(&limits), ["request"]);
    }
}
