//! Tenants: who calls are accounted to, and how a bounded resource is divided between them.
//!
//! A [`Pool`] is such a resource: slots of the sandbox, memory, requests on their way. This module
//! knows neither keys nor guests; the owner of a resource says how much of it there is.

mod shares;

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use self::shares::Shares;

/// The party that a chain of calls is accounted to. Cheap to clone; `Display` is safe to log.
#[derive(Clone, PartialEq, Eq)]
pub struct Tenant(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Gateway,
    Anonymous,
    Key(Arc<Key>),
}

struct Key {
    digest: [u8; 32],
    name: String,
}

impl PartialEq for Key {
    /// By credential: two keys of one name are two tenants.
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Key {}

impl Tenant {
    /// The gateway itself, as when it asks a plugin for its tools.
    pub const GATEWAY: Self = Self(Kind::Gateway);
    /// All callers without a virtual key together.
    pub const ANONYMOUS: Self = Self(Kind::Anonymous);

    /// The holder of a virtual key, told from others by the digest of the credential.
    pub fn of_key(digest: [u8; 32], name: impl Into<String>) -> Self {
        Self(Kind::Key(Arc::new(Key { digest, name: name.into() })))
    }
}

impl Hash for Tenant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(&self.0).hash(state);
        if let Kind::Key(key) = &self.0 {
            key.digest.hash(state);
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Gateway => f.write_str("gateway"),
            Kind::Anonymous => f.write_str("anonymous"),
            Kind::Key(key) => write!(f, "key {:?}", key.name),
        }
    }
}

impl fmt::Debug for Tenant {
    /// Without the digest: a weak credential could be guessed from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A bounded resource that tenants share, for use from many tasks. Cheap to clone; clones are the
/// same resource.
#[derive(Clone)]
pub struct Pool(Arc<Mutex<Shares>>);

impl Pool {
    /// A resource of `capacity` units, divided with `weight` as [`Shares`] does.
    pub fn new(capacity: usize, weight: usize) -> Self {
        Self(Arc::new(Mutex::new(Shares::new(capacity, weight))))
    }

    /// Opens the account of one call, which holds nothing yet.
    pub fn account(&self, tenant: Tenant) -> Held {
        Held { pool: self.clone(), tenant, amount: 0 }
    }

    /// Takes `amount` for `tenant`; `None` if the tenant may not have that much.
    pub fn take(&self, tenant: &Tenant, amount: usize) -> Option<Held> {
        let mut held = self.account(tenant.clone());
        held.grow(amount).then_some(held)
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        // Counts are whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Units of a [`Pool`] that one holder has. Dropping it gives all of it back.
pub struct Held {
    pool: Pool,
    tenant: Tenant,
    amount: usize,
}

impl Held {
    /// Units held.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes `more`; false if the tenant may not have that much, in which case nothing changes.
    pub fn grow(&mut self, more: usize) -> bool {
        let taken = self.pool.shares().take(&self.tenant, more);
        self.amount += if taken { more } else { 0 };
        taken
    }

    /// Gives `less` back, at most what is held.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.amount);
        self.amount -= less;
        self.pool.shares().give_back(&self.tenant, less);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("tenant", &self.tenant)
            .field("amount", &self.amount)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Tenant {
        Tenant::of_key([number; 32], "same name")
    }

    #[test]
    fn tenants_differ_by_credential_and_show_their_name_alone() {
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
    fn what_is_held_is_given_back_once() {
        let pool = Pool::new(4, 3);
        let mut held = pool.take(&key(1), 2).expect("there is room");
        assert!(held.grow(1) && !held.grow(2), "one is left");
        held.shrink(9);
        assert_eq!((held.amount(), pool.shares().taken()), (0, 0));
        assert!(held.grow(3));
        assert!(pool.take(&key(1), 1).is_none(), "three quarters are one tenant's most");
        let other = pool.take(&key(2), 1).expect("the rest is for others");
        drop(held);
        assert_eq!(pool.shares().taken(), 1);
        drop(other);
        assert_eq!(pool.shares().taken(), 0);
    }
}
