//! Grants of one plugin: what it asks for, as far as its operator grants it and its profile allows
//! it. What is absent is denied.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use airlock_core::secret::{Scrubber, Secret};
use airlock_egress::{Credentials, Destinations, Egress, Policy};
use airlock_store::Database;
use serde_json::{Map, Value};

use super::{
    effects::{DeclaredEffect, Effect, Effects, Reach},
    uses::UseRecorder,
};

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
    pub stores: Vec<KvStore>,
    /// Tools that it may call.
    pub tools: ToolNames,
    /// True if it sees the real time. Otherwise clocks start at the same moment in every call and
    /// advance as they are read.
    pub clocks: bool,
    /// Policy on its HTTP requests; `None` denies all of them.
    pub http: Option<Arc<Policy>>,
    /// Rules of the destinations that it requests, for the tools that may use only some of them.
    pub destinations: Arc<Destinations>,
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
    /// Narrowing of these grants to the effects of one tool; `None` if they are those of the plugin.
    pub narrowing: Option<Narrowing>,
    /// Records which of the grants are used; `None` in a gateway that serves.
    pub recorder: Option<UseRecorder>,
}

/// Narrowing of the grants of a plugin to one of its tools.
#[derive(Debug, Clone)]
pub struct Narrowing {
    /// Effects of the tool.
    effects: Effects,
    /// Grants of the plugin.
    whole: Arc<Grants>,
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

    /// Returns the names that a tool with these effects may call. An effect on one slot is none on
    /// tools by full name.
    fn narrowed(&self, effects: &Effects) -> Self {
        match effects.reach(Effect::CallTools) {
            None => Self::default(),
            Some(Reach::All) => self.clone(),
            Some(Reach::Named(names)) => {
                let slots = self.slots.iter().filter(|(slot, _)| names.contains(*slot));
                let slots = slots.map(|(slot, tool)| (slot.clone(), tool.clone()));
                Self { slots: slots.collect(), full: BTreeSet::new() }
            }
        }
    }
}

impl Grants {
    /// Returns the grants that a tool with these effects may use. The configuration, the scratch
    /// directory and the clocks are no effects: they change nothing outside the call.
    pub(crate) fn narrowed(self: &Arc<Self>, effects: &Effects) -> Self {
        let stores = self
            .stores
            .iter()
            .filter(|store| store.is_cache || effects.covers(Effect::ReadKv, &store.name));
        let secrets = self.secrets.iter().filter(|name| effects.covers(Effect::Secret, name));
        let has_secrets = effects.contains(Effect::Secret);
        let revealed =
            self.revealed.iter().filter(|(name, _)| effects.covers(Effect::Secret, name));
        let revealed = revealed.map(|(name, secret)| (name.clone(), secret.clone()));
        Self {
            directories: self.directories_for(effects),
            stores: stores.cloned().collect(),
            tools: self.tools.narrowed(effects),
            http: self.policy_for(effects),
            credentials: if has_secrets { self.credentials.clone() } else { Arc::default() },
            secrets: Arc::new(secrets.cloned().collect()),
            revealed: Arc::new(revealed.collect()),
            narrowing: Some(Narrowing { effects: effects.clone(), whole: self.clone() }),
            ..(**self).clone()
        }
    }

    fn directories_for(&self, effects: &Effects) -> Vec<Directory> {
        let readable = self
            .directories
            .iter()
            .filter(|directory| effects.covers(Effect::ReadFiles, &directory.request));
        let narrowed = readable.map(|directory| {
            let is_writable = effects.covers(Effect::WriteFiles, &directory.request);
            let access = if is_writable { directory.access } else { Access::ReadOnly };
            Directory { access, ..directory.clone() }
        });
        narrowed.collect()
    }

    fn policy_for(&self, effects: &Effects) -> Option<Arc<Policy>> {
        let policy = self.http.as_ref()?;
        Some(match effects.reach(Effect::Http)? {
            Reach::All => policy.clone(),
            Reach::Named(names) => Arc::new(policy.narrowed(&self.destinations, names)),
        })
    }

    /// Returns the effect that the running tool would have to declare for the use of a granted
    /// request; `None` if it declares it, or if nothing of this name is granted. Without a name,
    /// an effect on any request is enough.
    pub(crate) fn undeclared(
        &self,
        effect: Effect,
        request: Option<&str>,
    ) -> Option<DeclaredEffect> {
        let Narrowing { effects, whole } = self.narrowing.as_ref()?;
        if !effects.contains(effect) {
            return Some(effect.into());
        }
        let request = request.filter(|name| !effects.covers(effect, name))?;
        whole.effect_on(effect, request)
    }

    /// Returns the effect on a granted request; `None` if nothing of this name is granted.
    fn effect_on(&self, effect: Effect, request: &str) -> Option<DeclaredEffect> {
        let is_granted = match effect {
            Effect::ReadFiles | Effect::WriteFiles => {
                self.directories.iter().any(|directory| directory.request == request)
            }
            Effect::Http => self.destinations.contains_key(request),
            Effect::Secret => self.secrets.contains(request),
            Effect::ReadKv | Effect::WriteKv => {
                self.stores.iter().any(|store| store.name == request)
            }
            // A full name is no request of its own.
            Effect::CallTools if self.tools.full.contains(request) => return Some(effect.into()),
            Effect::CallTools => self.tools.slots.contains_key(request),
        };
        let request = Some(request.to_owned());
        is_granted.then_some(DeclaredEffect { effect, request })
    }

    /// Returns the requests of the directories that the plugin may change and the running tool may
    /// not.
    pub(crate) fn unwritable(&self) -> Vec<String> {
        let whole =
            self.narrowing.as_ref().map_or(&[][..], |narrowing| &narrowing.whole.directories);
        writable(whole).difference(&writable(&self.directories)).cloned().collect()
    }
}

fn writable(directories: &[Directory]) -> BTreeSet<String> {
    directories
        .iter()
        .filter(|directory| directory.access == Access::ReadWrite)
        .map(|directory| directory.request.clone())
        .collect()
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
    /// Name of the request that it is granted under: its own, or `*`.
    pub request: String,
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
pub struct KvStore {
    /// Its name in the guest: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// Most bytes that it may hold for one tenant, or for all of them if it is shared: its keys and
    /// values, and an overhead for each entry.
    pub max_bytes: u64,
    /// True if all tenants read and write the same entries. Otherwise each has its own.
    pub is_shared: bool,
    /// True if every tool may read and write it, without an effect: it only keeps what can be
    /// obtained again.
    pub is_cache: bool,
}

#[cfg(test)]
mod tests {
    use airlock_egress::Policy;

    use super::*;

    /// Returns grants of everything that an effect covers, most of it twice.
    fn everything() -> Arc<Grants> {
        Arc::new(Grants {
            directories: vec![directory("a", "a"), directory("b", "b"), directory("c", "*")],
            scratch: Some(Quota { bytes: 1, files: 1 }),
            stores: vec![store("a"), store("b")],
            tools: ToolNames {
                slots: [("a".to_owned(), Some("p-a".to_owned())), ("b".to_owned(), None)].into(),
                full: ["p-b".to_owned()].into(),
            },
            clocks: true,
            http: Some(Arc::new(Policy::closed())),
            destinations: Arc::new([("a".to_owned(), Vec::new())].into()),
            secrets: Arc::new(["a".to_owned(), "b".to_owned()].into()),
            revealed: Arc::new([("a".to_owned(), Secret::new("value"))].into()),
            ..Grants::default()
        })
    }

    fn directory(name: &str, request: &str) -> Directory {
        Directory {
            name: name.to_owned(),
            request: request.to_owned(),
            path: "/d".into(),
            access: Access::ReadWrite,
            quota: Quota { bytes: 1, files: 1 },
        }
    }

    fn store(name: &str) -> KvStore {
        KvStore { name: name.to_owned(), max_bytes: 1, is_shared: false, is_cache: false }
    }

    fn narrowed(effects: &[&str]) -> Grants {
        let effects = effects.iter().map(|text| text.parse::<DeclaredEffect>().expect("an effect"));
        everything().narrowed(&effects.collect())
    }

    /// Returns what is left of [`everything`], in words.
    fn left(effects: &[&str]) -> String {
        let grants = narrowed(effects);
        assert!(grants.scratch.is_some() && grants.clocks, "these are no effects");
        let directories = grants.directories.iter().map(|directory| match directory.access {
            Access::ReadOnly => format!("read/{}", directory.name),
            Access::ReadWrite => format!("write/{}", directory.name),
        });
        let stores = grants.stores.iter().map(|store| format!("store/{}", store.name));
        let slots = grants.tools.slots.keys().map(|slot| format!("slot/{slot}"));
        let full = grants.tools.full.iter().map(|tool| format!("full/{tool}"));
        let http = grants.http.iter().map(|_| "http".to_owned());
        let secrets = grants.secrets.iter().map(|name| format!("secret/{name}"));
        let revealed = grants.revealed.keys().map(|name| format!("revealed/{name}"));
        let all = directories.chain(stores).chain(slots).chain(full).chain(http);
        all.chain(secrets).chain(revealed).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_tool_keeps_only_the_grants_that_its_effects_cover() {
        assert_eq!(left(&[]), "");
        for (effect, expected) in [
            ("read_files", "read/a read/b read/c"),
            ("write_files", "write/a write/b write/c"),
            ("http", "http"),
            ("secret", "secret/a secret/b revealed/a"),
            ("read_kv", "store/a store/b"),
            ("write_kv", "store/a store/b"),
            ("call_tools", "slot/a slot/b full/p-b"),
        ] {
            assert_eq!(left(&[effect]), expected, "{effect}");
        }
        let all: Vec<_> = Effect::ALL.iter().map(|effect| effect.name()).collect();
        assert_eq!(
            left(&all),
            "write/a write/b write/c store/a store/b slot/a slot/b full/p-b http secret/a secret/b revealed/a"
        );
    }

    #[test]
    fn a_tool_without_effects_keeps_a_cache() {
        let mut grants = Grants::clone(&everything());
        grants.stores[1].is_cache = true;
        let narrowed = Arc::new(grants).narrowed(&Effects::default());
        let left: Vec<_> = narrowed.stores.iter().map(|store| store.name.as_str()).collect();
        assert_eq!(left, ["b"]);
    }

    #[test]
    fn an_effect_on_one_request_keeps_the_grant_of_that_one_alone() {
        for (effects, expected) in [
            (&["read_files.a"][..], "read/a"),
            (&["write_files.b"], "write/b"),
            (&["read_files", "write_files.b"], "read/a write/b read/c"),
            (&["read_files.*"], "read/c"),
            (&["http.a"], "http"),
            (&["secret.a"], "secret/a revealed/a"),
            (&["secret.b"], "secret/b"),
            (&["read_kv.a"], "store/a"),
            (&["write_kv.b"], "store/b"),
            (&["call_tools.a"], "slot/a"),
            (&["call_tools.a", "call_tools.b"], "slot/a slot/b"),
        ] {
            assert_eq!(left(effects), expected, "{effects:?}");
        }
    }

    #[test]
    fn the_effect_to_declare_is_the_one_on_a_granted_request_or_else_none() {
        for (effect, one, other) in [
            (Effect::ReadFiles, "read_files.a", "read_files.b"),
            (Effect::WriteFiles, "write_files.a", "write_files.b"),
            (Effect::Secret, "secret.a", "secret.b"),
            (Effect::ReadKv, "read_kv.a", "read_kv.b"),
            (Effect::WriteKv, "write_kv.a", "write_kv.b"),
            (Effect::CallTools, "call_tools.a", "call_tools.b"),
        ] {
            assert_eq!(missing(&[], effect, Some("b")).as_deref(), Some(effect.name()));
            assert_eq!(missing(&[one], effect, Some("b")).as_deref(), Some(other));
            for request in [None, Some("a"), Some("ungranted")] {
                assert_eq!(missing(&[one], effect, request), None, "{effect:?} {request:?}");
            }
            assert_eq!(missing(&[effect.name()], effect, Some("b")), None);
        }
        let full = missing(&["call_tools.a"], Effect::CallTools, Some("p-b"));
        assert_eq!(full.as_deref(), Some("call_tools"));
        assert_eq!(everything().undeclared(Effect::Http, None), None, "it is not narrowed");
    }

    fn missing(effects: &[&str], effect: Effect, request: Option<&str>) -> Option<String> {
        narrowed(effects).undeclared(effect, request).map(|effect| effect.to_string())
    }

    #[test]
    fn directories_that_only_other_tools_may_change_are_named_by_their_requests() {
        assert_eq!(narrowed(&["write_files.a"]).unwritable(), ["*", "b"]);
        assert!(narrowed(&["write_files"]).unwritable().is_empty());
        assert!(everything().unwritable().is_empty());
    }
}
