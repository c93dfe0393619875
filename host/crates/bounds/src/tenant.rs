//! Tenants: the parties that calls are accounted to, and the division of bounded resources between
//! them.
//!
//! A [`Pool`] is a bounded resource: slots of the sandbox, memory of guests, requests in flight. A
//! [`Reservation`] is the part of it that one holder has. This module does not depend on keys or
//! guests; the owner of a resource sets its capacity. The memory of one request is a
//! [`MemoryBudget`](crate::memory::MemoryBudget) instead.

mod shares;

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest as _, Sha256};

pub use self::shares::Shares;

/// The party that a chain of calls is accounted to. Cheap to clone; `Display` is safe to log.
#[derive(Clone, PartialEq, Eq)]
pub struct Tenant(TenantKind);

#[derive(Clone, PartialEq, Eq)]
enum TenantKind {
    Gateway,
    Anonymous,
    Key(Arc<TenantKey>),
}

struct TenantKey {
    digest: [u8; 32],
    name: String,
    /// The user who came with an access token; `None` if the key is the credential.
    user: Option<User>,
}

/// A user of an identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Identifier of the issuer of the user's access tokens.
    pub issuer: String,
    /// Identifier of the user there.
    pub subject: String,
}

/// The identity of a tenant, for whom a server may have an account of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantIdentity<'t> {
    /// Identifies the tenant in stored data, see [`Tenant::scope`].
    pub scope: [u8; 32],
    /// Name of its virtual key.
    pub key_name: &'t str,
    /// The user who came with an access token; `None` if the key is the credential.
    pub user: Option<&'t User>,
}

impl PartialEq for TenantKey {
    /// Compares credentials only, so two keys with the same name are two tenants.
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for TenantKey {}

impl Tenant {
    /// The gateway itself, for example when it requests a plugin's list of tools.
    pub const GATEWAY: Self = Self(TenantKind::Gateway);
    /// All callers without a virtual key, as one tenant.
    pub const ANONYMOUS: Self = Self(TenantKind::Anonymous);

    /// Creates the tenant of a virtual key. The digest of the credential identifies it.
    pub fn of_key(digest: [u8; 32], name: impl Into<String>) -> Self {
        Self(TenantKind::Key(Arc::new(TenantKey { digest, name: name.into(), user: None })))
    }

    /// Creates the tenant of a user who came with an access token, and sees the tools of the virtual key
    /// with this name. The digest identifies the user.
    pub fn of_user(digest: [u8; 32], name: impl Into<String>, user: User) -> Self {
        Self(TenantKind::Key(Arc::new(TenantKey { digest, name: name.into(), user: Some(user) })))
    }

    /// Returns the identity; `None` for the gateway and for callers without a key.
    pub fn identity(&self) -> Option<TenantIdentity<'_>> {
        let TenantKind::Key(key) = &self.0 else { return None };
        Some(TenantIdentity { scope: self.scope(), key_name: &key.name, user: key.user.as_ref() })
    }

    /// Returns the identifier of the tenant in stored data. It is the same after a restart, and is
    /// not the digest by which keys are found.
    pub fn scope(&self) -> [u8; 32] {
        let (kind, digest): (&[u8], &[u8]) = match &self.0 {
            TenantKind::Gateway => (b"gateway", &[]),
            TenantKind::Anonymous => (b"anonymous", &[]),
            TenantKind::Key(key) => (b"key", &key.digest),
        };
        Sha256::new()
            .chain_update(b"airlock tenant ")
            .chain_update(kind)
            .chain_update(digest)
            .finalize()
            .into()
    }
}

impl Hash for Tenant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(&self.0).hash(state);
        if let TenantKind::Key(key) = &self.0 {
            key.digest.hash(state);
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            TenantKind::Gateway => f.write_str("gateway"),
            TenantKind::Anonymous => f.write_str("anonymous"),
            TenantKind::Key(key) => write!(f, "key {:?}", key.name),
        }
    }
}

impl fmt::Debug for Tenant {
    /// Leaves the digest out, because a weak credential could be guessed from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A bounded resource that tenants share, for use from many tasks. Cheap to clone; clones share the
/// resource.
#[derive(Clone)]
pub struct Pool(Arc<Mutex<Shares>>);

impl Pool {
    /// Creates a resource of `capacity` units. [`Shares`] explains `weight`.
    pub fn new(capacity: usize, weight: usize) -> Self {
        Self(Arc::new(Mutex::new(Shares::new(capacity, weight))))
    }

    /// Opens a reservation of no units for `tenant`.
    pub fn reservation(&self, tenant: Tenant) -> Reservation {
        Reservation { pool: self.clone(), tenant, amount: 0 }
    }

    /// Takes `amount` units for `tenant`; `None` if the tenant may not take that many.
    pub fn take(&self, tenant: &Tenant, amount: usize) -> Option<Reservation> {
        let mut reservation = self.reservation(tenant.clone());
        reservation.grow(amount).then_some(reservation)
    }

    /// Returns the number of units that are taken, and the capacity.
    pub fn usage(&self) -> (usize, usize) {
        let shares = self.shares();
        (shares.taken(), shares.capacity())
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.0.lock()
    }
}

/// Units of a [`Pool`] that one holder has. Dropping it returns all of them to the pool.
pub struct Reservation {
    pool: Pool,
    tenant: Tenant,
    amount: usize,
}

impl Reservation {
    /// Number of units.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes `more` units; false, and nothing is taken, if the tenant may not take that many.
    pub fn grow(&mut self, more: usize) -> bool {
        // Nothing is always admitted. Most reservations never hold anything, and need no lock.
        let taken = more == 0 || self.pool.shares().take(&self.tenant, more);
        self.amount += if taken { more } else { 0 };
        taken
    }

    /// Returns `less` units to the pool, at most those of the reservation.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.amount);
        if less > 0 {
            self.amount -= less;
            self.pool.shares().give_back(&self.tenant, less);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

airlock_strings::debug_fields!(Reservation { tenant, amount });

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Tenant {
        Tenant::of_key([number; 32], "same name")
    }

    #[test]
    fn tenants_differ_by_credential_and_display_only_their_name() {
        assert_eq!(key(1), Tenant::of_key([1; 32], "other name"));
        assert!(
            key(1) != key(2) && key(1) != Tenant::ANONYMOUS && Tenant::ANONYMOUS != Tenant::GATEWAY
        );
        assert_eq!(
            format!("{:?} {} {}", key(1), Tenant::ANONYMOUS, Tenant::GATEWAY),
            "key \"same name\" anonymous gateway"
        );
    }

    #[test]
    fn the_scope_of_a_tenant_depends_on_the_credential_alone_and_is_not_its_digest() {
        assert_eq!(key(1).scope(), Tenant::of_key([1; 32], "other name").scope());
        let scopes =
            [key(1), key(2), Tenant::ANONYMOUS, Tenant::GATEWAY].map(|tenant| tenant.scope());
        let distinct: std::collections::BTreeSet<_> = scopes.iter().collect();
        assert_eq!(distinct.len(), scopes.len());
        assert_ne!(scopes[0], [1; 32]);
    }

    #[test]
    fn only_a_key_or_a_user_has_an_identity() {
        assert_eq!((Tenant::ANONYMOUS.identity(), Tenant::GATEWAY.identity()), (None, None));
        let key = key(1);
        let identity = key.identity().expect("it has one");
        assert_eq!(
            (identity.scope, identity.key_name, identity.user),
            (key.scope(), "same name", None)
        );
        let user = User { issuer: "https://i".to_owned(), subject: "ann".to_owned() };
        let tenant = Tenant::of_user([2; 32], "view", user.clone());
        assert_eq!(tenant.identity().and_then(|identity| identity.user), Some(&user));
        assert_eq!(tenant.to_string(), "key \"view\"", "a subject may be an address");
    }

    #[test]
    fn a_reservation_of_nothing_never_waits_for_the_pool() {
        let pool = Pool::new(1, 1);
        // It would wait for this lock for ever.
        let held = pool.shares();
        let mut reservation = pool.reservation(key(1));
        assert!(reservation.grow(0));
        reservation.shrink(1);
        drop(reservation);
        drop(held);
    }

    #[test]
    fn reserved_units_are_returned_to_the_pool_once() {
        let pool = Pool::new(4, 3);
        let mut reservation = pool.take(&key(1), 2).expect("there is room");
        assert!(reservation.grow(1) && !reservation.grow(2), "one is left");
        reservation.shrink(9);
        assert_eq!((reservation.amount(), pool.shares().taken()), (0, 0));
        assert!(reservation.grow(3));
        assert!(pool.take(&key(1), 1).is_none(), "three quarters are one tenant's most");
        let other = pool.take(&key(2), 1).expect("the rest is for others");
        drop(reservation);
        assert_eq!(pool.shares().taken(), 1);
        drop(other);
        assert_eq!(pool.shares().taken(), 0);
    }
}
