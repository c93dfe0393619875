//! The operator's consent to rights that a changed plugin would otherwise get by its existing grants.

use std::collections::BTreeSet;

use super::{Change, Drift, Grant, Manifest};
use airlock_strings::visible_line;

/// Consent to a changed plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consent {
    /// Granted requests, such as `http.api`, that may be wider than the accepted ones.
    pub regrant: BTreeSet<String>,
    /// True if the plugin may have another id, or another publisher, than the accepted one, or an earlier version of
    /// the same publisher.
    pub change_id: bool,
}

impl Consent {
    /// Returns the consent that a plugin needs for all of its differences from its accepted state.
    pub fn for_all_of(drift: &Drift) -> Self {
        Self {
            regrant: drift.widened().map(|widening| widening.request.clone()).collect(),
            change_id: needs_change_id(drift),
        }
    }

    /// Returns whether a change needs consent and has none.
    pub fn lacks(&self, change: &Change) -> bool {
        match change {
            Change::Widened(widening) => !self.regrant.contains(&widening.request),
            Change::Id { .. } | Change::Publisher { .. } | Change::Downgrade { .. } => {
                !self.change_id
            }
            _ => false,
        }
    }

    /// Returns the options that state this consent on the command line, with a space before each.
    pub fn options(&self) -> String {
        // Of the characters in the names of requests, only `*` means something to a shell.
        let regrants = self.regrant.iter().map(|request| {
            let quote = if request.contains('*') { "'" } else { "" };
            format!(" --regrant {quote}{request}{quote}")
        });
        let change_id = if self.change_id { " --change-id" } else { "" };
        regrants.collect::<String>() + change_id
    }

    /// Describes each `--regrant` that names neither a request of the plugin nor a directory that is
    /// granted under a request for any directory.
    pub fn unknown(&self, manifest: Option<&Manifest>, grant: &Grant) -> Vec<String> {
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
    pub fn unneeded(&self, drift: Option<&Drift>) -> Vec<String> {
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
        if self.change_id && !drift.is_some_and(needs_change_id) {
            notes.push("--change-id has no effect: the id is the accepted one".to_owned());
        }
        notes
    }
}

/// Returns whether a difference needs `--change-id`.
fn needs_change_id(drift: &Drift) -> bool {
    drift.has_other_id() || drift.has_other_publisher() || drift.is_downgrade()
}

/// Returns the names that `--regrant` may have.
fn regrantable(manifest: Option<&Manifest>) -> Vec<String> {
    let Some(manifest) = manifest else { return Vec::new() };
    let requests = manifest.request.all().map(|request| request.to_string());
    let with_effects = manifest.tools.iter().filter(|tool| !tool.effects.is_empty());
    requests.chain(with_effects.map(|tool| format!("effects.{}", tool.name))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{FilesGrant, PartialQuota, Widening, manifest::tests::manifest_with};
    use airlock_sandbox::Access;

    fn widening(request: &str) -> Change {
        let request = request.to_owned();
        let line = request.clone();
        Change::Widened(Widening { request, line, is_new: false, secrets: Vec::new() })
    }

    #[test]
    fn the_options_for_a_drift_give_the_consent_that_it_lacks() {
        let id = Change::Id { was: "one".to_owned(), is: "two".to_owned() };
        let version = Change::Version { was: "1.0.0".to_owned(), is: "2.0.0".to_owned() };
        let changes = vec![version.clone(), id.clone(), widening("http.api"), widening("files.*")];
        let drift = Drift { client: "mail".to_owned(), changes };
        let unsigned = Drift { client: "mail".to_owned(), changes: vec![version.clone()] }
            .with_publisher(Some("ann"), None);
        assert_eq!(Consent::for_all_of(&unsigned).options(), " --change-id");
        assert!(unsigned.changes.iter().any(|change| Consent::default().lacks(change)));
        let repeated = unsigned.clone().with_publisher(Some("bob"), Some("bob"));
        assert_eq!(
            repeated, unsigned,
            "the same publisher is no difference, and a first one neither"
        );
        assert_eq!(unsigned.clone().with_publisher(None, Some("bob")), unsigned);
        let all = Consent::for_all_of(&drift);
        assert_eq!(all.options(), " --regrant 'files.*' --regrant http.api --change-id");
        assert!(!drift.changes.iter().any(|change| all.lacks(change)));
        let none = Consent::default();
        assert_eq!(none.options(), "");
        assert!(none.lacks(&id) && none.lacks(&widening("http.api")) && !none.lacks(&version));
        let some = Consent { regrant: ["http.api".to_owned()].into(), change_id: false };
        assert!(!some.lacks(&widening("http.api")) && some.lacks(&widening("http.api2")));
    }

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
        let consent = Consent { regrant: ["kv.notes".to_owned()].into(), change_id: false };
        let refused = consent.unknown(None, &Grant::default());
        assert_eq!(refused, ["--regrant kv.notes: the plugin requests nothing"]);
    }

    fn checked(request: &str, regrant: &str) -> Vec<String> {
        let tools = json!([{"name": "sync", "effects": ["read_kv"]}, {"name": "wait"}]);
        let manifest = manifest_with(&json!({
            "tool": tools,
            "request": {
                "kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}},
                "files": {request: {"access": "read_only", "reason": "r"}},
            },
        }));
        let consent = Consent { regrant: [regrant.to_owned()].into(), change_id: false };
        let directory = FilesGrant {
            path: "/d".into(),
            access: Access::ReadOnly,
            quota: PartialQuota::default(),
        };
        let files = [("granted".to_owned(), directory)].into();
        let grant = Grant { files, ..Grant::default() };
        consent.unknown(Some(&manifest), &grant)
    }

    #[test]
    fn an_option_that_consents_to_nothing_is_noted() {
        let changes = vec![widening("kv.notes")];
        let drift = Drift { client: "p".to_owned(), changes };
        let regrant = ["kv.notes".to_owned(), "http.api".to_owned()].into();
        let consent = Consent { regrant, change_id: true };
        assert_eq!(
            consent.unneeded(Some(&drift)),
            [
                "--regrant http.api has no effect: nothing that is granted by this name has become wider",
                "--change-id has no effect: the id is the accepted one"
            ]
        );
        assert_eq!(consent.unneeded(None).len(), 3);
        assert!(Consent::default().unneeded(Some(&drift)).is_empty());
    }
}
