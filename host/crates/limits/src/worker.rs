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

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use airlock_core::tenant::Reservation;
use airlock_store::{
    LazyDatabase, Unavailable,
    limits::{MAX_CHANGED_LIMITS, MAX_CHANGED_RESERVATIONS},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use tracing::warn;

use crate::{
    batch::{Batch, BatchOutcome, Correction, Settlement, Take},
    count::Charge,
    live::{LeaseWish, LiveLimit},
    refusal::LimitRefusal,
};

/// Most requests and calls that wait for the store. The next ones fail.
pub(crate) const QUEUE: usize = 1_024;
/// Most settlements that wait for the store to be available again. Of further ones, the whole reservation
/// counts as used.
pub(crate) const MAX_UNSETTLED: usize = 4_096;
/// Most requests and calls of one transaction.
const MAX_TAKES: usize = 256;
/// Pause after a failure before settlements are tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// Time for which a limit that another process holds is left out. Then the work of others waits for it again.
const LEFT_OUT: Duration = Duration::from_secs(1);
/// Time between two searches for reservations that have expired.
const TIDY_EVERY: Duration = Duration::from_mins(10);

/// Most limits of one request or call. One with more fails.
pub(crate) const MAX_APPLIED: usize = 64;

/// Work for the store.
pub(crate) enum Job {
    /// Takes amounts.
    Take {
        take: Take,
        reply: oneshot::Sender<TakeReply>,
        /// The place of its tenant among those that wait.
        place: Reservation,
    },
    /// Corrects charges.
    Settle(Settlement),
    /// Is answered once all jobs before it are done.
    Flush(oneshot::Sender<()>),
}

/// Result of a take.
pub(crate) type TakeReply = Result<Taken, TakeFailure>;

/// Amounts that were taken. Dropping the value returns them, because its caller has left.
pub(crate) struct Taken {
    queue: mpsc::WeakSender<Job>,
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
    jobs: mpsc::Receiver<Job>,
    /// Sender of jobs.
    queue: mpsc::WeakSender<Job>,
    /// Settlements that have failed.
    unsettled: VecDeque<Settlement>,
    /// Time before which they are not tried again.
    paused_until: Instant,
    /// Limits of which a share is counted here.
    leased: BTreeMap<String, Arc<LiveLimit>>,
    /// Limits that another process holds, which may have been stopped.
    held: BTreeSet<String>,
    /// Time from which they are tried again.
    held_until: Instant,
    tidy_at: Instant,
}

/// A batch, and the callers of its takes.
#[derive(Default)]
struct Work {
    batch: Batch,
    replies: Vec<oneshot::Sender<TakeReply>>,
}

/// Work that was not done.
struct FailedWork {
    work: Work,
    error: Unavailable,
}

/// A batch that is being collected.
#[derive(Default)]
struct Collected {
    batch: Batch,
    replies: Vec<oneshot::Sender<TakeReply>>,
    flushed: Vec<oneshot::Sender<()>>,
    /// Addresses of the limits of the batch.
    limits: BTreeSet<usize>,
    wishes: BTreeMap<String, (Arc<LiveLimit>, LeaseWish)>,
}

impl Worker {
    pub(crate) fn new(
        store: LazyDatabase,
        jobs: mpsc::Receiver<Job>,
        queue: mpsc::WeakSender<Job>,
    ) -> Self {
        let now = Instant::now();
        Self {
            store,
            jobs,
            queue,
            unsettled: VecDeque::new(),
            paused_until: now,
            leased: BTreeMap::new(),
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
            let collected = self.collect(job);
            self.carry_out(collected).await;
            self.tidy().await;
        }
    }

    fn wake_at(&self) -> Instant {
        let leases = self.leased.values().filter_map(|limit| limit.local.lease_end());
        let retry = (!self.unsettled.is_empty()).then_some(self.paused_until);
        leases.chain(retry).fold(self.tidy_at, Instant::min)
    }

    /// Collects the work that waits.
    fn collect(&mut self, first: Option<Job>) -> Collected {
        let mut collected = Collected::default();
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
            next =
                if collected.has_room_for(MAX_APPLIED) { self.jobs.try_recv().ok() } else { None };
        }
        collected
    }

    /// Returns the unused parts of the shares whose time is over.
    fn end_leases(&mut self, collected: &mut Collected, now: Instant) {
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

    async fn carry_out(&mut self, mut collected: Collected) {
        collected.drop_cancelled();
        let Collected { mut batch, replies, flushed, wishes, .. } = collected;
        batch.wishes = wishes.into_values().collect();
        if let Some(rest) = self.leave_out(Work { batch, replies })
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
    fn leave_out(&mut self, work: Work) -> Option<Work> {
        let is_held = Instant::now() < self.held_until && !self.held.is_empty();
        let rest = if is_held {
            let [held, rest] = work.divide(&self.held);
            self.fail(&held.batch, held.replies, &Unavailable::Locked);
            rest
        } else {
            work
        };
        (!rest.batch.is_empty()).then_some(rest)
    }

    /// Does the work. Returns it if that fails.
    async fn commit(&mut self, work: Work) -> Option<FailedWork> {
        let Work { batch, replies } = work;
        let batch = Arc::new(batch);
        // The time of a share begins before that of the database, so that it ends no later.
        let begun = Instant::now();
        match transact(&self.store, batch.clone()).await {
            Ok(outcome) => {
                self.finish(&batch, replies, outcome, begun);
                None
            }
            Err(error) => {
                let work = Work { batch: Arc::unwrap_or_clone(batch), replies };
                Some(FailedWork { work, error })
            }
        }
    }

    /// Does the part of the work whose limits no other process holds, once. The rest fails.
    async fn commit_free(&mut self, failed: FailedWork) {
        let FailedWork { work, error } = failed;
        let held = self.held_limits(&work.batch, &error).await;
        if held.is_empty() {
            self.fail(&work.batch, work.replies, &error);
            return;
        }
        self.held = held;
        self.held_until = Instant::now() + LEFT_OUT;
        if let Some(rest) = self.leave_out(work)
            && let Some(FailedWork { work, error }) = self.commit(rest).await
        {
            self.fail(&work.batch, work.replies, &error);
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
                Ok(charges) => Ok(Taken::new(&self.queue, take, &charges)),
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

    fn fail(
        &mut self,
        batch: &Batch,
        replies: Vec<oneshot::Sender<TakeReply>>,
        error: &Unavailable,
    ) {
        for reply in replies {
            let _ = reply.send(Err(TakeFailure::Unavailable(error.to_string())));
        }
        self.paused_until = Instant::now() + PAUSE;
        // Others may have been made although the connection was lost, and are not repeated.
        let repeatable = batch.settlements.iter().filter(|settlement| settlement.request.is_some());
        for settlement in repeatable {
            self.keep(settlement.clone());
        }
    }

    fn keep(&mut self, settlement: Settlement) {
        if self.unsettled.len() < MAX_UNSETTLED {
            self.unsettled.push_back(settlement);
        } else {
            warn!("a reservation of limits counts as used, because too many wait for the database");
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

impl Taken {
    fn new(queue: &mpsc::WeakSender<Job>, take: &Take, charges: &[Charge]) -> Self {
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

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(settlement) = self.settlement.take()
            && let Some(queue) = self.queue.upgrade()
        {
            // If the queue is full, the amounts count as used.
            let _ = queue.try_send(Job::Settle(settlement));
        }
    }
}

fn address(limit: &Arc<LiveLimit>) -> usize {
    Arc::as_ptr(limit).addr()
}

impl Collected {
    /// Returns whether one more job with this number of limits can be added.
    fn has_room_for(&self, limits: usize) -> bool {
        self.limits.len() + limits <= MAX_CHANGED_LIMITS
            // One less, because the job that begins a batch is added in any case.
            && self.batch.settlements.len() + 1 < MAX_CHANGED_RESERVATIONS
            && self.batch.takes.len() < MAX_TAKES
    }

    fn add(&mut self, job: Job, now: Instant) {
        match job {
            Job::Settle(settlement) => self.settle(settlement),
            Job::Flush(flushed) => self.flushed.push(flushed),
            Job::Take { take, reply, place } => {
                drop(place);
                self.take(take, reply, now);
            }
        }
    }

    fn settle(&mut self, settlement: Settlement) {
        self.limits
            .extend(settlement.corrections.iter().map(|correction| address(&correction.limit)));
        self.batch.settlements.push(settlement);
    }

    fn take(&mut self, take: Take, reply: oneshot::Sender<TakeReply>, now: Instant) {
        self.limits.extend(take.demands.iter().map(|demand| address(&demand.limit)));
        for demand in take.demands.iter().filter(|_| take.request.is_none()) {
            if let Some(wish) = demand.limit.local.wish(demand.amount, now) {
                let id = demand.limit.limit.id.clone();
                self.wishes.insert(id, (demand.limit.clone(), wish));
            }
        }
        self.batch.takes.push(take);
        self.replies.push(reply);
    }

    /// Leaves out the takes whose callers have left.
    fn drop_cancelled(&mut self) {
        let takes = std::mem::take(&mut self.batch.takes);
        let replies = std::mem::take(&mut self.replies);
        for (take, reply) in takes.into_iter().zip(replies) {
            if !reply.is_closed() {
                self.batch.takes.push(take);
                self.replies.push(reply);
            }
        }
    }
}

impl Work {
    /// Divides the work into that which needs one of these limits, and the rest.
    fn divide(self, held: &BTreeSet<String>) -> [Self; 2] {
        let Self { batch: Batch { settlements, takes, wishes }, replies } = self;
        let [mut of_held, mut rest] = [Self::default(), Self::default()];
        for settlement in settlements {
            let mut limits = settlement.corrections.iter().map(|correction| &correction.limit);
            let needs = limits.any(|limit| held.contains(&limit.limit.id));
            let work = if needs { &mut of_held } else { &mut rest };
            work.batch.settlements.push(settlement);
        }
        for (take, reply) in takes.into_iter().zip(replies) {
            let mut limits = take.demands.iter().map(|demand| &demand.limit);
            let needs = limits.any(|limit| held.contains(&limit.limit.id));
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
    fn is_empty(&self) -> bool {
        self.settlements.is_empty() && self.takes.is_empty() && self.wishes.is_empty()
    }
}
