//! The lock policy: which components the accepted state permits to be loaded.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use super::{Change, Drift, Grant, Metadata, PluginError, Publishers, Widened};
use airlock_core::tool::{ClientName, Policy};
use airlock_lock::{Lock, LockError, Pin};

/// Decides whether a component may be loaded, by the lock file as it is at that moment.
pub(super) struct LockPolicy {
    /// `None` if the configuration was not loaded from a file.
    path: Option<PathBuf>,
    /// True once the lock file was seen; it must not disappear after that.
    was_seen: AtomicBool,
    publishers: Publishers,
}

impl LockPolicy {
    pub(super) fn new(path: Option<PathBuf>, publishers: Publishers) -> Self {
        Self { path, was_seen: AtomicBool::new(false), publishers }
    }

    /// Returns the path of the lock file; `None` if the configuration was not loaded from a file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Fails if a plugin differs from its accepted state. Without a lock file every plugin passes,
    /// unless there was a lock file before, or a granted request is wider than that of the plugin that
    /// was `accepted`: the one that was loaded last. A configuration without a file has no lock file either.
    /// If a signature is required, only a plugin passes that was accepted with one of a publisher.
    pub(super) fn check(
        &self,
        client: &ClientName,
        metadata: &Metadata,
        grant: &Grant,
        policy: &Policy,
        accepted: Option<&Pin>,
    ) -> Result<(), PluginError> {
        let Some(lock) = self.lock()? else {
            self.publishers.check_pin(None)?;
            return accepted.map_or(Ok(()), |pin| not_wider(client, pin, metadata, grant, policy));
        };
        let drift = Drift::between(&lock, client, metadata, grant, policy);
        if let Some(drift) = drift.filter(Drift::is_of_component) {
            return Err(drift.into());
        }
        Ok(self.publishers.check_pin(lock.pin(client))?)
    }

    /// Reads the lock file; `None` if there is none and there never was one.
    fn lock(&self) -> Result<Option<Lock>, LockError> {
        let Some(path) = &self.path else { return Ok(None) };
        let found = Lock::load_of_plugins(path);
        if !matches!(found, Ok(None)) {
            self.was_seen.store(true, Ordering::Relaxed);
        }
        match found? {
            // Otherwise, an attacker who can remove a file beside the configuration could load any
            // component.
            None if self.was_seen.load(Ordering::Relaxed) => {
                Err(LockError::Gone { path: path.clone() })
            }
            lock => Ok(lock),
        }
    }
}

/// Fails if a granted request is wider than that of the plugin in place, or if another plugin has
/// taken its place: one with another id, or one without a manifest, which would have everything that
/// is granted. Otherwise, a build that is copied over the old one would take the grants, and the
/// secrets with them, wherever it likes.
fn not_wider(
    client: &ClientName,
    in_place: &Pin,
    metadata: &Metadata,
    grant: &Grant,
    policy: &Policy,
) -> Result<(), PluginError> {
    let lock = Lock::of_one(in_place.clone());
    let Some(drift) = Drift::between(&lock, client, metadata, grant, policy) else { return Ok(()) };
    // A plugin in place without a manifest has everything that is granted already.
    let wider = drift
        .consequential()
        .filter(|change| in_place.id.is_some() || !matches!(change, Change::Id { .. }));
    let changes: Vec<_> = wider.cloned().collect();
    if changes.is_empty() { Ok(()) } else { Err(Widened(changes).into()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::{HttpGrant, KvGrant, PublisherKey, manifest::tests::manifest_with};
    use airlock_core::tool::Allowlist;
    use airlock_lock::FILE_NAME as LOCK_FILE;

    fn client() -> ClientName {
        ClientName::parse("guest").expect("a name")
    }

    fn metadata() -> Metadata {
        Metadata::new(b"one", Vec::new(), None, Vec::new())
    }

    /// Returns a policy that requires no signatures.
    fn unsigned(path: Option<PathBuf>) -> LockPolicy {
        LockPolicy::new(path, Publishers::default())
    }

    #[test]
    fn with_a_required_signature_only_a_plugin_that_was_accepted_with_one_passes() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(LOCK_FILE);
        let key = "RWRLp0qAmXAiFOHePhm8QeNW43riADgFksLThhuAg4Lo2QLkNZh/rQ7d";
        let key = PublisherKey::parse(key).expect("a public key");
        let publishers = Publishers::new([("ann".to_owned(), key)].into(), true);
        let policy = LockPolicy::new(Some(path.clone()), publishers);
        assert!(check_unchanged(&policy).is_err(), "there is no lock file");
        for (publisher, passes) in [(None, false), (Some("eve"), false), (Some("ann"), true)] {
            let publisher = publisher.map(str::to_owned);
            let mut lock = Lock::default();
            lock.accept(Pin { publisher, ..metadata().pin(&client()) });
            lock.save(&path).expect("written");
            let checked = check_unchanged(&policy);
            assert_eq!(checked.is_ok(), passes, "{checked:?}");
        }
    }

    fn check_unchanged(policy: &LockPolicy) -> Result<(), PluginError> {
        policy.check(&client(), &metadata(), &Grant::default(), &Policy::default(), None)
    }

    #[test]
    fn a_missing_lock_is_accepted_only_if_there_never_was_one() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(LOCK_FILE);
        let policy = unsigned(Some(path.clone()));
        let client = client();
        let metadata = metadata();
        let check =
            || policy.check(&client, &metadata, &Grant::default(), &Policy::default(), None);
        for _ in 0..2 {
            check().expect("no state was ever accepted");
        }
        let mut lock = Lock::default();
        lock.accept(metadata.pin(&client));
        lock.save(&path).expect("written");
        check().expect("it is accepted");
        fs::remove_file(&path).expect("removed");
        let error = check().expect_err("refused");
        assert!(matches!(error, PluginError::Lock(LockError::Gone { .. })), "{error:?}");
        lock.save(&path).expect("written");
        check().expect("the file is back");
    }

    #[test]
    fn an_unreadable_lock_counts_as_an_existing_one() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(LOCK_FILE);
        let policy = unsigned(Some(path.clone()));
        fs::write(&path, "this is a text").expect("written");
        let check =
            || policy.check(&client(), &metadata(), &Grant::default(), &Policy::default(), None);
        assert!(check().is_err());
        fs::remove_file(&path).expect("removed");
        assert!(check().is_err());
    }

    #[test]
    fn a_component_that_is_not_the_accepted_one_is_refused_and_without_a_file_every_one_passes() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(LOCK_FILE);
        let mut lock = Lock::default();
        lock.accept(metadata().pin(&client()));
        lock.save(&path).expect("written");
        let other = Metadata::new(b"two", Vec::new(), None, Vec::new());
        let policy = unsigned(Some(path));
        let error = policy
            .check(&client(), &other, &Grant::default(), &Policy::default(), None)
            .expect_err("refused");
        assert!(matches!(error, PluginError::Drift(_)), "{error:?}");
        let policy = unsigned(None);
        policy
            .check(&client(), &other, &Grant::default(), &Policy::default(), None)
            .expect("it passes");
    }

    #[test]
    fn without_a_lock_file_a_build_with_a_wider_granted_request_does_not_replace_the_loaded_one() {
        let loaded = build(b"one", "https://api.example.com").pin(&client());
        let home = tempfile::tempdir().expect("a directory");
        let moved = build(b"two", "https://example.org");
        let narrower = build(b"two", "https://api.example.com/v1");
        let granted =
            Grant { http: vec![HttpGrant::Requested("api".to_owned())], ..Grant::default() };
        for path in [None, Some(home.path().join(LOCK_FILE))] {
            let policy = unsigned(path);
            let check = |build: &Metadata, grant: &Grant, in_place: Option<&Pin>| {
                policy.check(&client(), build, grant, &Policy::default(), in_place)
            };
            let error = check(&moved, &granted, Some(&loaded)).expect_err("refused").to_string();
            insta::allow_duplicates! {
                insta::assert_snapshot!(error, @"the new build would widen what is granted: it asks for http.api https://example.org GET,HEAD /** (granted); if you agree, restart the gateway, or pin all plugins with `airlock plugin accept --all`");
            }
            check(&narrower, &granted, Some(&loaded)).expect("it is narrower");
            check(&moved, &Grant::default(), Some(&loaded)).expect("it is not granted");
            check(&moved, &granted, None).expect("nothing is loaded");
        }
    }

    fn build(wasm: &[u8], url: &str) -> Metadata {
        let http = json!({"api": {"url": url, "reason": "r"}});
        let manifest = manifest_with(&json!({"request": {"http": http}}));
        Metadata::new(wasm, Vec::new(), Some(manifest), Vec::new())
    }

    #[test]
    fn without_a_lock_file_neither_another_plugin_nor_one_without_a_manifest_takes_the_place() {
        let loaded = build_of("p").pin(&client());
        let policy = unsigned(None);
        for other in [build_of("q"), metadata()] {
            let error = policy.check(
                &client(),
                &other,
                &Grant::default(),
                &Policy::default(),
                Some(&loaded),
            );
            let error = error.expect_err("refused").to_string();
            assert!(error.starts_with("the new build would widen what is granted: "), "{error}");
        }
        policy
            .check(&client(), &build_of("p"), &Grant::default(), &Policy::default(), Some(&loaded))
            .expect("the same");
    }

    fn build_of(id: &str) -> Metadata {
        let manifest = manifest_with(&json!({"id": id}));
        Metadata::new(id.as_bytes(), Vec::new(), Some(manifest), Vec::new())
    }

    #[test]
    fn without_a_lock_file_a_build_with_a_new_effect_of_a_tool_that_may_run_is_not_loaded() {
        let loaded = build_with_tool(b"one", "read", &[]).pin(&client());
        let renamed = build_with_tool(b"two", "Read", &["write_kv.notes"]);
        let grant =
            Grant { kv: [("notes".to_owned(), KvGrant::default())].into(), ..Grant::default() };
        let check = |allowed: &[&str]| {
            let execute = Allowlist::parse(allowed).expect("a list");
            let policy = Policy { execute, ..Policy::default() };
            unsigned(None).check(&client(), &renamed, &grant, &policy, Some(&loaded))
        };
        for allowed in [&["read"], &["*"]] {
            let error = check(allowed).expect_err("refused");
            assert!(matches!(error, PluginError::Widened(_)), "{error:?}");
        }
        check(&["other"]).expect("the tool does not run");
    }

    fn build_with_tool(wasm: &[u8], name: &str, effects: &[&str]) -> Metadata {
        let manifest = manifest_with(&json!({
            "tool": [{"name": name, "effects": effects}],
            "request": {"kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}}},
        }));
        let tools = json!([{"name": name, "inputSchema": {}}]);
        let tools = serde_json::from_value(tools).expect("tools");
        Metadata::new(wasm, tools, Some(manifest), Vec::new())
    }
}
