//! The task that asks the store: one transaction at a time, for all requests and calls that wait.
//!
//! ```text
//! begin ──Take──▶ queue ──▶ batch ──▶ one transaction ──▶ replies
//! end ──Settle──▶   │         ▲
//!                   └─────────┴── shares whose time is over; settlements that failed before
//! ```
//!
//! With one transaction in flight, the work that arrives meanwhile is the next batch: the more calls, the
//! fewer transactions for each. The places of the store's lanes are left to others.

mod work;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use airlock_core::tenant::Reservation;
use airlock_store::{LazyDatabase, Unavailable};
use arc_swap::ArcSwap;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use tracing::warn;

use self::work::{BatchWork, CollectedBatch};
use crate::{
    batch::{Batch, BatchOutcome, Correction, Settlement, Take},
    count::Charge,
    live::LiveLimit,
    refusal::LimitRefusal,
    set::LimitSet,
};

/// Most requests and calls that wait for the store. The next ones fail.
pub(crate) const QUEUE: usize = 1_024;
/// Most settlements that wait for the store to be available again: each request that ends meanwhile
/// leaves one, with up to [`MAX_APPLIED`] corrections. Of further ones, the whole reservation
/// counts as used.
pub(crate) const MAX_UNSETTLED: usize = 4_096;
/// Pause after a failure before settlements are tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// Time for which a limit that another process holds is left out. Then the work of others waits for it again.
const LEFT_OUT: Duration = Duration::from_secs(1);
/// Time between two searches for reservations that have expired.
const TIDY_EVERY: Duration = Duration::from_mins(10);

/// Most limits of one request or call. One with more fails. Work is added to a transaction while it
/// has room for this many of the [`MAX_CHANGED_LIMITS`](airlock_store::limits::MAX_CHANGED_LIMITS)
/// that it may lock.
pub(crate) const MAX_APPLIED: usize = 64;

/// Work for the store.
pub(crate) enum StoreJob {
    /// Takes amounts.
    Take {
        take: Take,
        reply: oneshot::Sender<TakeReply>,
        /// The place of its tenant among those that wait.
        place: Reservation,
    },
    /// Corrects charges.
    Settle(Settlement),
    /// Forgets the counts of limits that were removed.
    Forget(BTreeSet<String>),
    /// Returns the unused parts of all shares. From then on, none is leased.
    ReturnShares,
    /// Completes once all jobs before it are done.
    Flush(oneshot::Sender<()>),
}

/// Result of a take.
pub(crate) type TakeReply = Result<TakenAmounts, TakeFailure>;

/// Amounts that were taken. Dropping the value returns them, because its caller has left.
pub(crate) struct TakenAmounts {
    queue: mpsc::WeakSender<StoreJob>,
    /// `None` once they are kept.
    settlement: Option<Settlement>,
}

/// Reason that nothing was taken.
#[derive(Debug, Clone)]
pub(crate) enum TakeFailure {
    Refused(Box<LimitRefusal>),
    /// The store cannot be used. Safe for callers.
    Unavailable(String),
}

pub(crate) struct Worker {
    store: LazyDatabase,
    /// The limits of the gateway.
    set: Arc<ArcSwap<LimitSet>>,
    jobs: mpsc::Receiver<StoreJob>,
    /// Sender of jobs.
    queue: mpsc::WeakSender<StoreJob>,
    /// Settlements that have failed.
    unsettled: VecDeque<Settlement>,
    /// Limits that were removed and whose counts are not forgotten yet.
    removed: BTreeSet<String>,
    /// Time before which both are not tried again.
    paused_until: Instant,
    /// Limits of which a share is counted here.
    leased: BTreeMap<String, Arc<LiveLimit>>,
    /// True if no further share is leased, because the gateway ends.
    is_ending: bool,
    /// Limits that another process holds, which may have been stopped.
    held: BTreeSet<String>,
    /// Time from which they are tried again.
    held_until: Instant,
    tidy_at: Instant,
}

/// Work that was not done.
struct FailedWork {
    work: BatchWork,
    error: Unavailable,
}

impl Worker {
    pub(crate) fn new(
        store: LazyDatabase,
        set: Arc<ArcSwap<LimitSet>>,
        jobs: mpsc::Receiver<StoreJob>,
        queue: mpsc::WeakSender<StoreJob>,
    ) -> Self {
        let now = Instant::now();
        Self {
            store,
            set,
            jobs,
            queue,
            unsettled: VecDeque::new(),
            removed: BTreeSet::new(),
            paused_until: now,
            leased: BTreeMap::new(),
            is_ending: false,
            held: BTreeSet::new(),
            held_until: now,
            tidy_at: now + TIDY_EVERY,
        }
    }

    /// Works until the limiter is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let job = match timeout_at(self.wake_at(), self.jobs.recv()).await {
                Ok(None) => return,
                Ok(Some(job)) => Some(job),
                Err(_) => None,
            };
            let mut collected = self.collect(job);
            let removed = mem::take(&mut collected.removed);
            let returns_shares = collected.returns_shares;
            self.carry_out(collected).await;
            if returns_shares {
                self.return_shares().await;
            }
            self.forget(removed).await;
            self.tidy().await;
        }
    }

    fn wake_at(&self) -> Instant {
        let leases = self.leased.values().filter_map(|limit| limit.local.lease_end());
        let has_failed = !self.unsettled.is_empty() || !self.removed.is_empty();
        let retry = has_failed.then_some(self.paused_until);
        leases.chain(retry).fold(self.tidy_at, Instant::min)
    }

    /// Collects the work that waits.
    fn collect(&mut self, first: Option<StoreJob>) -> CollectedBatch {
        let mut collected = CollectedBatch::default();
        let now = Instant::now();
        self.end_leases(&mut collected, now);
        if self.paused_until <= now {
            while let Some(settlement) = self.unsettled.pop_front() {
                if !collected.has_room_for(settlement.corrections.len() + MAX_APPLIED) {
                    self.unsettled.push_front(settlement);
                    break;
                }
                collected.settle(settlement);
            }
        }
        let mut next = first;
        while let Some(job) = next {
            collected.add(job, now);
            // What follows a removal may be of a limit that was added again, and counts after it. A flush that
            // follows the return of shares waits for it.
            let is_open = collected.removed.is_empty() && !collected.returns_shares;
            let has_room = is_open && collected.has_room_for(MAX_APPLIED);
            next = if has_room { self.jobs.try_recv().ok() } else { None };
        }
        collected
    }

    /// Returns the unused parts of the shares whose time is over.
    fn end_leases(&mut self, collected: &mut CollectedBatch, now: Instant) {
        self.leased.retain(|_, limit| {
            if limit.local.lease_end().is_none() {
                return false;
            }
            if !collected.has_room_for(1 + MAX_APPLIED) {
                return true;
            }
            let Some((charge, actual)) = limit.local.end_lease(now) else { return true };
            collected.settle(share_end(limit, charge, actual));
            false
        });
    }

    /// Returns the unused parts of all shares, in as many transactions as it takes.
    async fn return_shares(&mut self) {
        self.is_ending = true;
        while !self.leased.is_empty() {
            let mut collected = CollectedBatch::default();
            while collected.has_room_for(1)
                && let Some((_, limit)) = self.leased.pop_first()
            {
                if let Some((charge, actual)) = limit.local.take_lease() {
                    collected.settle(share_end(&limit, charge, actual));
                }
            }
            self.carry_out(collected).await;
        }
    }

    async fn carry_out(&mut self, collected: CollectedBatch) {
        let CollectedBatch { mut work, flushed, wishes, .. } = collected;
        work.drop_cancelled();
        if !self.is_ending {
            work.batch.wishes = wishes.into_values().collect();
        }
        if let Some(rest) = self.leave_out(work)
            && let Some(failed) = self.commit(rest).await
        {
            self.commit_free(failed).await;
        }
        for flushed in flushed {
            // The caller may have left.
            let _ = flushed.send(());
        }
    }

    /// Fails the work of limits that are held. Returns the rest.
    fn leave_out(&mut self, work: BatchWork) -> Option<BatchWork> {
        let is_held = Instant::now() < self.held_until && !self.held.is_empty();
        let rest = if is_held {
            let [held, rest] = work.divide(&self.held);
            self.fail(held, &Unavailable::Locked);
            rest
        } else {
            work
        };
        (!rest.batch.is_empty()).then_some(rest)
    }

    /// Does the work. Returns it if that fails.
    async fn commit(&mut self, work: BatchWork) -> Option<FailedWork> {
        let BatchWork { batch, replies } = work;
        let batch = Arc::new(batch);
        // The time of a share begins before that of the database, so that it ends no later.
        let begun = Instant::now();
        match transact(&self.store, batch.clone()).await {
            Ok(outcome) => {
                self.finish(&batch, replies, outcome, begun);
                None
            }
            Err(error) => {
                let work = BatchWork { batch: Arc::unwrap_or_clone(batch), replies };
                Some(FailedWork { work, error })
            }
        }
    }

    /// Does the part of the work whose limits no other process holds, once. The rest fails.
    async fn commit_free(&mut self, failed: FailedWork) {
        let FailedWork { work, error } = failed;
        let held = self.held_limits(&work.batch, &error).await;
        if held.is_empty() {
            self.fail(work, &error);
            return;
        }
        self.held = held;
        self.held_until = Instant::now() + LEFT_OUT;
        if let Some(rest) = self.leave_out(work)
            && let Some(FailedWork { work, error }) = self.commit(rest).await
        {
            self.fail(work, &error);
        }
    }

    /// Returns the limits of a batch that another process holds.
    async fn held_limits(&self, batch: &Batch, error: &Unavailable) -> BTreeSet<String> {
        if !matches!(error, Unavailable::Locked) {
            return BTreeSet::new();
        }
        let Ok(database) = self.store.available().await else { return BTreeSet::new() };
        database.held_limits(batch.selection().limits).await.unwrap_or_default()
    }

    fn finish(
        &mut self,
        batch: &Batch,
        replies: Vec<oneshot::Sender<TakeReply>>,
        outcome: BatchOutcome,
        begun: Instant,
    ) {
        for ((take, reply), taken) in batch.takes.iter().zip(replies).zip(outcome.takes) {
            let taken = match taken {
                Ok(charges) => Ok(TakenAmounts::new(&self.queue, take, &charges)),
                Err(refusal) => Err(TakeFailure::Refused(refusal)),
            };
            // If the caller has left, the value is dropped, which returns the amounts.
            let _ = reply.send(taken);
        }
        for correction in batch.settlements.iter().flat_map(|settlement| &settlement.corrections) {
            if correction.actual < correction.charge.amount {
                correction.limit.local.forget_refusal();
            }
        }
        for ((limit, _), lease) in batch.wishes.iter().zip(outcome.leases) {
            if let Some((charge, time)) = lease {
                if let Some((charge, actual)) = limit.local.set_lease(charge, begun + time) {
                    self.keep(share_end(limit, charge, actual));
                }
                self.leased.insert(limit.limit.id.clone(), limit.clone());
            }
        }
    }

    fn fail(&mut self, work: BatchWork, error: &Unavailable) {
        for reply in work.replies {
            let _ = reply.send(Err(TakeFailure::Unavailable(error.to_string())));
        }
        self.paused_until = Instant::now() + PAUSE;
        for settlement in work.batch.settlements {
            // Others may have been made although the connection was lost, and are not repeated.
            if settlement.request.is_some() {
                self.keep(settlement);
            }
        }
    }

    fn keep(&mut self, settlement: Settlement) {
        if self.unsettled.len() < MAX_UNSETTLED {
            self.unsettled.push_back(settlement);
        } else {
            warn!("a reservation of limits counts as used, because too many wait for the database");
        }
    }

    /// Forgets the counts of limits that were removed, and of those that could not be forgotten before.
    async fn forget(&mut self, removed: BTreeSet<String>) {
        let is_first = !removed.is_empty();
        if !self.removed.is_empty() {
            // Those that were added again meanwhile count.
            let set = self.set.load();
            self.removed.retain(|id| set.find(id).is_none());
        }
        self.removed.extend(removed);
        if self.removed.is_empty() || (!is_first && Instant::now() < self.paused_until) {
            return;
        }
        if self.store.location().is_missing_file() {
            // A store that does not exist has no counts, and is not made.
            self.removed.clear();
            return;
        }
        let forgotten = match self.store.available().await {
            Ok(database) => database.forget_counts(self.removed.clone()).await,
            Err(error) => Err(error),
        };
        match forgotten {
            Ok(()) => self.removed.clear(),
            Err(error) => {
                self.paused_until = Instant::now() + PAUSE;
                if is_first {
                    warn!(%error, "counts of removed limits stay for now; the gateway tries again");
                }
            }
        }
    }

    async fn tidy(&mut self) {
        if Instant::now() < self.tidy_at {
            return;
        }
        self.tidy_at = Instant::now() + TIDY_EVERY;
        if let Ok(database) = self.store.available().await {
            // The next time does what this one does not; the reason is logged where it occurs.
            let _ = database.forget_expired_reservations().await;
        }
    }
}

async fn transact(store: &LazyDatabase, batch: Arc<Batch>) -> Result<BatchOutcome, Unavailable> {
    let database = store.available().await?;
    database.change_counts(batch.selection(), move |counts| batch.apply(counts)).await
}

/// Returns the settlement of a share.
fn share_end(limit: &Arc<LiveLimit>, charge: Charge, actual: u64) -> Settlement {
    let correction = Correction { limit: limit.clone(), charge, actual };
    Settlement { request: None, corrections: vec![correction] }
}

impl TakenAmounts {
    fn new(queue: &mpsc::WeakSender<StoreJob>, take: &Take, charges: &[Charge]) -> Self {
        let corrections = take.demands.iter().zip(charges).map(|(demand, charge)| Correction {
            limit: demand.limit.clone(),
            charge: *charge,
            actual: 0,
        });
        let corrections = corrections.collect();
        let settlement = Settlement { request: take.request.clone(), corrections };
        Self { queue: queue.clone(), settlement: Some(settlement) }
    }

    /// Keeps the amounts: the request or call is made. Returns the corrections that charge all of them.
    pub(crate) fn keep(mut self) -> Vec<Correction> {
        let corrections = self.settlement.take().map(|settlement| settlement.corrections);
        let corrections = corrections.into_iter().flatten();
        corrections
            .map(|correction| Correction { actual: correction.charge.amount, ..correction })
            .collect()
    }
}

impl Drop for TakenAmounts {
    fn drop(&mut self) {
        if let Some(settlement) = self.settlement.take()
            && let Some(queue) = self.queue.upgrade()
        {
            // If the queue is full, the amounts count as used.
            let _ = queue.try_send(StoreJob::Settle(settlement));
        }
    }
}
