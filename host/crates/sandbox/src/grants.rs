//! Grants of one plugin: what it asks for, as far as its operator grants it and its profile allows
//! it. What is absent is denied.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use airlock_core::secret::{Scrubber, Secret};
use airlock_egress::{Credentials, Egress, Policy};
use airlock_store::Database;
use serde_json::{Map, Value};

use crate::{Effect, Effects};

/// Everything that a plugin may use besides its log and its own call.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// Its configuration.
    pub config: Arc<Map<String, Value>>,
    /// Directories, each seen by the guest as `/<name>`.
    pub directories: Vec<Directory>,
    /// Quota of a scratch directory, which each call gets for itself as `/tmp` and which is removed
    /// afterwards; `None` for no such directory.
    pub scratch: Option<Quota>,
    /// Key-value stores, which outlive its calls.
    pub stores: Vec<Store>,
    /// Tools that it may call.
    pub tools: ToolNames,
    /// True if it sees the real time. Otherwise clocks start at the same moment in every call and
    /// advance as they are read.
    pub clocks: bool,
    /// Policy on its HTTP requests; `None` denies all of them.
    pub http: Option<Arc<Policy>>,
    /// Secrets that are attached to its requests.
    pub credentials: Arc<Credentials>,
    /// Names that it asks for and is not granted, so that a guest can distinguish a denial from a
    /// typing error.
    pub denied: Arc<Denied>,
    /// Names of the secrets that it has.
    pub secrets: Arc<BTreeSet<String>>,
    /// Secrets whose value it may see.
    pub revealed: Arc<BTreeMap<String, Secret>>,
    /// Redacts any of its secrets from its output.
    pub scrubber: Arc<Scrubber>,
    /// Effects that its manifest declares for each of its tools. A tool that is not listed has
    /// none. `None` for a component without a manifest: all its tools may use all of the grants.
    pub declared: Option<Arc<BTreeMap<String, Effects>>>,
    /// Effects that the running tool does not declare, so that their grants are left out here.
    pub undeclared: Effects,
}

/// Tools that a plugin may call, by the names that it calls them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    /// Slots: names of the plugin's own, each with the full name `<client>-<tool>` of the tool that
    /// the operator bound to it; `None` if the operator bound none. A slot's name has no `-`.
    pub slots: BTreeMap<String, Option<String>>,
    /// Tools that the operator granted by full name.
    pub full: BTreeSet<String>,
}

impl ToolNames {
    /// Returns the full names of all tools that may be called.
    pub(crate) fn tools(&self) -> BTreeSet<String> {
        self.slots.values().flatten().chain(&self.full).cloned().collect()
    }
}

impl Grants {
    /// Returns the grants that a tool with these effects may use. The configuration, the scratch
    /// directory and the clocks are no effects: they change nothing outside the call.
    pub(crate) fn narrowed(&self, effects: Effects) -> Self {
        let has = |effect| effects.contains(effect);
        let has_credential = has(Effect::Secret);
        Self {
            directories: self.directories_for(effects),
            stores: if has(Effect::ReadKv) { self.stores.clone() } else { Vec::new() },
            tools: if has(Effect::CallTools) { self.tools.clone() } else { ToolNames::default() },
            http: self.http.clone().filter(|_| has(Effect::Http)),
            credentials: if has_credential { self.credentials.clone() } else { Arc::default() },
            secrets: if has_credential { self.secrets.clone() } else { Arc::default() },
            revealed: if has_credential { self.revealed.clone() } else { Arc::default() },
            undeclared: effects.complement(),
            ..self.clone()
        }
    }

    fn directories_for(&self, effects: Effects) -> Vec<Directory> {
        if effects.contains(Effect::WriteFiles) {
            return self.directories.clone();
        }
        let readable = self.directories.iter().filter(|_| effects.contains(Effect::ReadFiles));
        readable.map(|it| Directory { access: Access::ReadOnly, ..it.clone() }).collect()
    }
}

/// Names that are asked for and not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denied {
    /// Stores.
    pub stores: BTreeSet<String>,
    /// Secrets.
    pub secrets: BTreeSet<String>,
}

/// Host resources behind the grants, the same for all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub struct HostResources {
    /// Database of the stores.
    pub database: Option<Database>,
    /// Client for outbound HTTP.
    pub egress: Option<Egress>,
}

/// One granted directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Its name in the guest: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The directory on the host.
    pub path: PathBuf,
    /// Access that the guest has to it.
    pub access: Access,
    /// Limit on its contents, if the guest may change them.
    pub quota: Quota,
}

/// Access to a granted directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read access only.
    ReadOnly,
    /// Read and write access.
    ReadWrite,
}

/// Limit on the contents of a directory, everything below it included. At the limit, a guest may
/// add no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// A key-value store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Its name in the guest: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// Most bytes that it may hold: its keys and values, and an overhead for each entry.
    pub max_bytes: u64,
}

#[cfg(test)]
mod tests {
    use airlock_egress::Policy;

    use super::*;

    /// Returns grants of everything that an effect covers.
    fn everything() -> Grants {
        let directory = Directory {
            name: "d".to_owned(),
            path: "/d".into(),
            access: Access::ReadWrite,
            quota: Quota { bytes: 1, files: 1 },
        };
        Grants {
            directories: vec![directory],
            scratch: Some(Quota { bytes: 1, files: 1 }),
            stores: vec![Store { name: "s".to_owned(), max_bytes: 1 }],
            tools: ToolNames {
                slots: [("slot".to_owned(), Some("p-a".to_owned()))].into(),
                full: ["p-b".to_owned()].into(),
            },
            clocks: true,
            http: Some(Arc::new(Policy::closed())),
            secrets: Arc::new(["t".to_owned()].into()),
            revealed: Arc::new([("t".to_owned(), Secret::new("value"))].into()),
            ..Grants::default()
        }
    }

    /// Returns what is left of [`everything`], in words.
    fn left(effects: &[Effect]) -> String {
        let grants = everything().narrowed(effects.iter().copied().collect());
        assert!(grants.scratch.is_some() && grants.clocks, "these are no effects");
        let directories = grants.directories.iter().map(|it| match it.access {
            Access::ReadOnly => "read",
            Access::ReadWrite => "write",
        });
        let rest = [
            ("store", !grants.stores.is_empty()),
            ("slot", !grants.tools.slots.is_empty()),
            ("full", !grants.tools.full.is_empty()),
            ("http", grants.http.is_some()),
            ("secret", !grants.secrets.is_empty()),
            ("revealed", !grants.revealed.is_empty()),
        ];
        let rest = rest.into_iter().filter(|(_, is_left)| *is_left).map(|(name, _)| name);
        directories.chain(rest).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_tool_keeps_only_the_grants_that_its_effects_cover() {
        assert_eq!(left(&[]), "");
        for (effect, expected) in [
            (Effect::ReadFiles, "read"),
            (Effect::WriteFiles, "write"),
            (Effect::Http, "http"),
            (Effect::Secret, "secret revealed"),
            (Effect::ReadKv, "store"),
            (Effect::WriteKv, "store"),
            (Effect::CallTools, "slot full"),
        ] {
            assert_eq!(left(&[effect]), expected, "{effect:?}");
        }
        assert_eq!(left(Effect::ALL), "write store slot full http secret revealed");
    }
}
