//! Virtual keys: credentials of callers, each with the tools that it grants. Deny by default.

use std::{collections::BTreeMap, fmt, sync::Arc};

use sha2::{Digest, Sha256};

use super::ApprovalChoice;
use crate::{
    tenant::Tenant,
    tool::{Allowlist, ClientName, Policy, Tool, UriList},
};

/// One virtual key.
#[derive(Clone, PartialEq, Eq)]
pub struct VirtualKey {
    /// Name for people; safe to log.
    pub name: String,
    /// The credential's SHA-256. The credential itself is not kept.
    digest: [u8; 32],
    /// Tenant that its calls are accounted to.
    tenant: Tenant,
    /// Tools that the key grants, by client. A client without a row is denied, unless its policy
    /// allows all keys.
    pub rows: BTreeMap<ClientName, Allowlist>,
    /// Resources and prompts that the key grants, by client. A client with a row for its tools and
    /// none here is denied.
    relayed: BTreeMap<ClientName, RelayRow>,
    /// Treatment of calls that need an approval; `None` for that of the configuration.
    pub approval: Option<ApprovalChoice>,
}

/// Resources and prompts of one client that a key grants. The default grants none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayRow {
    /// Resources that may be read.
    pub resources: UriList,
    /// Prompts that may be got.
    pub prompts: Allowlist,
}

impl VirtualKey {
    /// Creates a key from its configured credential.
    pub fn new(
        name: impl Into<String>,
        credential: &str,
        rows: BTreeMap<ClientName, Allowlist>,
    ) -> Self {
        let name = name.into();
        let digest = digest(credential);
        let tenant = Tenant::of_key(digest, name.clone());
        Self { tenant, name, digest, rows, relayed: BTreeMap::new(), approval: None }
    }

    /// Sets the resources and prompts that the key grants, by client.
    #[must_use]
    pub fn with_relayed(self, relayed: BTreeMap<ClientName, RelayRow>) -> Self {
        Self { relayed, ..self }
    }

    /// Sets what happens to calls that need an approval.
    #[must_use]
    pub fn with_approval(self, approval: Option<ApprovalChoice>) -> Self {
        Self { approval, ..self }
    }

    /// Returns the resources and prompts of `client` that the key grants. As for tools, a row takes
    /// precedence over the client's `allow_on_all_keys`.
    pub(super) fn relayed(&self, client: &ClientName, policy: &Policy) -> RelayRow {
        if self.rows.contains_key(client) || self.relayed.contains_key(client) {
            return self.relayed.get(client).cloned().unwrap_or_default();
        }
        if policy.allow_on_all_keys {
            return RelayRow { resources: UriList::All, prompts: Allowlist::All };
        }
        RelayRow::default()
    }

    /// Tenant that its calls are accounted to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Creates the key of a sender that came with another credential and sees the tools of this key.
    /// `identity` names the sender without ambiguity; it is a tenant of its own.
    #[must_use]
    pub fn on_behalf_of(&self, identity: &[&str]) -> Self {
        let mut hasher = Sha256::new().chain_update(b"airlock identity ");
        for part in identity {
            hasher = hasher.chain_update((part.len() as u64).to_be_bytes()).chain_update(part);
        }
        let digest = hasher.finalize().into();
        Self { tenant: Tenant::of_key(digest, self.name.clone()), digest, ..self.clone() }
    }

    /// Returns whether the key grants `tool` of `client`. A row takes precedence over the client's
    /// `allow_on_all_keys`, even if the row is empty.
    pub(super) fn admits(&self, client: &ClientName, policy: &Policy, tool: &Tool) -> bool {
        match self.rows.get(client) {
            Some(row) => row.allows_tool(tool),
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

/// All virtual keys, indexed by the digest of the credential.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    by_digest: BTreeMap<[u8; 32], Arc<VirtualKey>>,
}

impl Keys {
    /// Collects keys. If two keys have the same credential, the later one is kept; the
    /// configuration refuses that case.
    pub fn new(keys: impl IntoIterator<Item = VirtualKey>) -> Self {
        Self { by_digest: keys.into_iter().map(|key| (key.digest, Arc::new(key))).collect() }
    }

    /// Finds the key with a credential. Compares digests, so the time of the lookup does not leak
    /// the credential.
    pub fn find(&self, credential: &str) -> Option<Arc<VirtualKey>> {
        self.by_digest.get(&digest(credential)).cloned()
    }

    /// Finds a key by its name.
    pub fn named(&self, name: &str) -> Option<&Arc<VirtualKey>> {
        self.by_digest.values().find(|key| key.name == name)
    }

    /// Returns all keys.
    pub fn iter(&self) -> impl Iterator<Item = &VirtualKey> {
        self.by_digest.values().map(|key| &**key)
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }
}

fn digest(credential: &str) -> [u8; 32] {
    Sha256::digest(credential.as_bytes()).into()
}
