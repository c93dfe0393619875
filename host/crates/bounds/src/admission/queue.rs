//! Calls that wait for a slot, served in turns of their tenants. Pure: it knows neither slots nor
//! time.

use std::collections::{HashMap, VecDeque};

use super::schedule::Flow;
use crate::tenant::Tenant;

/// A lease in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Waiting calls: those of one flow in order of arrival, and the turn of each tenant.
#[derive(Debug)]
pub(super) struct Queue<W> {
    flows: HashMap<Flow, VecDeque<(Ticket, W)>>,
    /// Tenants with a waiting call.
    tenants: HashMap<Tenant, TenantTurn>,
    length: usize,
    /// Counter of arrivals and turns.
    clock: u64,
}

/// State of a tenant with a waiting call.
#[derive(Debug)]
struct TenantTurn {
    waiting: usize,
    /// Value of the clock when the tenant was last served, or joined the queue.
    since: u64,
}

impl<W> Queue<W> {
    pub(super) fn new() -> Self {
        Self { flows: HashMap::new(), tenants: HashMap::new(), length: 0, clock: 0 }
    }

    /// Returns the number of waiting calls.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Returns the number of waiting calls of one flow.
    pub(super) fn len_of(&self, flow: &Flow) -> usize {
        self.flows.get(flow).map_or(0, VecDeque::len)
    }

    /// Returns the number of waiting calls of one tenant.
    pub(super) fn len_of_tenant(&self, tenant: &Tenant) -> usize {
        self.tenants.get(tenant).map_or(0, |turn| turn.waiting)
    }

    /// Returns the tenants with a waiting call, in no order.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.keys()
    }

    /// Adds a call behind those of its flow. A tenant without a waiting call joins at the end of
    /// the round.
    pub(super) fn push(&mut self, flow: &Flow, waiter: W) -> Ticket {
        let now = self.tick();
        let turn = self
            .tenants
            .entry(flow.tenant.clone())
            .or_insert(TenantTurn { waiting: 0, since: now });
        turn.waiting += 1;
        self.length += 1;
        self.flows.entry(flow.clone()).or_default().push_back((Ticket(now), waiter));
        Ticket(now)
    }

    /// Returns the flow to serve next, of those for which `rank` returns a rank: the lowest rank
    /// first, then the tenant that has waited longest for its turn, then the call that came first.
    pub(super) fn next<R: Ord>(&self, rank: impl Fn(&Flow) -> Option<R>) -> Option<Flow> {
        let candidates = self.flows.iter().filter_map(|(flow, waiting)| {
            let since = self.tenants.get(&flow.tenant)?.since;
            Some(((rank(flow)?, since, waiting.front()?.0), flow))
        });
        candidates.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, flow)| flow.clone())
    }

    /// Removes the first call of a flow and ends the turn of its tenant.
    pub(super) fn pop(&mut self, flow: &Flow) -> Option<W> {
        let (_, waiter) = self.flows.get_mut(flow)?.pop_front()?;
        let now = self.tick();
        if let Some(turn) = self.tenants.get_mut(&flow.tenant) {
            turn.since = now;
        }
        self.forget(flow);
        Some(waiter)
    }

    /// Removes one call, wherever it is in the queue; `None` if it is no longer there.
    pub(super) fn remove(&mut self, flow: &Flow, ticket: Ticket) -> Option<W> {
        let waiting = self.flows.get_mut(flow)?;
        let at = waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()?;
        let (_, waiter) = waiting.remove(at)?;
        self.forget(flow);
        Some(waiter)
    }

    /// Removes the newest call of a tenant.
    pub(super) fn remove_newest(&mut self, tenant: &Tenant) -> Option<W> {
        let flows = self.flows.iter().filter(|(flow, _)| flow.tenant == *tenant);
        let newest = flows.max_by_key(|(_, waiting)| waiting.back().map(|(ticket, _)| *ticket));
        let flow = newest?.0.clone();
        let (_, waiter) = self.flows.get_mut(&flow)?.pop_back()?;
        self.forget(&flow);
        Some(waiter)
    }

    /// Subtracts one call, and removes its flow or tenant if that has no other.
    fn forget(&mut self, flow: &Flow) {
        self.length -= 1;
        if self.flows.get(flow).is_some_and(VecDeque::is_empty) {
            self.flows.remove(flow);
        }
        if let Some(turn) = self.tenants.get_mut(&flow.tenant) {
            turn.waiting -= 1;
            if turn.waiting == 0 {
                self.tenants.remove(&flow.tenant);
            }
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}
