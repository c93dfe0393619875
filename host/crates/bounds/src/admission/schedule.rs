//! Slots of one depth: the number that each tenant has, and the choice of the next call. Pure: it
//! knows neither tasks nor time.
//!
//! A call belongs to a [`Flow`]: one tenant's calls of one guest. Two limits apply to it: one on
//! its tenant, over all slots, and one on its flow, over the guest's share. It gets a slot if it is
//! within both ([`Shares`] defines the limits). So a tenant leaves slots to other tenants, whatever
//! it calls. A guest leaves slots to other guests, whichever tenant calls it. In a guest's share,
//! each tenant leaves some slots to the next. Of the waiting calls within their limits, one of the
//! tenant with the fewest slots runs first; tenants with equally many take turns.

use std::collections::HashMap;

use super::queue::{Queue, Ticket};
use crate::tenant::{Shares, Tenant};

/// Weight that divides all slots: one tenant alone gets at most seven eighths.
const TENANT_WEIGHT: usize = 7;
/// Weight that divides one guest's share: one tenant alone gets at most three quarters.
const FLOW_WEIGHT: usize = 3;

/// A plugin, or an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GuestId(pub(super) u64);

/// One tenant's calls of one guest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub(super) tenant: Tenant,
    pub(super) guest: GuestId,
}

/// Slots, and the calls that wait for one. A `W` stands for a waiting call.
///
/// Invariant between two operations: no waiting call is within its limits.
#[derive(Debug)]
pub(super) struct Schedule<W> {
    slots: Shares,
    /// Shares of the guests that have a slot.
    guests: HashMap<GuestId, Shares>,
    /// Share of the last guest that had a slot and has none now. The next guest takes it, so that calls one after the
    /// other allocate no table each.
    spare: Option<Shares>,
    /// Most slots that one guest may have: three quarters. So a guest that takes all it can get, by
    /// sleeping in every call for example, leaves some to the others.
    share: usize,
    queue: Queue<W>,
    /// Most calls that may wait.
    capacity: usize,
}

impl<W> Schedule<W> {
    pub(super) fn new(slots: usize, queue: usize) -> Self {
        Self {
            slots: Shares::new(slots, TENANT_WEIGHT),
            guests: HashMap::new(),
            spare: None,
            share: slots - slots / 4,
            queue: Queue::new(),
            capacity: queue,
        }
    }

    /// Takes a slot for a new call; returns false if it has to wait. It overtakes no waiting call,
    /// because none of them is within its limits.
    pub(super) fn try_start(&mut self, flow: &Flow) -> bool {
        // Taken and not asked for first: each look-up hashes a tenant, and all calls of a depth share the lock.
        if self.share == 0 || !self.slots.take(&flow.tenant, 1) {
            return false;
        }
        let has_started = self.share_of(flow.guest).take(&flow.tenant, 1);
        if !has_started {
            self.slots.give_back(&flow.tenant, 1);
        }
        has_started
    }

    /// Adds a call to the queue. In a full queue it evicts the newest call of the tenant with the
    /// most calls, running and waiting, and returns that call. Returns `None`, and changes nothing,
    /// if that tenant has fewer than two calls more than the tenant of the new call, or if the flow
    /// of the new call already fills three quarters of the queue.
    pub(super) fn wait(&mut self, flow: &Flow, waiter: W) -> Option<(Ticket, Option<W>)> {
        if self.queue.len_of(flow) >= self.capacity - self.capacity / 4 {
            return None;
        }
        let evicted = if self.queue.len() < self.capacity {
            None
        } else {
            Some(self.push_out(&flow.tenant)?)
        };
        Some((self.queue.push(flow, waiter), evicted))
    }

    /// Releases a slot. Returns the calls that run now, each with its slot taken.
    pub(super) fn leave(&mut self, flow: &Flow) -> Vec<(Flow, W)> {
        self.slots.give_back(&flow.tenant, 1);
        if let Some(share) = self.guests.get_mut(&flow.guest) {
            share.give_back(&flow.tenant, 1);
            if share.taken() == 0 {
                self.spare = self.guests.remove(&flow.guest);
            }
        }
        // There may be several: every free slot raises the limits of each tenant.
        let mut admitted = Vec::new();
        while let Some((flow, waiter)) = self.admit_next() {
            admitted.push((flow, waiter));
        }
        admitted
    }

    /// Removes a call from the queue; `None` if it is no longer there.
    pub(super) fn abandon(&mut self, flow: &Flow, ticket: Ticket) -> Option<W> {
        self.queue.remove(flow, ticket)
    }

    /// Returns whether the tenant of a call has less than its part, of all slots or of the guest's
    /// share, while another tenant has more.
    pub(super) fn is_unfair_to(&self, flow: &Flow) -> bool {
        self.slots.is_unfair_to(&flow.tenant)
            || self.guests.get(&flow.guest).is_some_and(|share| share.is_unfair_to(&flow.tenant))
    }

    fn admits(&self, flow: &Flow) -> bool {
        let share_admits = match self.guests.get(&flow.guest) {
            Some(share) => share.admits(&flow.tenant, 1),
            None => self.share > 0,
        };
        share_admits && self.slots.admits(&flow.tenant, 1)
    }

    fn take(&mut self, flow: &Flow) {
        self.slots.take(&flow.tenant, 1);
        self.share_of(flow.guest).take(&flow.tenant, 1);
    }

    /// Returns the share of a guest, which takes a slot of it next.
    fn share_of(&mut self, guest: GuestId) -> &mut Shares {
        self.guests.entry(guest).or_insert_with(|| {
            self.spare.take().unwrap_or_else(|| Shares::new(self.share, FLOW_WEIGHT))
        })
    }

    fn admit_next(&mut self) -> Option<(Flow, W)> {
        if self.queue.len() == 0 {
            return None;
        }
        let flow =
            self.queue.next(|flow| self.admits(flow).then(|| self.slots.held_by(&flow.tenant)))?;
        let waiter = self.queue.pop(&flow)?;
        self.take(&flow);
        Some((flow, waiter))
    }

    fn push_out(&mut self, newcomer: &Tenant) -> Option<W> {
        let largest = self.queue.tenants().max_by_key(|tenant| self.calls_of(tenant))?.clone();
        // A difference of one call is not enough: the two tenants would evict each other's calls in
        // turn.
        if self.calls_of(&largest) < self.calls_of(newcomer) + 2 {
            return None;
        }
        self.queue.remove_newest(&largest)
    }

    /// Returns the number of a tenant's calls that run or wait.
    fn calls_of(&self, tenant: &Tenant) -> usize {
        self.slots.held_by(tenant) + self.queue.len_of_tenant(tenant)
    }
}

#[cfg(test)]
mod tests;
