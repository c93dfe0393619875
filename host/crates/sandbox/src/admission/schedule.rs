//! The slots of one depth: which tenant has how many, and which call is next. Pure: it knows
//! neither tasks nor time.
//!
//! A call is of a [`Flow`]: one tenant's calls of one guest. It gets a slot if neither its tenant,
//! of all slots, nor its flow, of the guest's share, has too many already ([`Shares`] says how many
//! that are). So a tenant leaves slots to other tenants, whatever it calls; a guest leaves slots to
//! other guests, whichever tenant calls it; and in a guest's share each tenant leaves some to the
//! next. Of the calls that wait, and may run, one of the tenant with the fewest slots runs first;
//! among equals, tenants take turns.

use std::collections::HashMap;

use airlock_core::tenant::{Shares, Tenant};

use super::queue::{Queue, Ticket};

/// Divides all slots: one tenant alone gets seven eighths.
const TENANT_WEIGHT: usize = 7;
/// Divides one guest's share: one tenant alone gets three quarters.
const FLOW_WEIGHT: usize = 3;

/// A plugin, or the executor.
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
/// Between two operations no call waits that may run.
#[derive(Debug)]
pub(super) struct Schedule<W> {
    slots: Shares,
    /// Guests that have a slot.
    guests: HashMap<GuestId, Shares>,
    /// Slots that one guest may have: three quarters, so that a guest which takes all that it can
    /// get, by sleeping in every call for example, leaves some to the others.
    share: usize,
    queue: Queue<W>,
    /// Calls that may wait.
    capacity: usize,
}

impl<W> Schedule<W> {
    pub(super) fn new(slots: usize, queue: usize) -> Self {
        Self {
            slots: Shares::new(slots, TENANT_WEIGHT),
            guests: HashMap::new(),
            share: slots - slots / 4,
            queue: Queue::new(),
            capacity: queue,
        }
    }

    /// Takes a slot for a call that has just come; false if it has to wait. It overtakes no waiting
    /// call: none of them may run.
    pub(super) fn try_start(&mut self, flow: &Flow) -> bool {
        let admitted = self.admits(flow);
        if admitted {
            self.take(flow);
        }
        admitted
    }

    /// Lets a call wait. Where the queue is full it takes the place of the newest call of the
    /// tenant with the most calls, running and waiting, which is returned. `None`, and nothing
    /// changes, if that tenant has no more than the new call's own with it; or if its flow fills
    /// three quarters of the queue.
    pub(super) fn wait(&mut self, flow: &Flow, waiter: W) -> Option<(Ticket, Option<W>)> {
        if self.queue.len_of(flow) >= self.capacity - self.capacity / 4 {
            return None;
        }
        let pushed_out = if self.queue.len() < self.capacity {
            None
        } else {
            Some(self.push_out(&flow.tenant)?)
        };
        Some((self.queue.push(flow, waiter), pushed_out))
    }

    /// Gives a slot back; returns the calls that run now, each with its slot taken.
    pub(super) fn leave(&mut self, flow: &Flow) -> Vec<(Flow, W)> {
        self.slots.give_back(&flow.tenant, 1);
        if let Some(share) = self.guests.get_mut(&flow.guest) {
            share.give_back(&flow.tenant, 1);
            if share.taken() == 0 {
                self.guests.remove(&flow.guest);
            }
        }
        // More than one at times: every slot that is free lets each tenant have more.
        let mut admitted = Vec::new();
        while let Some((flow, waiter)) = self.admit_next() {
            admitted.push((flow, waiter));
        }
        admitted
    }

    /// Takes a call out of the queue; `None` if it is not there any more.
    pub(super) fn abandon(&mut self, flow: &Flow, ticket: Ticket) -> Option<W> {
        self.queue.remove(flow, ticket)
    }

    /// Whether the tenant of a call has less than its part, of all slots or of the guest's share,
    /// while another has more.
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
        let share =
            self.guests.entry(flow.guest).or_insert_with(|| Shares::new(self.share, FLOW_WEIGHT));
        share.take(&flow.tenant, 1);
    }

    fn admit_next(&mut self) -> Option<(Flow, W)> {
        if self.queue.len() == 0 {
            return None;
        }
        let flow =
            self.queue.next(|flow| self.admits(flow).then(|| self.slots.of(&flow.tenant)))?;
        let waiter = self.queue.pop(&flow)?;
        self.take(&flow);
        Some((flow, waiter))
    }

    fn push_out(&mut self, newcomer: &Tenant) -> Option<W> {
        let largest = self.queue.tenants().max_by_key(|tenant| self.calls_of(tenant))?.clone();
        // Not by one call: the two would push each other out in turns.
        if self.calls_of(&largest) < self.calls_of(newcomer) + 2 {
            return None;
        }
        self.queue.remove_newest(&largest)
    }

    /// Calls of a tenant that run or wait.
    fn calls_of(&self, tenant: &Tenant) -> usize {
        self.slots.of(tenant) + self.queue.len_of_tenant(tenant)
    }
}

#[cfg(test)]
mod tests;
