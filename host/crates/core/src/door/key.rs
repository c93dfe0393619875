//! Virtual keys: credentials of callers, each with the tools that it opens. Deny by default.

use std::{collections::BTreeMap, fmt, sync::Arc};

use sha2::{Digest, Sha256};

use crate::{
    tenant::Tenant,
    tool::{ClientName, Policy, Tool, Whitelist},
};

/// One virtual key.
#[derive(Clone, PartialEq, Eq)]
pub struct VirtualKey {
    /// What people call it; safe to log.
    pub name: String,
    /// The credential's SHA-256. The credential itself is not kept.
    digest: [u8; 32],
    /// Tenant that its calls are accounted to.
    tenant: Tenant,
    /// What it opens. A client without a row is closed, unless it is open to all keys.
    pub rows: BTreeMap<ClientName, Whitelist>,
}

impl VirtualKey {
    /// A key with its credential as configured.
    pub fn new(
        name: impl Into<String>,
        credential: &str,
        rows: BTreeMap<ClientName, Whitelist>,
    ) -> Self {
        let (name, digest) = (name.into(), digest(credential));
        Self { tenant: Tenant::of_key(digest, name.clone()), name, digest, rows }
    }

    /// Tenant that its calls are accounted to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Whether the key opens `tool` of `client`. A row replaces the client's openness to all keys,
    /// even an empty row.
    pub(super) fn admits(&self, client: &ClientName, policy: &Policy, tool: &Tool) -> bool {
        match self.rows.get(client) {
            Some(row) => row.allows(&tool.original),
            None => policy.allow_on_all_keys,
        }
    }
}

impl fmt::Debug for VirtualKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualKey")
            .field("name", &self.name)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// Every key, found by credential.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    by_digest: BTreeMap<[u8; 32], Arc<VirtualKey>>,
}

impl Keys {
    /// Collects keys. Of two with one credential the later wins; the configuration refuses that
    /// case.
    pub fn new(keys: impl IntoIterator<Item = VirtualKey>) -> Self {
        Self { by_digest: keys.into_iter().map(|key| (key.digest, Arc::new(key))).collect() }
    }

    /// Finds a key. Digests are compared, so the time it takes says nothing about the credential.
    pub fn find(&self, credential: &str) -> Option<Arc<VirtualKey>> {
        self.by_digest.get(&digest(credential)).cloned()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }
}

fn digest(credential: &str) -> [u8; 32] {
    Sha256::digest(credential.as_bytes()).into()
}
