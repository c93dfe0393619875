//! `--regrant` and `--change-id`: the operator's consent to what a changed plugin would be granted.

use super::super::session::ConfigFile;
use airlock_plugin::{Consent, Drift, Grant, Manifest};
use airlock_strings::visible_line;

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
    /// Describes each `--regrant` that names neither a request of the plugin nor a directory that is
    /// granted under a request for any directory.
    pub(super) fn unknown(&self, manifest: Option<&Manifest>, grant: &Grant) -> Vec<String> {
        let mut names = regrantable(manifest);
        if names.iter().any(|name| name == "files.*") {
            let granted = grant.files.keys().map(|name| format!("files.{name}"));
            let unnamed: Vec<_> = granted.filter(|name| !names.contains(name)).collect();
            names.extend(unnamed);
        }
        let known = match names.as_slice() {
            [] => "the plugin requests nothing".to_owned(),
            names => {
                format!("the plugin does not request it; its requests are {}", names.join(", "))
            }
        };
        let unknown = self.regrant.iter().filter(|request| !names.contains(request));
        unknown.map(|request| visible_line(&format!("--regrant {request}: {known}"))).collect()
    }

    /// Returns notes about the options without effect: requests that are not wider than accepted, and
    /// an id that is the accepted one.
    pub(super) fn unneeded(&self, drift: Option<&Drift>) -> Vec<String> {
        let narrow = self.regrant.iter().filter(|request| {
            drift.is_none_or(|drift| drift.widened().all(|widening| widening.request != **request))
        });
        let mut notes: Vec<_> = narrow
            .map(|request| {
                visible_line(&format!(
                    "--regrant {request} has no effect: nothing that is granted by this name has become wider"
                ))
            })
            .collect();
        if self.change_id && !drift.is_some_and(Drift::has_other_id) {
            notes.push("--change-id has no effect: the id is the accepted one".to_owned());
        }
        notes
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
pub(crate) fn accept_command(drift: &Drift, config: &ConfigFile) -> String {
    let client = &drift.client;
    let consent = Consent::for_all_of(drift).options();
    format!("airlock plugin accept {client}{consent}{}", config.option())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_plugin::{Change, FilesGrant, MANIFEST_SCHEMA, PartialQuota, Widening};
    use airlock_sandbox::Access;

    #[test]
    fn a_name_that_the_plugin_does_not_request_is_refused_with_its_requests() {
        for known in ["kv.notes", "files.data", "effects.sync"] {
            assert!(checked("data", known).is_empty(), "{known}");
        }
        for unknown in ["kv.cache", "kv", "files.other", "effects.wait", ""] {
            assert_eq!(
                checked("data", unknown),
                [format!(
                    "--regrant {unknown}: the plugin does not request it; its requests are kv.notes, files.data, effects.sync"
                )]
            );
        }
        // Directories that are granted under this request have names of the operator's choice.
        assert!(checked("*", "files.granted").is_empty() && checked("*", "files.*").is_empty());
        assert_eq!(
            checked("*", "files.zzz"),
            [
                "--regrant files.zzz: the plugin does not request it; its requests are kv.notes, files.*, effects.sync, files.granted"
            ]
        );
        let options = ConsentOptions { regrant: vec!["kv.notes".to_owned()], change_id: false };
        let refused = options.unknown(None, &Grant::default());
        assert_eq!(refused, ["--regrant kv.notes: the plugin requests nothing"]);
    }

    fn checked(request: &str, regrant: &str) -> Vec<String> {
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
        let directory = FilesGrant {
            path: "/d".into(),
            access: Access::ReadOnly,
            quota: PartialQuota::default(),
        };
        let files = [("granted".to_owned(), directory)].into();
        let grant = Grant { files, ..Grant::default() };
        options.unknown(Some(&manifest), &grant)
    }

    #[test]
    fn an_option_that_consents_to_nothing_is_noted() {
        let widening = Widening {
            request: "kv.notes".to_owned(),
            line: "kv.notes 1MiB".to_owned(),
            is_new: true,
            secrets: Vec::new(),
        };
        let changes = vec![Change::Widened(widening)];
        let drift = Drift { client: "p".to_owned(), changes };
        let regrant = vec!["kv.notes".to_owned(), "http.api".to_owned()];
        let options = ConsentOptions { regrant, change_id: true };
        assert_eq!(
            options.unneeded(Some(&drift)),
            [
                "--regrant http.api has no effect: nothing that is granted by this name has become wider",
                "--change-id has no effect: the id is the accepted one"
            ]
        );
        assert_eq!(options.unneeded(None).len(), 3);
        assert!(ConsentOptions::default().unneeded(Some(&drift)).is_empty());
    }
}
