//! The tenants whose requests run on connections: on how many of them, in all and of each peer.
//!
//! A connection keeps the counts of its last tenant, because the next request is most likely of the same one: then
//! no table is looked at.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::super::peer::Peer;
use airlock_core::tenant::Tenant;

/// One in this many of a maximum is never taken by requests of one tenant.
const OTHERS_PART: usize = 4;

/// A number of connections. It changes under the lock of their table alone.
type SharedCount = Arc<AtomicUsize>;

/// The numbers of connections on which requests of a tenant run.
#[derive(Default)]
pub(super) struct TenantCounts {
    by_tenant: HashMap<Tenant, SharedCount>,
    /// The same for each peer.
    by_tenant_at: HashMap<(Peer, Tenant), SharedCount>,
}

impl TenantCounts {
    /// Creates the claim of a tenant on a connection of `peer`.
    pub(super) fn claim(&mut self, peer: Peer, tenant: &Tenant) -> Claim {
        let all = self.by_tenant.entry(tenant.clone()).or_default().clone();
        let here = self.by_tenant_at.entry((peer, tenant.clone())).or_default().clone();
        Claim { tenant: tenant.clone(), requests: 0, all, here }
    }

    /// Removes a claim on a connection of `peer`.
    pub(super) fn remove(&mut self, peer: Peer, mut claim: Claim) {
        claim.end();
        let tenant = claim.tenant.clone();
        drop(claim);
        remove_unused(&mut self.by_tenant_at, (peer, tenant.clone()));
        remove_unused(&mut self.by_tenant, tenant);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_tenant.is_empty() && self.by_tenant_at.is_empty()
    }
}

/// Removes a count that no connection has.
fn remove_unused<K: Hash + Eq>(counts: &mut HashMap<K, SharedCount>, key: K) {
    if let Entry::Occupied(count) = counts.entry(key)
        && Arc::strong_count(count.get()) == 1
    {
        count.remove();
    }
}

/// The requests of a tenant on one connection.
pub(super) struct Claim {
    tenant: Tenant,
    /// Number of those that run.
    requests: usize,
    /// Number of connections on which requests of the tenant run.
    all: SharedCount,
    /// Number of those of the same peer.
    here: SharedCount,
}

impl Claim {
    pub(super) fn is_of(&self, tenant: &Tenant) -> bool {
        self.tenant == *tenant
    }

    pub(super) fn is_running(&self) -> bool {
        self.requests > 0
    }

    /// Returns the number of connections on which requests of the tenant run.
    pub(super) fn connections(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Counts a request. False if the tenant has its share of `max` connections, or of `max_per_peer` here.
    pub(super) fn begin(&mut self, max: usize, max_per_peer: usize) -> bool {
        if self.requests == 0 {
            let here = self.here.load(Ordering::Relaxed);
            let all = self.connections();
            if here >= share(max_per_peer) || all >= share(max) {
                return false;
            }
            self.here.store(here + 1, Ordering::Relaxed);
            self.all.store(all + 1, Ordering::Relaxed);
        }
        self.requests += 1;
        true
    }

    /// Removes one request from the count.
    pub(super) fn release(&mut self) {
        if self.requests > 1 {
            self.requests -= 1;
        } else {
            self.end();
        }
    }

    /// Removes all requests from the count.
    pub(super) fn end(&mut self) {
        if mem::take(&mut self.requests) > 0 {
            self.here.fetch_sub(1, Ordering::Relaxed);
            self.all.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Returns the part of a maximum that one tenant may have.
fn share(max: usize) -> usize {
    max - max / OTHERS_PART
}
