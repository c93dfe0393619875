//! The calls that wait for a slot, in turns of their tenants. Pure: it knows neither slots nor
//! time.

use std::collections::{HashMap, VecDeque};

use airlock_core::tenant::Tenant;

use super::schedule::Flow;

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Waiting calls: those of one flow in the order in which they came, and each tenant with its turn.
#[derive(Debug)]
pub(super) struct Queue<W> {
    flows: HashMap<Flow, VecDeque<(Ticket, W)>>,
    /// Tenants of which a call waits.
    tenants: HashMap<Tenant, Turn>,
    length: usize,
    /// Counts arrivals and turns.
    clock: u64,
}

/// State of a tenant while a call of it waits.
#[derive(Debug)]
struct Turn {
    waiting: usize,
    /// When it was served last, or joined the queue.
    since: u64,
}

impl<W> Queue<W> {
    pub(super) fn new() -> Self {
        Self { flows: HashMap::new(), tenants: HashMap::new(), length: 0, clock: 0 }
    }

    /// Calls that wait.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Calls of one flow that wait.
    pub(super) fn len_of(&self, flow: &Flow) -> usize {
        self.flows.get(flow).map_or(0, VecDeque::len)
    }

    /// Calls of one tenant that wait.
    pub(super) fn len_of_tenant(&self, tenant: &Tenant) -> usize {
        self.tenants.get(tenant).map_or(0, |turn| turn.waiting)
    }

    /// Tenants of which a call waits, in no order.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.keys()
    }

    /// Adds a call behind those of its flow. A tenant that had none here joins at the end of the
    /// round.
    pub(super) fn push(&mut self, flow: &Flow, waiter: W) -> Ticket {
        let now = self.tick();
        let turn =
            self.tenants.entry(flow.tenant.clone()).or_insert(Turn { waiting: 0, since: now });
        turn.waiting += 1;
        self.length += 1;
        self.flows.entry(flow.clone()).or_default().push_back((Ticket(now), waiter));
        Ticket(now)
    }

    /// The flow that is served next of those that `rank` ranks: the lowest rank first, then the
    /// tenant that waits longest for its turn, then the call that came first.
    pub(super) fn next<R: Ord>(&self, rank: impl Fn(&Flow) -> Option<R>) -> Option<Flow> {
        let candidates = self.flows.iter().filter_map(|(flow, waiting)| {
            let since = self.tenants.get(&flow.tenant)?.since;
            Some(((rank(flow)?, since, waiting.front()?.0), flow))
        });
        candidates.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, flow)| flow.clone())
    }

    /// Takes out the first call of a flow and ends the turn of its tenant.
    pub(super) fn pop(&mut self, flow: &Flow) -> Option<W> {
        let (_, waiter) = self.flows.get_mut(flow)?.pop_front()?;
        let now = self.tick();
        if let Some(turn) = self.tenants.get_mut(&flow.tenant) {
            turn.since = now;
        }
        self.forget(flow);
        Some(waiter)
    }

    /// Takes out one call, wherever it is; `None` if it is not here any more.
    pub(super) fn remove(&mut self, flow: &Flow, ticket: Ticket) -> Option<W> {
        let waiting = self.flows.get_mut(flow)?;
        let at = waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()?;
        let (_, waiter) = waiting.remove(at)?;
        self.forget(flow);
        Some(waiter)
    }

    /// Takes out the call of a tenant that came last.
    pub(super) fn remove_newest(&mut self, tenant: &Tenant) -> Option<W> {
        let flows = self.flows.iter().filter(|(flow, _)| flow.tenant == *tenant);
        let newest = flows.max_by_key(|(_, waiting)| waiting.back().map(|(ticket, _)| *ticket));
        let flow = newest?.0.clone();
        let (_, waiter) = self.flows.get_mut(&flow)?.pop_back()?;
        self.forget(&flow);
        Some(waiter)
    }

    /// Counts one call less, and forgets a flow or tenant that has no other.
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
