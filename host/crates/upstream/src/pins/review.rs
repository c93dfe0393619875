//! A list as an operator decides about it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde::Serialize;
use serde_json::json;

use super::{Change, ChangeKind, Definition, diff};
use airlock_json::{RawObject, object};
use airlock_lock::{LockedTool, diff_deadline, digest};
use airlock_mcp_client::Pinning;
use airlock_strings::cut;

/// Length to which the name of a tool is cut in the administrative API, in bytes. A quarantined
/// one may be as long as a list.
const MAX_NAME_BYTES: usize = 512;

/// A tool in quarantine, without its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// Name of the tool at its server.
    pub tool: String,
    /// Kind of difference.
    pub kind: ChangeKind,
    /// Accepted name of a renamed tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// Digest of the definition in the list; `None` for a removed tool.
    pub digest: Option<String>,
    /// Digest of the accepted definition; `None` for a new tool.
    pub accepted_digest: Option<String>,
}

impl Quarantined {
    /// Describes a change without its texts.
    pub fn new(change: &Change) -> Self {
        let pending = change.pending.as_ref();
        let accepted = change.accepted.as_ref();
        Self {
            tool: cut(change.tool.clone(), MAX_NAME_BYTES),
            kind: change.kind,
            was: change.was.clone().map(|was| cut(was, MAX_NAME_BYTES)),
            digest: pending.map(|definition| definition.digest().to_owned()),
            accepted_digest: accepted.map(|definition| definition.digest().to_owned()),
        }
    }
}

/// Describes changes with both definitions and the lines in which they differ, as the text of a JSON array. The
/// definitions are written as the server sent them. The time for all of it is bounded.
pub fn documents<'c>(changes: impl Iterator<Item = &'c Change>) -> String {
    let deadline = diff_deadline();
    let documents: Vec<_> = changes.map(|change| document(change, deadline)).collect();
    format!("[{}]", documents.join(","))
}

fn document(change: &Change, deadline: Instant) -> String {
    let shown = diff::shown_by(change, deadline);
    let Quarantined { tool, kind, was, digest, accepted_digest } = Quarantined::new(change);
    let described = json!({
        "tool": tool,
        "kind": kind,
        "was": was,
        "digest": digest,
        "accepted_digest": accepted_digest,
        "offered": change.is_offered,
        "diff": shown.lines,
        "hidden": shown.hidden,
    });
    let mut out = RawObject::from(&object(described));
    out.set("accepted", change.accepted.as_ref().map_or("null", Definition::text));
    out.set("pending", change.pending.as_ref().map_or("null", Definition::text));
    out.to_text()
}

/// The accepted definitions of a server and the differences of its last list.
#[derive(Debug, Clone)]
pub struct Review {
    /// Definitions that are used.
    pub pinning: Pinning,
    /// True if the accepted definitions are those of the lock file.
    pub is_locked: bool,
    /// Accepted definitions by the tools' names.
    pub accepted: BTreeMap<String, Definition>,
    /// Differences, sorted by name.
    pub changes: Vec<Change>,
    /// Reason that the accepted definitions cannot be read.
    pub problem: Option<String>,
}

/// Reason that the change of a tool cannot be accepted.
#[derive(Debug, thiserror::Error)]
pub enum NoSuchChange {
    /// The tool has not changed.
    #[error("the tool {0:?} has not changed since it was accepted or first used")]
    Unchanged(String),
    /// Neither the list nor the accepted definitions have the tool.
    #[error("the server has no tool {0:?}")]
    Unknown(String),
}

impl Review {
    /// Returns the digest of everything that [`Self::accept`] depends on.
    pub fn digest(&self) -> String {
        let accepted = self.accepted.iter().map(|(name, definition)| (name, definition.digest()));
        let changes = self.changes.iter().map(|change| {
            let pending = change.pending.as_ref().map(Definition::digest);
            (&change.tool, change.kind.name(), &change.was, pending)
        });
        let all = (accepted.collect::<Vec<_>>(), changes.collect::<Vec<_>>());
        digest(serde_json::to_string(&all).unwrap_or_default().as_bytes())
    }

    /// Returns the definitions for the lock file once the operator has accepted the changes of these
    /// tools, or of all tools. Fails if a tool has not changed.
    pub fn accept(
        &self,
        tools: Option<&BTreeSet<String>>,
    ) -> Result<Vec<LockedTool>, NoSuchChange> {
        if let Some(unknown) = tools.into_iter().flatten().find(|name| !self.has(name)) {
            let unknown = unknown.clone();
            let is_accepted = self.accepted.contains_key(&unknown);
            return Err(if is_accepted {
                NoSuchChange::Unchanged(unknown)
            } else {
                NoSuchChange::Unknown(unknown)
            });
        }
        let mut accepted = self.accepted.clone();
        let changes = self.changes.iter();
        for change in
            changes.filter(|change| tools.is_none_or(|tools| tools.contains(&change.tool)))
        {
            if let Some(was) = &change.was {
                accepted.remove(was);
            }
            match &change.pending {
                Some(pending) => accepted.insert(change.tool.clone(), pending.clone()),
                None => accepted.remove(&change.tool),
            };
        }
        let locked = accepted.into_iter().map(|(name, definition)| LockedTool {
            name,
            digest: definition.digest().to_owned(),
            definition: definition.text().to_owned(),
        });
        Ok(locked.collect())
    }

    fn has(&self, tool: &str) -> bool {
        self.changes.iter().any(|change| change.tool == tool)
    }
}
