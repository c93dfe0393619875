//! Virtual keys: credentials of callers, each with the tools that it grants. Deny by default.

mod certificate;
mod grants;
mod live;
mod membership;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};

pub(super) use self::grants::Grant;
pub use self::{
    certificate::CertificateDigest,
    grants::{Environment, Grants},
    live::LiveKeys,
    membership::Membership,
};

use super::ApprovalChoice;
use crate::{
    tenant::{Tenant, User},
    tool::{Allowlist, ClientName, Policy, UriList},
};

/// Longest name of a key, and of the environment, the team and the customer that it names, in bytes: records and messages
/// repeat it, and it is a segment of paths of the management API.
pub const MAX_KEY_NAME_BYTES: usize = 256;
/// Maximum roles of one key or sender. The name of a sender has all of them.
pub const MAX_ROLES: usize = 16;
/// Beginning of the names of keys that stand for roles. No other key has such a name.
pub const ROLES_PREFIX: &str = "roles:";
/// Separator of the roles in such a name.
const ROLES_SEPARATOR: char = ',';

/// One virtual key.
#[derive(Clone, PartialEq, Eq)]
pub struct VirtualKey {
    /// Name for people; safe to log.
    pub name: String,
    /// The credential's SHA-256. The credential itself is not kept.
    digest: [u8; 32],
    /// The credential before a rotation.
    previous: Option<PreviousCredential>,
    /// Time from which the key is refused; `None` for never.
    expires_at: Option<SystemTime>,
    /// Certificates of callers; the key is refused without one of them. Empty if it needs none.
    certificates: BTreeSet<CertificateDigest>,
    /// Tenant that its calls are accounted to.
    tenant: Tenant,
    /// Tools that the key grants.
    pub grants: Arc<Grants>,
    /// Treatment of calls that need an approval; `None` for that of the configuration.
    pub approval: Option<ApprovalChoice>,
    /// Identifiers under which its calls are counted and recorded.
    membership: Arc<Membership>,
}

/// A credential that a rotation has replaced, and that is still valid for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PreviousCredential {
    digest: [u8; 32],
    valid_until: SystemTime,
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
        Self::from_digest(name, credential_digest(credential), rows.into())
    }

    /// Creates a key from the digest of its credential, which is that of [`credential_digest`]. It is
    /// the same key, and the same tenant, as one from the credential.
    pub fn from_digest(name: impl Into<String>, digest: [u8; 32], grants: Grants) -> Self {
        let name = name.into();
        let membership = Membership {
            key: Some(name.clone()),
            key_name: Some(name.clone()),
            ..Membership::default()
        };
        Self {
            tenant: Tenant::of_key(digest, name.clone()),
            name,
            digest,
            previous: None,
            expires_at: None,
            certificates: BTreeSet::new(),
            grants: Arc::new(grants),
            approval: None,
            membership: Arc::new(membership),
        }
    }

    /// Makes an identifier name the tenant, and not the credential: the tenant stays the same when
    /// the credential is rotated.
    #[must_use]
    pub fn with_id(self, id: &str) -> Self {
        let digest = Sha256::new().chain_update(b"airlock key id ").chain_update(id).finalize();
        Self { tenant: Tenant::of_key(digest.into(), self.name.clone()), ..self }
    }

    /// Sets the time from which the key is refused; `None` for never.
    #[must_use]
    pub fn with_expiry(self, expires_at: Option<SystemTime>) -> Self {
        Self { expires_at, ..self }
    }

    /// Makes the key expire at `end` at the latest, such as the end of the access token that selects it.
    #[must_use]
    pub fn expiring_by(self, end: SystemTime) -> Self {
        let end = self.expires_at.map_or(end, |own| own.min(end));
        self.with_expiry(Some(end))
    }

    /// Sets the digest of the credential before a rotation, which finds the key until `valid_until`.
    #[must_use]
    pub fn with_previous(self, digest: [u8; 32], valid_until: SystemTime) -> Self {
        Self { previous: Some(PreviousCredential { digest, valid_until }), ..self }
    }

    /// Sets the certificates of which a caller must have shown one on the connection of the request. Empty
    /// for none.
    #[must_use]
    pub fn with_certificates(self, certificates: BTreeSet<CertificateDigest>) -> Self {
        Self { certificates, ..self }
    }

    /// Returns whether the key may be used on a connection on which the caller has shown `certificate`.
    pub fn permits(&self, certificate: Option<CertificateDigest>) -> bool {
        self.certificates.is_empty()
            || certificate.is_some_and(|shown| self.certificates.contains(&shown))
    }

    /// Returns whether the key is refused at this time.
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Sets the resources and prompts that the key grants, by client.
    #[must_use]
    pub fn with_relayed(mut self, relayed: BTreeMap<ClientName, RelayRow>) -> Self {
        Arc::make_mut(&mut self.grants).relayed = relayed;
        self
    }

    /// Sets what happens to calls that need an approval.
    #[must_use]
    pub fn with_approval(self, approval: Option<ApprovalChoice>) -> Self {
        Self { approval, ..self }
    }

    /// Sets the identifiers under which its calls are counted and recorded. A new key has its name as
    /// identifier, and belongs to no group.
    #[must_use]
    pub fn with_membership(self, membership: Membership) -> Self {
        Self { membership: Arc::new(membership), ..self }
    }

    /// Identifiers under which its calls are counted and recorded.
    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// SHA-256 of its current value.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Tenant that its calls are accounted to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Creates the key of a user who came with an access token and sees the tools of this key. The user
    /// is a tenant of its own.
    #[must_use]
    pub fn on_behalf_of(&self, user: User) -> Self {
        let mut hasher = Sha256::new().chain_update(b"airlock identity ");
        for part in [&user.issuer, &user.subject] {
            hasher = hasher.chain_update((part.len() as u64).to_be_bytes()).chain_update(part);
        }
        let digest = hasher.finalize().into();
        Self { tenant: Tenant::of_user(digest, self.name.clone(), user), digest, ..self.clone() }
    }

    /// Returns whether the holder of the key may know of `client`: the key has a row for it, or the
    /// client permits the key; its environment has the client, and the client does not belong to others.
    pub fn knows(&self, client: &ClientName, policy: &Policy) -> bool {
        self.grants.knows(client, policy)
    }
}

impl fmt::Debug for VirtualKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualKey")
            .field("name", &self.name)
            .field("rows", &self.grants.rows)
            .finish_non_exhaustive()
    }
}

/// All virtual keys, indexed by the digests of their credentials; and the roles of senders that come
/// with an access token.
#[derive(Clone, Default)]
pub struct Keys {
    by_digest: BTreeMap<[u8; 32], Arc<VirtualKey>>,
    /// The keys that were rotated, by the digests before.
    rotated: BTreeMap<[u8; 32], Arc<VirtualKey>>,
    by_name: BTreeMap<String, Arc<VirtualKey>>,
    roles: BTreeMap<String, Grants>,
    /// The keys that stand for the roles of the configured views, by view.
    views: BTreeMap<String, Arc<VirtualKey>>,
}

impl Keys {
    /// Collects keys. If two keys have the same credential or the same name, the later one is kept;
    /// the configuration refuses that case.
    pub fn new(keys: impl IntoIterator<Item = VirtualKey>) -> Self {
        let mut collected = Self::default();
        for key in keys.into_iter().map(Arc::new) {
            collected.by_digest.insert(key.digest, key.clone());
            if let Some(previous) = &key.previous {
                collected.rotated.insert(previous.digest, key.clone());
            }
            collected.by_name.insert(key.name.clone(), key);
        }
        collected
    }

    /// Finds the key with a credential that is valid at the time `now`, on a connection on which the
    /// caller has shown `certificate`. A key that needs another certificate is not found, like one that
    /// does not exist. One that is found by its credential before a rotation expires with that credential.
    /// Compares digests, so the time of the lookup does not leak the credential.
    pub fn find(
        &self,
        credential: &str,
        certificate: Option<CertificateDigest>,
        now: SystemTime,
    ) -> Option<Arc<VirtualKey>> {
        let digest = credential_digest(credential);
        let key = self.with_digest(&digest, now)?;
        if !key.permits(certificate) || key.has_expired(now) {
            return None;
        }
        // A stream that begins with the credential before a rotation must end with it.
        let previous = key.previous.filter(|previous| previous.digest == digest);
        let end = previous.map(|previous| previous.valid_until);
        Some(end.map_or_else(|| key.clone(), |end| Arc::new((**key).clone().expiring_by(end))))
    }

    /// Returns the time for which requests with the credential of `key` have the same rights from `now` on;
    /// zero if they have none, or others.
    fn time_left(&self, key: &VirtualKey, now: SystemTime) -> Duration {
        let same = self.current(key, now).filter(|own| own.grants == key.grants);
        let Some(found) = same else { return Duration::ZERO };
        let previous = found.previous.filter(|previous| previous.digest == key.digest);
        let previous = previous.map(|previous| previous.valid_until);
        let ends = [key.expires_at, found.expires_at, previous];
        let end = ends.into_iter().flatten().min();
        end.map_or(Duration::MAX, |end| end.duration_since(now).unwrap_or_default())
    }

    /// Returns the key that a request with the credential of `key` finds at the time `now`, expired or not; for a user,
    /// that of the user's view. `None` if it finds none, or one that needs other certificates.
    fn current(&self, key: &VirtualKey, now: SystemTime) -> Option<Arc<VirtualKey>> {
        let is_user = key.tenant.identity().is_some_and(|identity| identity.user.is_some());
        let found = if is_user || key.name.starts_with(ROLES_PREFIX) {
            self.view(&key.name)
        } else {
            self.with_digest(&key.digest, now).filter(|own| own.tenant == key.tenant).cloned()
        };
        found.filter(|own| own.certificates == key.certificates)
    }

    fn with_digest(&self, digest: &[u8; 32], now: SystemTime) -> Option<&Arc<VirtualKey>> {
        self.by_digest.get(digest).or_else(|| self.find_previous(digest, now))
    }

    fn find_previous(&self, digest: &[u8; 32], now: SystemTime) -> Option<&Arc<VirtualKey>> {
        let key = self.rotated.get(digest)?;
        key.previous.is_some_and(|previous| now < previous.valid_until).then_some(key)
    }

    /// Finds a key by its name, expired or not.
    pub fn named(&self, name: &str) -> Option<&Arc<VirtualKey>> {
        self.by_name.get(name)
    }

    /// Adds the roles, by name. A name has no `,`.
    #[must_use]
    pub fn with_roles(self, roles: BTreeMap<String, Grants>) -> Self {
        Self { roles, views: BTreeMap::new(), ..self }
    }

    /// Makes the keys that stand for the roles of these views, so that no request has to. Call it after
    /// [`Self::with_roles`].
    #[must_use]
    pub fn with_views<'v>(self, views: impl IntoIterator<Item = &'v str>) -> Self {
        let views = views.into_iter();
        let views = views.filter_map(|view| Some((view.to_owned(), self.of_roles(view)?)));
        let views: BTreeMap<_, _> = views.collect();
        Self { views, ..self }
    }

    /// Finds the key with the tools that a view names: that of this name, expired or not, or the one
    /// that stands for the [roles](roles_view) of the view, which no credential finds. `None` if the key
    /// or one of the roles does not exist.
    pub fn view(&self, view: &str) -> Option<Arc<VirtualKey>> {
        if !view.starts_with(ROLES_PREFIX) {
            return self.named(view).cloned();
        }
        // The running verifier may have views of an older configuration.
        self.views.get(view).cloned().or_else(|| self.of_roles(view))
    }

    /// Makes the key that stands for the roles of a view; `None` if it names none, or one of them does
    /// not exist.
    fn of_roles(&self, view: &str) -> Option<Arc<VirtualKey>> {
        if !view.starts_with(ROLES_PREFIX) {
            return None;
        }
        let mut grants = Grants::default();
        for role in roles_of_view(view) {
            grants.add_rows(self.roles.get(role)?);
        }
        Some(Arc::new(VirtualKey::from_digest(view, Sha256::digest(view).into(), grants)))
    }

    /// Returns all keys, those that have expired included.
    pub fn iter(&self) -> impl Iterator<Item = &VirtualKey> {
        self.by_digest.values().map(|key| &**key)
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }
}

impl fmt::Debug for Keys {
    /// Leaves the digests out, because a weak credential could be guessed from them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Returns the view of a sender with these roles: the name of the key that stands for them.
pub fn roles_view(roles: &[String]) -> String {
    format!("{ROLES_PREFIX}{}", roles.join(&ROLES_SEPARATOR.to_string()))
}

/// Returns the roles of such a view; none for one that names a key.
pub fn roles_of_view(view: &str) -> impl Iterator<Item = &str> {
    let roles = view.strip_prefix(ROLES_PREFIX);
    roles.into_iter().flat_map(|roles| roles.split(ROLES_SEPARATOR))
}

/// Returns the digest by which a credential is found: its SHA-256.
pub fn credential_digest(credential: &str) -> [u8; 32] {
    Sha256::digest(credential.as_bytes()).into()
}

#[cfg(test)]
mod tests;
