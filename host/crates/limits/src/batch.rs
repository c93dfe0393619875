//! The requests and calls that are counted in one transaction of the store.
//!
//! First the charges of those that have ended are corrected, then amounts are taken for those that are about
//! to run, in the order of their arrival. Each one takes the amounts of all its limits or of none. Shares
//! are leased last, of what is left then.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use airlock_store::limits::{CountSelection, Counts, ReservationKey, StoredReservation};
use tokio::time::Instant;

use crate::{
    count::{Charge, Count},
    live::{LeaseWish, LiveLimit},
    refusal::LimitRefusal,
};

/// Time after which a reservation that was not settled counts as used up. Longer than any request runs.
const RESERVED_FOR_MS: i64 = 6 * 60 * 60 * 1_000;

/// An amount of one limit that a request or call needs.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    pub(crate) limit: Arc<LiveLimit>,
    /// The amount, as far as it is left.
    pub(crate) amount: u64,
    /// The amount that has to be left.
    pub(crate) least: u64,
}

/// The demands of a request or call, in the order of the identifiers of their limits, each limit once.
#[derive(Debug, Clone)]
pub(crate) struct Take {
    pub(crate) demands: Vec<Demand>,
    /// Identifier of a request whose amounts are reserved; `None` if they are known already.
    pub(crate) request: Option<String>,
}

/// The charge of one limit, and the amount that was really used.
#[derive(Debug, Clone)]
pub(crate) struct Correction {
    pub(crate) limit: Arc<LiveLimit>,
    pub(crate) charge: Charge,
    pub(crate) actual: u64,
}

/// The charges of a request or call that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Settlement {
    /// Identifier of the request whose amounts are reserved. It is settled once, however often this is
    /// repeated.
    pub(crate) request: Option<String>,
    pub(crate) corrections: Vec<Correction>,
}

/// The work of one transaction.
#[derive(Debug, Default, Clone)]
pub(crate) struct Batch {
    pub(crate) settlements: Vec<Settlement>,
    pub(crate) takes: Vec<Take>,
    /// Shares to lease, each limit once.
    pub(crate) wishes: Vec<(Arc<LiveLimit>, LeaseWish)>,
}

/// The result of a batch that was committed.
#[derive(Debug, Default)]
pub(crate) struct BatchOutcome {
    /// For each take, the charges of its demands.
    pub(crate) takes: Vec<Result<Vec<Charge>, Box<LimitRefusal>>>,
    /// For each wish, the share, and the time for which it is counted elsewhere.
    pub(crate) leases: Vec<Option<(Charge, Duration)>>,
}

impl Take {
    /// Returns its limits.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Arc<LiveLimit>> {
        self.demands.iter().map(|demand| &demand.limit)
    }
}

impl Settlement {
    /// Returns its limits.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Arc<LiveLimit>> {
        self.corrections.iter().map(|correction| &correction.limit)
    }
}

impl Batch {
    /// Returns the rows of the store that the work needs.
    pub(crate) fn selection(&self) -> CountSelection {
        let settled = self.settlements.iter().flat_map(Settlement::limits);
        let taken = self.takes.iter().flat_map(Take::limits);
        let leased = self.wishes.iter().map(|(limit, _)| limit);
        let limits = settled.chain(taken).chain(leased).map(|limit| limit.limit.id.clone());
        let requests = self.settlements.iter().filter_map(|settlement| settlement.request.clone());
        CountSelection { limits: limits.collect(), requests: requests.collect() }
    }

    /// Does the work.
    pub(crate) fn apply(&self, counts: &mut Counts) -> BatchOutcome {
        let mut rows = Rows { counts, open: BTreeMap::new(), changed: BTreeSet::new() };
        // Before the settlements, whose limits may be those of an older configuration.
        for limit in self.takes.iter().flat_map(Take::limits) {
            rows.count(limit);
        }
        for settlement in &self.settlements {
            rows.settle(settlement);
        }
        let takes = self.takes.iter().map(|take| rows.take(take)).collect();
        let leases = self.wishes.iter().map(|(limit, wish)| rows.lease(limit, *wish)).collect();
        let now = Instant::now();
        for limit in self.takes.iter().flat_map(Take::limits) {
            let count = rows.count(limit);
            limit.local.note_left(count.left(), count.most(), now);
        }
        rows.store();
        BatchOutcome { takes, leases }
    }
}

/// The counts that the work has opened.
struct Rows<'b> {
    counts: &'b mut Counts,
    open: BTreeMap<&'b str, Count<'b>>,
    changed: BTreeSet<&'b str>,
}

impl<'b> Rows<'b> {
    fn count(&mut self, limit: &'b LiveLimit) -> &mut Count<'b> {
        let id = limit.limit.id.as_str();
        let counts = &*self.counts;
        self.open
            .entry(id)
            .or_insert_with(|| Count::open(&limit.limit, counts.get(id), counts.now_ms))
    }

    fn change(&mut self, limit: &'b LiveLimit) -> &mut Count<'b> {
        self.changed.insert(&limit.limit.id);
        self.count(limit)
    }

    fn settle(&mut self, settlement: &'b Settlement) {
        for Correction { limit, charge, actual } in &settlement.corrections {
            let mut charge = *charge;
            if let Some(request) = &settlement.request {
                let key = key(request, limit);
                let Some(reserved) = self.counts.end_reservation(&key) else { continue };
                charge.amount = reserved.amount;
            }
            // A limit that was removed has no count any more, and gets none by this.
            if charge.amount != *actual && self.count(limit).settle(charge, *actual) {
                self.changed.insert(&limit.limit.id);
            }
        }
    }

    fn take(&mut self, take: &'b Take) -> Result<Vec<Charge>, Box<LimitRefusal>> {
        for demand in &take.demands {
            let count = self.count(&demand.limit);
            if count.left() < demand.least {
                return Err(Box::new(refusal(demand, count)));
            }
        }
        let charges = take.demands.iter().map(|demand| {
            let count = self.change(&demand.limit);
            let amount = demand.amount.min(count.left());
            count.take(amount)
        });
        let charges: Vec<_> = charges.collect();
        if let Some(request) = &take.request {
            self.reserve(request, &take.demands, &charges);
        }
        Ok(charges)
    }

    fn reserve(&mut self, request: &str, demands: &[Demand], charges: &[Charge]) {
        let expires_ms = self.counts.now_ms.saturating_add(RESERVED_FOR_MS);
        for (demand, charge) in demands.iter().zip(charges) {
            let Charge { amount, bucket_ms, epoch_ms } = *charge;
            let reservation = StoredReservation { amount, bucket_ms, epoch_ms, expires_ms };
            self.counts.reserve(key(request, &demand.limit), reservation);
        }
    }

    fn lease(&mut self, limit: &'b LiveLimit, wish: LeaseWish) -> Option<(Charge, Duration)> {
        let leased = self.count(limit).lease(wish.amount, wish.least)?;
        self.changed.insert(&limit.limit.id);
        Some(leased)
    }

    /// Hands the counts that were changed over to be stored.
    fn store(self) {
        let Self { counts, open, changed } = self;
        for (id, count) in open.iter().filter(|(id, _)| changed.contains(*id)) {
            counts.set(id, count.stored().clone());
        }
    }
}

fn key(request: &str, limit: &LiveLimit) -> ReservationKey {
    ReservationKey { id: request.to_owned(), limit: limit.limit.id.clone() }
}

fn refusal(demand: &Demand, count: &Count<'_>) -> LimitRefusal {
    LimitRefusal {
        limit: demand.limit.limit.clone(),
        most: count.most(),
        needed: demand.least,
        left: Some(count.left()),
        retry_after: count.wait(demand.least),
    }
}
