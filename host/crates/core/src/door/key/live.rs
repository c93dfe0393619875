//! The virtual keys of a running gateway.

use std::{sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;

use super::{CertificateDigest, Keys, VirtualKey};

/// The virtual keys of a running gateway, which are replaced as a whole while it serves. A reader never
/// waits. Cheap to clone; clones share the keys.
#[derive(Debug, Clone, Default)]
pub struct LiveKeys(Arc<ArcSwap<Keys>>);

impl LiveKeys {
    /// Creates the keys that a gateway starts with.
    pub fn new(keys: Keys) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(keys)))
    }

    /// Finds the key with a credential that is valid at the time `now`, on a connection on which the
    /// caller has shown `certificate`, as [`Keys::find`] does.
    pub fn find(
        &self,
        credential: &str,
        certificate: Option<CertificateDigest>,
        now: SystemTime,
    ) -> Option<Arc<VirtualKey>> {
        self.0.load().find(credential, certificate, now)
    }

    /// Finds a key by its name, expired or not.
    pub fn named(&self, name: &str) -> Option<Arc<VirtualKey>> {
        self.0.load().named(name).cloned()
    }

    /// Finds the key with the tools that a view names, as [`Keys::view`] does.
    pub fn view(&self, view: &str) -> Option<Arc<VirtualKey>> {
        self.0.load().view(view)
    }

    /// Replaces all keys. Requests that have found a key before keep it until they end.
    pub fn replace(&self, keys: Keys) {
        self.0.store(Arc::new(keys));
    }

    /// Returns the keys of this moment.
    pub fn snapshot(&self) -> Arc<Keys> {
        self.0.load_full()
    }
}

impl From<Keys> for LiveKeys {
    fn from(keys: Keys) -> Self {
        Self::new(keys)
    }
}
