//! The lock policy: which components the accepted state permits to be loaded.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use super::{Drift, Lock, LockError, Metadata, PluginError};
use crate::tool::ClientName;

/// Decides whether a component may be loaded, by the lock file as it is at that moment.
pub(super) struct LockPolicy {
    /// `None` if the configuration was not loaded from a file.
    path: Option<PathBuf>,
    /// True once the lock file was seen; it must not disappear after that.
    was_seen: AtomicBool,
}

impl LockPolicy {
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        Self { path, was_seen: AtomicBool::new(false) }
    }

    /// Returns the path of the lock file; `None` if the configuration was not loaded from a file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Fails if a plugin differs from its accepted state. Without a lock file every plugin passes,
    /// unless there was a lock file before. A configuration without a file has no accepted state,
    /// and its plugins pass as accepted.
    pub(super) fn check(
        &self,
        client: &ClientName,
        metadata: &Metadata,
    ) -> Result<(), PluginError> {
        let Some(path) = &self.path else { return Ok(()) };
        let found = Lock::load(path);
        if !matches!(found, Ok(None)) {
            self.was_seen.store(true, Ordering::Relaxed);
        }
        let Some(lock) = found? else {
            // Otherwise, an attacker who can remove a file beside the configuration could load any
            // component.
            if self.was_seen.load(Ordering::Relaxed) {
                return Err(LockError::Gone { path: path.clone() }.into());
            }
            return Ok(());
        };
        match lock.pin(client) {
            // The digest covers the descriptors too: they are embedded in the component or produced
            // by its code.
            Some(pin) if pin.component == metadata.digest => Ok(()),
            _ => Drift::between(&lock, client, metadata).map_or(Ok(()), |drift| Err(drift.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::plugin::LOCK_FILE;

    fn client() -> ClientName {
        ClientName::parse("guest").expect("a name")
    }

    fn metadata() -> Metadata {
        Metadata::new(b"one", Vec::new(), None, Vec::new())
    }

    #[test]
    fn a_missing_lock_is_accepted_only_if_there_never_was_one() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(LOCK_FILE);
        let (policy, client, metadata) =
            (LockPolicy::new(Some(path.clone())), client(), metadata());
        let check = || policy.check(&client, &metadata);
        for _ in 0..2 {
            check().expect("no state was ever accepted");
        }
        let mut lock = Lock::default();
        lock.accept(&client, &metadata);
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
        let policy = LockPolicy::new(Some(path.clone()));
        fs::write(&path, "this is a text").expect("written");
        assert!(policy.check(&client(), &metadata()).is_err());
        fs::remove_file(&path).expect("removed");
        assert!(policy.check(&client(), &metadata()).is_err());
    }

    #[test]
    fn a_component_that_is_not_the_accepted_one_is_refused_and_without_a_file_every_one_passes() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join(LOCK_FILE);
        let mut lock = Lock::default();
        lock.accept(&client(), &metadata());
        lock.save(&path).expect("written");
        let other = Metadata::new(b"two", Vec::new(), None, Vec::new());
        let error = LockPolicy::new(Some(path)).check(&client(), &other).expect_err("refused");
        assert!(matches!(error, PluginError::Drift(_)), "{error:?}");
        LockPolicy::new(None).check(&client(), &other).expect("it passes");
    }
}
