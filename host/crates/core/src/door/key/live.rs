//! The virtual keys of a running gateway.

use std::{sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use tokio::{sync::watch, time::timeout};

use super::{CertificateDigest, Keys, VirtualKey};

/// The virtual keys of a running gateway, which are replaced as a whole while it serves. A reader never
/// waits. Cheap to clone; clones share the keys.
#[derive(Debug, Clone, Default)]
pub struct LiveKeys(Arc<ReplacedKeys>);

#[derive(Debug, Default)]
struct ReplacedKeys {
    now: ArcSwap<Keys>,
    /// Notified when the keys were replaced.
    changes: watch::Sender<()>,
}

impl LiveKeys {
    /// Creates the keys that a gateway starts with.
    pub fn new(keys: Keys) -> Self {
        let now = ArcSwap::from_pointee(keys);
        Self(Arc::new(ReplacedKeys { now, changes: watch::Sender::default() }))
    }

    /// Finds the key with a credential that is valid at the time `now`, on a connection on which the
    /// caller has shown `certificate`, as [`Keys::find`] does.
    pub fn find(
        &self,
        credential: &str,
        certificate: Option<CertificateDigest>,
        now: SystemTime,
    ) -> Option<Arc<VirtualKey>> {
        self.0.now.load().find(credential, certificate, now)
    }

    /// Finds a key by its name, expired or not.
    pub fn named(&self, name: &str) -> Option<Arc<VirtualKey>> {
        self.0.now.load().named(name).cloned()
    }

    /// Finds the key with the tools that a view names, as [`Keys::view`] does.
    pub fn view(&self, view: &str) -> Option<Arc<VirtualKey>> {
        self.0.now.load().view(view)
    }

    /// Returns the key that a request with the credential of `key` would find now, with the grants of now: for a user,
    /// that of the user's view. `None` if it would be refused: the key was removed, paused or rotated, has
    /// expired, or needs other certificates.
    pub fn current(&self, key: &VirtualKey) -> Option<Arc<VirtualKey>> {
        let now = SystemTime::now();
        self.0.now.load().current(key, now).filter(|found| !found.has_expired(now))
    }

    /// Replaces all keys. Requests that have found a key before keep it until they end.
    pub fn replace(&self, keys: Keys) {
        self.0.now.store(Arc::new(keys));
        self.0.changes.send_replace(());
    }

    /// Waits until a request with the credential of `key`, which a request has found before, would not find
    /// the same rights: the key was removed, rotated or given other grants, or it has expired. A stream that
    /// outlives its request ends then.
    pub async fn ended(&self, key: &VirtualKey) {
        // Before the keys are read, so that no change is missed.
        let mut changes = self.0.changes.subscribe();
        loop {
            let left = self.0.now.load().time_left(key, SystemTime::now());
            if left.is_zero() {
                return;
            }
            // The sender lives as long as `self`.
            let _ = timeout(left, changes.changed()).await;
        }
    }

    /// Returns the keys of this moment.
    pub fn snapshot(&self) -> Arc<Keys> {
        self.0.now.load_full()
    }
}

impl From<Keys> for LiveKeys {
    fn from(keys: Keys) -> Self {
        Self::new(keys)
    }
}
