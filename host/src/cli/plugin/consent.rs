//! `--regrant` and `--change-id`: the operator's consent to what a changed plugin would be granted.

use anyhow::bail;

use super::super::session::ConfigFile;
use crate::{
    plugin::{Consent, Drift, Manifest},
    text::visible_line,
};

/// Consent to a changed plugin, as options.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ConsentOptions {
    /// Grant a request again that is granted and has become wider: `http.api`, `secret.token`; or,
    /// as `effects.TOOL`, the wider effects of a tool.
    #[arg(long, value_name = "REQUEST")]
    pub(super) regrant: Vec<String>,
    /// Let a plugin with another id take the name, and with it all grants.
    #[arg(long)]
    pub(super) change_id: bool,
}

impl ConsentOptions {
    /// Fails if `--regrant` names a request that the plugin does not have.
    pub(super) fn check(&self, manifest: Option<&Manifest>) -> anyhow::Result<()> {
        let names = regrantable(manifest);
        // A directory of any name may be granted under `files.*`.
        let has_any = names.iter().any(|name| name == "files.*");
        let is_known =
            |request: &String| names.contains(request) || has_any && request.starts_with("files.");
        let Some(unknown) = self.regrant.iter().find(|request| !is_known(request)) else {
            return Ok(());
        };
        if names.is_empty() {
            bail!("--regrant {unknown}: the plugin requests nothing");
        }
        let names = visible_line(&names.join(", "));
        bail!("--regrant {unknown}: the plugin does not request it; its requests are {names}")
    }

    pub(super) fn consent(&self) -> Consent {
        Consent { regrant: self.regrant.iter().cloned().collect(), change_id: self.change_id }
    }
}

/// Returns the names that `--regrant` may have.
fn regrantable(manifest: Option<&Manifest>) -> Vec<String> {
    let Some(manifest) = manifest else { return Vec::new() };
    let requests = manifest.request.all().map(|request| request.to_string());
    let with_effects = manifest.tools.iter().filter(|tool| !tool.effects.is_empty());
    requests.chain(with_effects.map(|tool| format!("effects.{}", tool.name))).collect()
}

/// Returns the command that accepts a plugin with all of its differences.
pub(in crate::cli) fn accept_command(drift: &Drift, config: &ConfigFile) -> String {
    let (client, consent) = (&drift.client, Consent::for_all_of(drift).options());
    format!("airlock plugin accept {client}{consent}{}", config.option())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugin::MANIFEST_SCHEMA;

    #[test]
    fn a_name_that_the_plugin_does_not_request_is_refused_with_its_requests() {
        let checked = |request: &str, regrant: &str| {
            let tools = json!([{"name": "sync", "effects": ["read_kv"]}, {"name": "wait"}]);
            let manifest = json!({
                "schema": MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1", "tool": tools,
                "request": {
                    "kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}},
                    "files": {request: {"access": "read_only", "reason": "r"}},
                },
            });
            let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
            let options = ConsentOptions { regrant: vec![regrant.to_owned()], change_id: false };
            options.check(Some(&manifest)).map_err(|error| error.to_string())
        };
        for known in ["kv.notes", "files.data", "effects.sync"] {
            assert_eq!(checked("data", known), Ok(()), "{known}");
        }
        for unknown in ["kv.cache", "kv", "files.other", "effects.wait", ""] {
            assert_eq!(
                checked("data", unknown),
                Err(format!(
                    "--regrant {unknown}: the plugin does not request it; its requests are kv.notes, files.data, effects.sync"
                ))
            );
        }
        // Directories of any name are granted under this request.
        assert_eq!(checked("*", "files.other"), Ok(()));
        let options = ConsentOptions { regrant: vec!["kv.notes".to_owned()], change_id: false };
        let refused = options.check(None).expect_err("a component without a manifest");
        assert_eq!(refused.to_string(), "--regrant kv.notes: the plugin requests nothing");
    }
}
