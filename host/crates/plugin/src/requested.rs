//! The requests of a plugin, as an operator reads them before granting anything.

use serde::Serialize;

use super::{Metadata, Request};
use airlock_strings::{visible, visible_line};

/// One request of a plugin, with invisible characters made visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestSummary {
    /// Position of the request, such as `http.api`; `--grant` uses the same name.
    #[serde(rename = "place")]
    pub key: String,
    /// The requested rights, in the wording of the lock file.
    #[serde(rename = "what")]
    pub rights: Vec<String>,
    /// Reason that the author states.
    pub reason: String,
    /// True if the plugin works without it.
    pub optional: bool,
}

impl RequestSummary {
    /// Returns every request of a plugin's manifest that states a reason.
    pub fn all(metadata: &Metadata) -> Vec<Self> {
        let manifest = metadata.manifest.iter();
        manifest.flat_map(|manifest| manifest.request.all()).map(Self::new).collect()
    }

    fn new(request: Request<'_>) -> Self {
        Self {
            key: visible_line(&request.to_string()),
            rights: request.rights().iter().map(|right| visible_line(right)).collect(),
            reason: visible(request.reason()),
            optional: request.is_optional(),
        }
    }

    /// Formats the request for people: the request itself, then the reason.
    pub fn lines(&self) -> [String; 2] {
        let Self { key, rights, reason, optional } = self;
        let need = if *optional { "optional" } else { "required" };
        let rights = rights.join(", ");
        [
            format!("  {key} {rights}").trim_end().to_owned() + &format!("  ({need})"),
            format!("      {}", one_line(reason)),
        ]
    }
}

/// Returns the limits that a plugin requests for one call, sorted by key; these state no reason.
pub fn requested_limits(metadata: &Metadata) -> Vec<String> {
    let requested = metadata.manifest.iter().flat_map(|manifest| manifest.request.limits.amounts());
    let mut lines: Vec<_> = requested
        .map(|(limit, amount)| format!("{} {}", limit.key(), limit.show(amount)))
        .collect();
    lines.sort();
    lines
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{MANIFEST_SCHEMA, Manifest};

    #[test]
    fn requests_are_shown_with_their_rights_reason_and_need() {
        let manifest = json!({
            "schema": MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1",
            "request": {
                "http": {"api": {"url": "https://api.example.com", "reason": "Reads\u{202e}\nforecasts."}},
                "kv": {"api": {"max_bytes": "1MiB", "reason": "Remembers."}},
                "tools": {"call": ["text-count", "files-read"], "reason": "Counts.", "optional": true},
                "clocks": {"reason": "Dates."},
                "limits": {"memory": "1MiB", "cpu_time": "1s"},
            },
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
        let imports = vec!["clocks http.api".to_owned()];
        let metadata = Metadata::new(b"", Vec::new(), Some(manifest), imports);
        let lines: Vec<_> =
            RequestSummary::all(&metadata).iter().flat_map(RequestSummary::lines).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        http.api https://api.example.com GET,HEAD /**  (required)
            Reads⟨U+202E⟩ forecasts.
        kv.api 1MiB  (required)
            Remembers.
        tools text-count, files-read  (optional)
            Counts.
        clocks  (required)
            Dates.
        ");
        assert_eq!(requested_limits(&metadata), ["cpu_time 1s", "memory 1MiB"]);
    }
}
