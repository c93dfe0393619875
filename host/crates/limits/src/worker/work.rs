//! The work that one transaction does: collects jobs, and divides them if another process holds a limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use airlock_store::limits::{MAX_CHANGED_LIMITS, MAX_CHANGED_RESERVATIONS};
use tokio::{sync::oneshot, time::Instant};

use super::{StoreJob, TakeReply};
use crate::{
    batch::{Batch, Settlement, Take},
    live::{LeaseWish, LiveLimit},
};

/// Most requests and calls of one transaction: all of them wait until its end, and so does other
/// work of their limits.
const TAKES_AT_ONCE: usize = 256;

/// A batch, and the callers of its takes.
#[derive(Default)]
pub(super) struct BatchWork {
    pub(super) batch: Batch,
    pub(super) replies: Vec<oneshot::Sender<TakeReply>>,
}

/// A batch that is being collected.
#[derive(Default)]
pub(super) struct CollectedBatch {
    pub(super) work: BatchWork,
    pub(super) flushed: Vec<oneshot::Sender<()>>,
    /// Limits whose counts are forgotten after the batch.
    pub(super) removed: BTreeSet<String>,
    /// True if the unused parts of all shares are returned after the batch.
    pub(super) returns_shares: bool,
    /// Addresses of the limits of the batch.
    limits: BTreeSet<usize>,
    pub(super) wishes: BTreeMap<String, (Arc<LiveLimit>, LeaseWish)>,
}

impl CollectedBatch {
    /// Returns whether one more job with this number of limits can be added.
    pub(super) fn has_room_for(&self, limits: usize) -> bool {
        self.limits.len() + limits <= MAX_CHANGED_LIMITS
            // One less, because the job that begins a batch is added in any case.
            && self.work.batch.settlements.len() + 1 < MAX_CHANGED_RESERVATIONS
            && self.work.batch.takes.len() < TAKES_AT_ONCE
    }

    pub(super) fn add(&mut self, job: StoreJob, now: Instant) {
        match job {
            StoreJob::Settle(settlement) => self.settle(settlement),
            StoreJob::ReturnShares => self.returns_shares = true,
            StoreJob::Flush(flushed) => self.flushed.push(flushed),
            StoreJob::Forget(removed) => self.removed.extend(removed),
            StoreJob::Take { take, reply, place } => {
                drop(place);
                self.take(take, reply, now);
            }
        }
    }

    pub(super) fn settle(&mut self, settlement: Settlement) {
        self.limits.extend(settlement.limits().map(address));
        self.work.batch.settlements.push(settlement);
    }

    fn take(&mut self, take: Take, reply: oneshot::Sender<TakeReply>, now: Instant) {
        self.limits.extend(take.limits().map(address));
        for demand in take.demands.iter().filter(|_| take.request.is_none()) {
            if let Some(wish) = demand.limit.local.wish(demand.amount, now) {
                let id = demand.limit.limit.id.clone();
                self.wishes.insert(id, (demand.limit.clone(), wish));
            }
        }
        self.work.batch.takes.push(take);
        self.work.replies.push(reply);
    }
}

impl BatchWork {
    /// Leaves out the takes whose callers have left.
    pub(super) fn drop_cancelled(&mut self) {
        let takes = mem::take(&mut self.batch.takes);
        let replies = mem::take(&mut self.replies);
        for (take, reply) in takes.into_iter().zip(replies) {
            if !reply.is_closed() {
                self.batch.takes.push(take);
                self.replies.push(reply);
            }
        }
    }

    /// Divides the work into that which needs one of these limits, and the rest.
    pub(super) fn divide(self, held: &BTreeSet<String>) -> [Self; 2] {
        let Self { batch: Batch { settlements, takes, wishes }, replies } = self;
        let [mut of_held, mut rest] = [Self::default(), Self::default()];
        for settlement in settlements {
            let needs = is_any_of(settlement.limits(), held);
            let work = if needs { &mut of_held } else { &mut rest };
            work.batch.settlements.push(settlement);
        }
        for (take, reply) in takes.into_iter().zip(replies) {
            let needs = is_any_of(take.limits(), held);
            let work = if needs { &mut of_held } else { &mut rest };
            work.batch.takes.push(take);
            work.replies.push(reply);
        }
        // A share that is not leased is asked for again.
        let free = wishes.into_iter().filter(|(limit, _)| !held.contains(&limit.limit.id));
        rest.batch.wishes = free.collect();
        [of_held, rest]
    }
}

impl Batch {
    /// Returns whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.settlements.is_empty() && self.takes.is_empty() && self.wishes.is_empty()
    }
}

/// Returns whether one of some limits is held.
fn is_any_of<'l>(
    mut limits: impl Iterator<Item = &'l Arc<LiveLimit>>,
    held: &BTreeSet<String>,
) -> bool {
    limits.any(|limit| held.contains(&limit.limit.id))
}

fn address(limit: &Arc<LiveLimit>) -> usize {
    Arc::as_ptr(limit).addr()
}
