//! The limiter: asks memory and the store about each request and call.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use airlock_core::{
    door::Membership,
    tenant::{Pool, Tenant},
};
use airlock_store::LazyDatabase;
use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::{
    batch::{Correction, Demand, Settlement, Take},
    limit::{Limit, Measure},
    live::{LeasedPart, LiveLimit, RunningCount},
    metrics::LimitMetrics,
    price::PriceTable,
    refusal::{Denied, LimitRefusal},
    set::LimitSet,
    worker::{MAX_APPLIED, MAX_UNSETTLED, QUEUE, StoreJob, TakeFailure, Worker},
};

/// Longest time that a request or call waits for the store. Without a reply it is not permitted.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest time that the end of a gateway waits for settlements.
const LAST_SETTLEMENTS: Duration = Duration::from_secs(3);
/// Time after which a place among those that run is likely to be free.
const RETRY_RUNNING: Duration = Duration::from_secs(1);

/// Reason for which a request or call is refused that has no place to wait.
const FULL: &str = "too many requests wait for the database";

/// Keeps the limits of a gateway.
///
/// A caller without a limit costs a look-up in memory. For others, all amounts of a request or call are
/// taken in one transaction of the store, so that they hold for all gateways of the store together; or
/// from a share that this gateway has leased of them. Without the store, a request or call with a limit is
/// not permitted, unless the share lasts.
pub struct Limiter {
    pub(crate) store: LazyDatabase,
    set: Arc<ArcSwap<LimitSet>>,
    prices: ArcSwap<PriceTable>,
    pub(crate) metrics: LimitMetrics,
    jobs: mpsc::Sender<StoreJob>,
    /// Places of those that wait for the store. One tenant has at most half of them.
    places: Pool,
    _worker: AbortOnDropHandle<()>,
}

/// Amounts that were taken for a request or call, until it ends. Dropping the value leaves them taken.
#[derive(Debug)]
pub(crate) struct HeldAmounts {
    jobs: mpsc::Sender<StoreJob>,
    /// Identifier of a request whose amounts are reserved.
    request: Option<String>,
    charges: HeldCharges,
    _running: Vec<RunningCount>,
}

/// Place from which amounts were taken.
#[derive(Debug)]
enum HeldCharges {
    /// In shares that are counted here.
    Leased(Vec<(Arc<LiveLimit>, LeasedPart)>),
    /// In the store; with what is charged if nothing else is known.
    Stored(Vec<Correction>),
}

impl Limiter {
    /// Creates a limiter without limits, whose counts are in a store. Spawns a task, which ends when the
    /// limiter is dropped. Panics outside of a runtime.
    pub fn new(store: LazyDatabase) -> Arc<Self> {
        // Those that wait have places. The rest is for settlements, so that none is lost to a burst.
        let (jobs, queue) = mpsc::channel(QUEUE + MAX_UNSETTLED);
        let set = Arc::<ArcSwap<LimitSet>>::default();
        let worker = Worker::new(store.clone(), set.clone(), queue, jobs.downgrade());
        let worker = tokio::spawn(worker.run());
        Arc::new(Self {
            store,
            metrics: LimitMetrics::new(set.clone()),
            set,
            prices: ArcSwap::default(),
            jobs,
            places: Pool::new(QUEUE, 1),
            _worker: AbortOnDropHandle::new(worker),
        })
    }

    /// Registers the metrics of the limits.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.metrics.clone()));
    }

    /// Replaces all limits. What was counted by limits with the same identifiers stays.
    pub fn set(&self, limits: &[Limit]) {
        let older = self.set.rcu(|older| LimitSet::continuing(older, limits));
        for limit in self.set.load().changed_since(&older) {
            limit.local.forget();
        }
    }

    /// Forgets what removed limits have counted, by their identifiers, as soon as the store is available. Does
    /// not wait. Call it after [`Self::set`]. A limit with one of these identifiers that is added later begins
    /// anew.
    pub fn forget(&self, removed: BTreeSet<String>) {
        if !removed.is_empty() && self.jobs.try_send(StoreJob::Forget(removed)).is_err() {
            warn!("counts of removed limits stay, because too many requests wait for the database");
        }
    }

    /// Replaces the prices.
    pub fn set_prices(&self, prices: PriceTable) {
        self.prices.store(Arc::new(prices));
    }

    /// The prices.
    pub fn prices(&self) -> Arc<PriceTable> {
        self.prices.load_full()
    }

    /// The limits.
    pub fn limits(&self) -> Arc<LimitSet> {
        self.set.load_full()
    }

    /// Returns the unused parts of the shares that are counted here, and waits until these and what has ended are
    /// settled in the store, for some seconds at most. What is not settled by then counts as used. Call it before
    /// the end of a gateway: from then on, the store counts each call.
    pub async fn end(&self) {
        let settled = async {
            // Fails only if the worker has ended.
            let _ = self.jobs.send(StoreJob::ReturnShares).await;
            self.settled().await;
        };
        let _ = timeout(LAST_SETTLEMENTS, settled).await;
    }

    /// Waits until what has ended is settled in the store.
    async fn settled(&self) {
        let (flushed, done) = oneshot::channel();
        if self.jobs.send(StoreJob::Flush(flushed)).await.is_ok() {
            // Fails only if the worker has ended.
            let _ = done.await;
        }
    }

    /// Waits until what has ended is settled in the store, for some seconds at most.
    #[cfg(test)]
    pub(crate) async fn flush(&self) {
        let _ = timeout(LAST_SETTLEMENTS, self.settled()).await;
    }

    /// Returns whether `applies` selects any limit of a caller.
    pub(crate) fn limits_any(
        &self,
        membership: &Membership,
        applies: impl Fn(&Limit) -> bool,
    ) -> bool {
        self.set.load().of_caller(membership).any(|limit| applies(&limit.limit))
    }

    /// Returns the limits of a caller that `applies` selects, in the order of their identifiers.
    pub(crate) fn applied(
        &self,
        membership: &Membership,
        applies: impl Fn(&Limit) -> bool,
    ) -> Vec<Arc<LiveLimit>> {
        let set = self.set.load();
        let limits = set.of_caller(membership).filter(|limit| applies(&limit.limit));
        let mut limits: Vec<_> = limits.cloned().collect();
        limits.sort_unstable_by(|one, other| one.limit.id.cmp(&other.limit.id));
        limits
    }

    /// Takes the amounts of a request or call of a tenant, all or none. If the future is dropped, none are taken.
    pub(crate) async fn take(
        &self,
        tenant: &Tenant,
        limits: &[Arc<LiveLimit>],
        demands: Vec<Demand>,
        request: Option<String>,
    ) -> Result<HeldAmounts, Denied> {
        // A refusal that is known now costs the store nothing. The place itself is taken last, so that one that
        // waits for the store keeps none from others, who may share this limit alone.
        check_running(limits)?;
        let charges = self.charge(tenant, demands, request.clone()).await?;
        let held = HeldAmounts { jobs: self.jobs.clone(), request, charges, _running: Vec::new() };
        match running(limits) {
            Ok(running) => Ok(HeldAmounts { _running: running, ..held }),
            Err(denied) => {
                held.release();
                Err(denied)
            }
        }
    }

    async fn charge(
        &self,
        tenant: &Tenant,
        demands: Vec<Demand>,
        request: Option<String>,
    ) -> Result<HeldCharges, Denied> {
        if demands.is_empty() {
            return Ok(HeldCharges::Stored(Vec::new()));
        }
        if demands.len() > MAX_APPLIED {
            let reason =
                format!("{} apply to one request, at most {MAX_APPLIED} may", demands.len());
            return Err(Denied::Unavailable(reason));
        }
        let now = Instant::now();
        if request.is_none()
            && let Some(parts) = leased(&demands, now)
        {
            return Ok(HeldCharges::Leased(parts));
        }
        if let Some(refusal) = repeated(&demands, now) {
            return Err(Denied::Reached(Box::new(refusal)));
        }
        self.charge_in_store(tenant, demands, request).await.map(HeldCharges::Stored)
    }

    async fn charge_in_store(
        &self,
        tenant: &Tenant,
        demands: Vec<Demand>,
        request: Option<String>,
    ) -> Result<Vec<Correction>, Denied> {
        let limits: Vec<_> = demands.iter().map(|demand| demand.limit.clone()).collect();
        let (reply, taken) = oneshot::channel();
        let place = self.places.take(tenant, 1).ok_or_else(|| unavailable(FULL))?;
        let job = StoreJob::Take { take: Take { demands, request }, reply, place };
        self.jobs.try_send(job).map_err(|_| unavailable(FULL))?;
        let taken = timeout(PATIENCE, taken).await;
        let taken = taken.map_err(|_| unavailable("the database does not reply in time"))?;
        let taken = taken.map_err(|_| unavailable("the gateway is shutting down"))?;
        match taken {
            Ok(taken) => Ok(taken.keep()),
            Err(TakeFailure::Unavailable(reason)) => Err(Denied::Unavailable(reason)),
            Err(TakeFailure::Refused(refusal)) => {
                note(&limits, &refusal);
                Err(Denied::Reached(refusal))
            }
        }
    }
}

impl HeldAmounts {
    /// Returns the amounts, because the request or call was not made.
    pub(crate) fn release(self) {
        self.settle(|_, _| Some(0));
    }

    /// Settles the amounts: `actual` returns the amount of a limit that was really used, from that which was
    /// taken; `None` for the latter. Does not block.
    pub(crate) fn settle(self, actual: impl Fn(&Limit, u64) -> Option<u64>) {
        match self.charges {
            HeldCharges::Leased(parts) => {
                for (limit, part) in parts {
                    if actual(&limit.limit, part.amount) == Some(0) {
                        limit.local.return_leased(part);
                    }
                }
            }
            HeldCharges::Stored(mut corrections) => {
                for correction in &mut corrections {
                    let taken = correction.charge.amount;
                    if let Some(amount) = actual(&correction.limit.limit, taken) {
                        correction.actual = amount;
                    }
                }
                send(&self.jobs, Settlement { request: self.request, corrections });
            }
        }
    }
}

/// Sends a settlement that changes something.
fn send(jobs: &mpsc::Sender<StoreJob>, settlement: Settlement) {
    let corrections = &settlement.corrections;
    let is_changed =
        corrections.iter().any(|correction| correction.actual != correction.charge.amount);
    let is_reserved = settlement.request.is_some() && !corrections.is_empty();
    if (is_changed || is_reserved) && jobs.try_send(StoreJob::Settle(settlement)).is_err() {
        warn!("amounts of limits count as used, because too many requests wait for the database");
    }
}

/// Fails if as many requests and calls run as one of the limits permits. Counts none.
fn check_running(limits: &[Arc<LiveLimit>]) -> Result<(), Denied> {
    match concurrent(limits).find(|limit| limit.local.running() >= limit.limit.most) {
        Some(full) => Err(all_run(full)),
        None => Ok(()),
    }
}

/// Counts a request or call among those that run, of each limit that limits them.
fn running(limits: &[Arc<LiveLimit>]) -> Result<Vec<RunningCount>, Denied> {
    let running = concurrent(limits)
        .map(|limit| limit.local.begin(limit.limit.most).ok_or_else(|| all_run(limit)));
    running.collect()
}

fn concurrent(limits: &[Arc<LiveLimit>]) -> impl Iterator<Item = &Arc<LiveLimit>> {
    limits.iter().filter(|limit| limit.limit.measure == Measure::Concurrency)
}

/// Returns the refusal of a request or call beyond those that run.
fn all_run(full: &LiveLimit) -> Denied {
    let Limit { most, .. } = full.limit;
    Denied::Reached(Box::new(LimitRefusal {
        limit: full.limit.clone(),
        most,
        needed: 1,
        left: Some(0),
        retry_after: (most > 0).then_some(RETRY_RUNNING),
    }))
}

/// Takes all amounts from shares that are counted here; `None` if one of them has no share.
fn leased(demands: &[Demand], now: Instant) -> Option<Vec<(Arc<LiveLimit>, LeasedPart)>> {
    for demand in demands {
        demand.limit.local.note_call(demand.amount, now);
    }
    let mut parts: Vec<(Arc<LiveLimit>, LeasedPart)> = Vec::with_capacity(demands.len());
    for demand in demands {
        let Some(part) = demand.limit.local.take_leased(demand.amount, now) else {
            for (limit, part) in parts {
                limit.local.return_leased(part);
            }
            return None;
        };
        parts.push((demand.limit.clone(), part));
    }
    Some(parts)
}

/// Returns a refusal of a moment ago that holds for one of the demands too.
fn repeated(demands: &[Demand], now: Instant) -> Option<LimitRefusal> {
    demands.iter().find_map(|demand| {
        let refusal = demand.limit.local.refusal(demand.least, now)?;
        Some(LimitRefusal {
            limit: demand.limit.limit.clone(),
            most: refusal.most,
            needed: demand.least,
            left: None,
            // The refusal was of a smaller amount. One above the whole limit is never left.
            retry_after: refusal.retry_after.filter(|_| demand.least <= refusal.most),
        })
    })
}

fn note(limits: &[Arc<LiveLimit>], refusal: &LimitRefusal) {
    if let Some(limit) = limits.iter().find(|limit| limit.limit.id == refusal.limit.id) {
        let LimitRefusal { needed, most, retry_after, .. } = *refusal;
        limit.local.note_refusal(needed, most, retry_after, Instant::now());
    }
}

fn unavailable(reason: &str) -> Denied {
    Denied::Unavailable(reason.to_owned())
}

airlock_strings::debug_fields!(Limiter {});
