//! The tenants whose requests run on connections: on how many of them, in all and of each peer.
//!
//! A connection keeps the counts of its last tenant, because the next request is most likely of the same one: then
//! no table is looked at.

use std::{
    collections::{HashMap, hash_map::Entry},
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

/// The numbers of connections on which requests of a tenant run: of each peer, and of all under `None`.
#[derive(Default)]
pub(super) struct TenantCounts(HashMap<(Option<Peer>, Tenant), SharedCount>);

impl TenantCounts {
    /// Creates the claim of a tenant on a connection of `peer`.
    pub(super) fn claim(&mut self, peer: Peer, tenant: &Tenant) -> Claim {
        let counts = [None, Some(peer)]
            .map(|peer| self.0.entry((peer, tenant.clone())).or_default().clone());
        Claim { tenant: tenant.clone(), requests: 0, counts }
    }

    /// Removes a claim on a connection of `peer`, and the counts that no other connection has.
    pub(super) fn remove(&mut self, peer: Peer, mut claim: Claim) {
        claim.end();
        let Claim { tenant, counts, .. } = claim;
        drop(counts);
        for peer in [None, Some(peer)] {
            if let Entry::Occupied(count) = self.0.entry((peer, tenant.clone()))
                && Arc::strong_count(count.get()) == 1
            {
                count.remove();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The requests of a tenant on one connection.
pub(super) struct Claim {
    tenant: Tenant,
    /// Number of those that run.
    requests: usize,
    /// Numbers of connections on which requests of the tenant run: of all peers, and of the peer of this one.
    counts: [SharedCount; 2],
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
        let [all, _] = &self.counts;
        all.load(Ordering::Relaxed)
    }

    /// Counts a request. False if the tenant has its share of `max` connections, or of `max_per_peer` here.
    pub(super) fn begin(&mut self, max: usize, max_per_peer: usize) -> bool {
        if self.requests == 0 {
            let mut limited = self.counts.iter().zip([max, max_per_peer]);
            if limited.any(|(count, max)| count.load(Ordering::Relaxed) >= share(max)) {
                return false;
            }
            for count in &self.counts {
                count.fetch_add(1, Ordering::Relaxed);
            }
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
            for count in &self.counts {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the part of a maximum that one tenant may have.
fn share(max: usize) -> usize {
    max - max / OTHERS_PART
}
