//! Differences between a plugin and its accepted state, described for the person who decides on
//! them.

mod line_diff;
mod tools;

use std::fmt;

use semver::Version;
use serde::Serialize;

use super::{
    Consent, Grant, Metadata,
    lines::{LockLine, LockLines},
};
use airlock_core::tool::{ClientName, Policy};
use airlock_lock::{Lock, Pin};
use airlock_strings::{MAX_LISTED, visible_line};

/// Differences of one plugin from its accepted state.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
pub struct Drift {
    /// The client.
    pub client: String,
    /// The differences; never empty.
    pub changes: Vec<Change>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// The plugin was never accepted.
    NotAccepted,
    /// The digest of the component changed.
    Component {
        /// Accepted digest.
        was: String,
        /// Found digest.
        is: String,
    },
    /// The id in the manifest changed: another plugin has taken the place of the accepted one.
    Id {
        /// Accepted id; `none` without a manifest.
        was: String,
        /// Found id; `none` without a manifest.
        is: String,
    },
    /// The accepted component was signed by a publisher, and this one is not.
    Publisher {
        /// Accepted publisher.
        was: String,
        /// Publisher who signed the component; `none` without one.
        is: String,
    },
    /// The version in the manifest changed.
    Version {
        /// Accepted version.
        was: String,
        /// Found version.
        is: String,
    },
    /// The publisher of the accepted component has signed an earlier version: a server may offer an old build in the
    /// place of the current one.
    Downgrade {
        /// Accepted version.
        was: String,
        /// Found version.
        is: String,
    },
    /// The plugin requests one more right, which is not granted or within an accepted one.
    RequestAdded {
        /// Line of the lock file about the right.
        request: String,
    },
    /// The plugin no longer requests a right.
    RequestRemoved {
        /// Line of the lock file about the right.
        request: String,
    },
    /// The plugin requests one more right, which it would have by a grant that was given for less.
    Widened(Widening),
    /// The plugin has one more tool.
    ToolAdded {
        /// The tool.
        tool: String,
        /// Its description, with invisible characters made visible.
        description: String,
    },
    /// A tool was removed.
    ToolRemoved {
        /// The tool.
        tool: String,
    },
    /// The definition of a tool changed.
    ToolChanged {
        /// The tool.
        tool: String,
        /// Changed member of the definition.
        field: String,
        /// Line diff: ` ` for unchanged, `-` for removed, `+` for added lines. Invisible characters
        /// are made visible.
        diff: Vec<String>,
    },
}

/// A right that a grant is for and that no accepted line covers. Its texts have invisible characters
/// made visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Widening {
    /// The request, such as `http.api`; `--regrant` uses the same name.
    pub request: String,
    /// Line of the lock file about the right.
    pub line: String,
    /// True if nothing was accepted of the request.
    pub is_new: bool,
    /// Granted secrets that are sent there, such as `secret.token`.
    pub secrets: Vec<String>,
}

impl Drift {
    /// Compares a plugin with its accepted state; `None` if they are equal. `grant` decides which
    /// wider requests would be granted without another word, and `policy` which of its tools would
    /// run.
    pub fn between(
        lock: &Lock,
        client: &ClientName,
        metadata: &Metadata,
        grant: &Grant,
        policy: &Policy,
    ) -> Option<Self> {
        let changes = match lock.pin(client) {
            None => vec![Change::NotAccepted],
            Some(pin) => changes(pin, metadata, grant, policy),
        };
        (!changes.is_empty()).then(|| Self { client: client.to_string(), changes })
    }

    /// Returns whether the component is not the accepted one, so that the gateway does not load it. The
    /// digest covers the descriptors too: they are embedded in the component or produced by its code.
    pub fn is_of_component(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| matches!(change, Change::NotAccepted | Change::Component { .. }))
    }

    /// Returns the differences on one line, without the commands that show and accept them. Names at most
    /// [`MAX_LISTED`], and counts the others: the commands list all.
    pub fn summary(&self) -> String {
        if let Some(Change::NotAccepted) = self.changes.first() {
            return "it was never accepted".to_owned();
        }
        let changes: Vec<_> = self.changes.iter().take(MAX_LISTED).map(Change::to_string).collect();
        let more = match self.changes.len() - changes.len() {
            0 => String::new(),
            more => format!(", and {more} more changes"),
        };
        format!("it changed since it was accepted: {}{more}", changes.join(", "))
    }

    /// Returns the rights that grants are for and that were not accepted.
    pub fn widened(&self) -> impl Iterator<Item = &Widening> {
        self.changes.iter().filter_map(|change| match change {
            Change::Widened(widening) => Some(widening),
            _ => None,
        })
    }

    /// Returns the changes that need the operator's consent: what would be granted without another
    /// word.
    pub fn consequential(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| matches!(change, Change::Widened(_) | Change::Id { .. }))
    }

    /// Returns the same differences with that of the publisher, if the accepted component `was` signed by
    /// one and this one not. If the same one has signed both, an earlier version is a downgrade: its version is a part
    /// of what was signed.
    #[must_use]
    pub fn with_publisher(mut self, was: Option<&str>, is: Option<&str>) -> Self {
        let Some(publisher) = was else { return self };
        if is == Some(publisher) {
            self.changes.iter_mut().for_each(Change::find_downgrade);
        } else {
            self.changes.push(Change::Publisher { was: publisher.to_owned(), is: shown(is) });
        }
        self
    }

    /// Returns whether the publisher of the accepted component has signed an earlier version.
    pub fn is_downgrade(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Downgrade { .. }))
    }

    /// Returns whether the publisher of the accepted component has not signed this one.
    pub fn has_other_publisher(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Publisher { .. }))
    }

    /// Returns whether another plugin has taken the place of the accepted one.
    pub fn has_other_id(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Id { .. }))
    }
}

fn changes(pin: &Pin, metadata: &Metadata, grant: &Grant, policy: &Policy) -> Vec<Change> {
    let mut changes = Vec::new();
    if pin.component != metadata.digest {
        changes.push(Change::Component { was: pin.component.clone(), is: metadata.digest.clone() });
    }
    if pin.id.as_deref() != metadata.id() {
        changes.push(Change::Id { was: shown(pin.id.as_deref()), is: shown(metadata.id()) });
    }
    let found = metadata.manifest.as_ref().map(|manifest| manifest.version.to_string());
    if pin.version != found {
        let was = shown(pin.version.as_deref());
        let is = shown(found.as_deref());
        changes.push(Change::Version { was, is });
    }
    changes.extend(request_changes(pin, metadata, grant, policy));
    changes.extend(tools::changes(pin, metadata));
    changes
}

fn shown(text: Option<&str>) -> String {
    visible_line(text.unwrap_or("none"))
}

/// Compares the lines of both builds. What would be granted comes first.
fn request_changes(pin: &Pin, metadata: &Metadata, grant: &Grant, policy: &Policy) -> Vec<Change> {
    let was = LockLines::new(&pin.requests, grant);
    let is = LockLines::new(&metadata.lock_lines(), grant);
    let (widened, added): (Vec<_>, Vec<_>) = is
        .beyond(&was)
        .partition(|line| may_run(line, pin, policy) && is.are_granted(line) && !was.cover(line));
    let widened = widened.into_iter().map(|line| {
        Change::Widened(Widening {
            request: visible_line(&line.key),
            line: visible_lock_line(line),
            is_new: !was.have(&line.key),
            secrets: is.secrets_to(line).into_iter().map(visible_line).collect(),
        })
    });
    let added =
        added.into_iter().map(|line| Change::RequestAdded { request: visible_lock_line(line) });
    let removed =
        was.beyond(&is).map(|line| Change::RequestRemoved { request: visible_lock_line(line) });
    widened.chain(added).chain(removed).collect()
}

/// Returns a line as people read it.
fn visible_lock_line(line: &LockLine) -> String {
    visible_line(&line.to_string())
}

/// Returns whether a line is about the plugin, or about a tool that was accepted or that the lists of
/// the client allow to run. The lists decide by themselves: they ignore case and know `*`, so a tool
/// that is renamed, or new, may run at once. A pin without tools is of a build that embeds none, so
/// each tool may be an accepted one.
fn may_run(line: &LockLine, pin: &Pin, policy: &Policy) -> bool {
    line.tool().is_none_or(|tool| {
        pin.tools.is_empty()
            || pin.tools.iter().any(|pinned| pinned.name == tool)
            || policy.execute.allows(tool)
    })
}

impl fmt::Display for Drift {
    /// Writes the drift on one line, for logs and the state of a client.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = &self.client;
        let summary = self.summary();
        match self.changes.first() {
            Some(Change::NotAccepted) => {
                write!(
                    f,
                    "{summary}; inspect it with `airlock plugin inspect`, accept it with `airlock plugin accept {client}`"
                )
            }
            _ => write!(
                f,
                "{summary}; see `airlock plugin diff {client}`, accept it with `airlock plugin accept {client}{}`",
                Consent::for_all_of(self).options()
            ),
        }
    }
}

impl Change {
    /// Turns a change to an earlier version into a downgrade.
    fn find_downgrade(&mut self) {
        let Self::Version { was, is } = self else { return };
        let is_earlier = Version::parse(was).is_ok_and(|accepted| {
            Version::parse(is).is_ok_and(|found| found.cmp_precedence(&accepted).is_lt())
        });
        if is_earlier {
            *self = Self::Downgrade { was: std::mem::take(was), is: std::mem::take(is) };
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAccepted => f.write_str("not accepted yet"),
            Self::Component { was, is } => {
                write!(f, "its code ({} is now {})", short(was), short(is))
            }
            Self::Version { was, is } => write!(f, "its version ({was} is now {is})"),
            Self::Downgrade { was, is } => {
                write!(f, "its version ({was} is now {is}, an earlier one)")
            }
            Self::Id { was, is } => write!(f, "its id ({was} is now {is})"),
            Self::Publisher { was, is } => {
                write!(f, "its publisher ({was} is now {is})")
            }
            Self::Widened(widening) => write!(f, "it asks for {widening}"),
            Self::RequestAdded { request } => write!(f, "it asks for {request}"),
            Self::RequestRemoved { request } => write!(f, "it no longer asks for {request}"),
            Self::ToolAdded { tool, .. } => write!(f, "new tool {tool}"),
            Self::ToolRemoved { tool } => write!(f, "no tool {tool} any more"),
            Self::ToolChanged { tool, field, .. } => write!(f, "the {field} of tool {tool}"),
        }
    }
}

impl fmt::Display for Widening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, secrets, .. } = self;
        if secrets.is_empty() {
            write!(f, "{line} (granted)")
        } else {
            write!(f, "{line} (granted, with {})", secrets.join(" and "))
        }
    }
}

/// Shortens a digest to the part that people compare.
fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::manifest::tests::manifest_with;

    fn metadata(wasm: &[u8], tools: Value, request: &Value) -> Metadata {
        let manifest = manifest_with(&json!({"request": request}));
        Metadata::new(
            wasm,
            serde_json::from_value(tools).expect("tools"),
            Some(manifest),
            vec!["airlock:host/log@0.1.0".into()],
        )
    }

    fn client() -> ClientName {
        ClientName::parse("weather").expect("a name")
    }

    fn between(lock: &Lock, metadata: &Metadata) -> Option<Drift> {
        Drift::between(lock, &client(), metadata, &Grant::default(), &Policy::default())
    }

    #[test]
    fn an_accepted_plugin_has_no_drift_after_a_restart() {
        let metadata = metadata(
            b"one",
            json!([{"name": "b", "inputSchema": {"y": 1, "x": 2}}, {"name": "a", "inputSchema": {}}]),
            &json!({}),
        );
        let mut lock = Lock::default();
        assert_eq!(between(&lock, &metadata).expect("drift").changes, [Change::NotAccepted]);
        lock.accept(metadata.pin(&client()));
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(airlock_lock::FILE_NAME);
        assert!(Lock::load(&path).expect("absence is no error").is_none());
        lock.save(&path).expect("it is written");
        let read = Lock::load(&path).expect("it is read").expect("it is there");
        assert_eq!(read, lock);
        assert_eq!(between(&read, &metadata), None);
        std::fs::write(&path, "version = 2").expect("written");
        assert!(
            Lock::load(&path)
                .expect_err("refused")
                .to_string()
                .ends_with("found version 2, this build reads 1")
        );
    }

    #[test]
    fn a_displayed_change_has_no_line_breaks() {
        let mut lock = Lock::default();
        lock.accept(Metadata::new(b"one", Vec::new(), None, Vec::new()).pin(&client()));
        let tools = json!([{"name": "a\n  it asks for nothing", "inputSchema": {}}]);
        let tools = serde_json::from_value(tools).expect("tools");
        let now = Metadata::new(b"two", tools, None, vec!["wasi:x\n  as it was accepted".into()]);
        let changes: Vec<_> =
            between(&lock, &now).expect("drift").changes.iter().map(Change::to_string).collect();
        assert!(
            changes.len() == 3 && changes.iter().all(|line| !line.contains('\n')),
            "{changes:?}"
        );
        assert!(changes[1].contains("⟨U+000A⟩") && changes[2].contains("⟨U+000A⟩"), "{changes:?}");
    }

    #[test]
    fn every_change_is_shown_with_invisible_characters_made_visible() {
        let mut lock = Lock::default();
        lock.accept(
            metadata(
                b"one",
                json!([tool("Reads.\nFast."), {"name": "gone", "inputSchema": {}}]),
                &json!({}),
            )
            .pin(&client()),
        );
        let now = metadata(
            b"two",
            json!([tool("Reads.\u{200b}\nFast."), {"name": "new", "description": "\u{202e}x", "inputSchema": {}}]),
            &json!({"clocks": {"reason": "dates"}}),
        );
        let drift = between(&lock, &now).expect("drift");
        assert_eq!(drift.changes.len(), 5);
        insta::assert_snapshot!(drift, @"it changed since it was accepted: its code (sha256:7692c3ad3540 is now sha256:3fc4ccfe7458), it asks for clocks, the description of tool a, new tool new, no tool gone any more; see `airlock plugin diff weather`, accept it with `airlock plugin accept weather`");
        let diff = drift.changes.iter().find_map(|change| match change {
            Change::ToolChanged { diff, .. } => Some(diff.join("\n")),
            _ => None,
        });
        insta::assert_snapshot!(diff.expect("a changed tool"), @r"
        -Reads.
        +Reads.⟨U+200B⟩
         Fast.
        ");
    }

    fn tool(description: &str) -> Value {
        json!({"name": "a", "description": description, "inputSchema": {}})
    }

    #[test]
    fn another_id_and_a_wider_granted_request_are_changes_that_need_consent() {
        let mut lock = Lock::default();
        lock.accept(metadata(b"one", json!([]), &api("https://a.example")).pin(&client()));
        let mut now = metadata(b"two", json!([]), &api("https://b.example"));
        now.manifest.as_mut().expect("a manifest").id = "q".to_owned();
        let grant =
            Grant { http: vec![crate::HttpGrant::Requested("api".to_owned())], ..Grant::default() };
        let drift =
            Drift::between(&lock, &client(), &now, &grant, &Policy::default()).expect("drift");
        assert!(drift.has_other_id() && drift.widened().count() == 1);
        insta::assert_snapshot!(drift, @"it changed since it was accepted: its code (sha256:7692c3ad3540 is now sha256:3fc4ccfe7458), its id (p is now q), it asks for http.api https://b.example GET,HEAD /** (granted), it no longer asks for http.api https://a.example GET,HEAD /**; see `airlock plugin diff weather`, accept it with `airlock plugin accept weather --regrant http.api --change-id`");
        let document = serde_json::to_value(&drift.changes).expect("JSON");
        let line = "http.api https://b.example GET,HEAD /**";
        let widened = json!({"change": "widened", "request": "http.api", "line": line, "is_new": false, "secrets": []});
        assert_eq!(document[2], widened);
        let ungranted = between(&lock, &now).expect("drift");
        assert_eq!(ungranted.widened().count(), 0);
    }

    fn api(url: &str) -> Value {
        json!({"http": {"api": {"url": url, "reason": "r"}}})
    }

    #[test]
    fn an_earlier_version_of_the_same_publisher_is_a_downgrade() {
        for (was, is, publisher, is_downgrade) in [
            ("1.10.0", "1.9.0", Some("ann"), true),
            ("1.0.0", "1.0.0-rc.1", Some("ann"), true),
            ("1.9.0", "1.10.0", Some("ann"), false),
            ("1.0.0+b", "1.0.0+a", Some("ann"), false),
            ("none", "1.0.0", Some("ann"), false),
            // Without a signature, a version is any text.
            ("1.10.0", "1.9.0", None, false),
        ] {
            let version = Change::Version { was: was.to_owned(), is: is.to_owned() };
            let drift = Drift { client: "weather".to_owned(), changes: vec![version] };
            let drift = drift.with_publisher(publisher, publisher);
            assert_eq!(drift.is_downgrade(), is_downgrade, "{was} {is}");
            let lacking = drift.changes.iter().any(|change| Consent::default().lacks(change));
            assert_eq!(lacking, is_downgrade, "{was} {is}");
        }
    }

    #[test]
    fn a_summary_names_some_of_many_changes_and_the_number_of_the_others() {
        let changes = (0..MAX_LISTED + 5).map(|n| Change::ToolRemoved { tool: format!("t{n}") });
        let drift = Drift { client: "weather".to_owned(), changes: changes.collect() };
        let summary = drift.summary();
        assert!(summary.ends_with(", no tool t19 any more, and 5 more changes"), "{summary}");
    }
}
