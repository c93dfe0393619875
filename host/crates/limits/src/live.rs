//! The part of a limit that is in memory: leases, refusals of a moment ago, and what runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    count::Charge,
    limit::{Limit, Measure},
};

/// Calls in a second, on this gateway, from which on a limit is leased.
const LEASED_FROM: u32 = 50;
const SECOND: Duration = Duration::from_secs(1);
/// Calls that a share is worth at least. With fewer, the store is asked for each.
const LEAST_CALLS: u64 = 8;
/// Longest time for which a refusal is repeated without asking the store. So long is a reset or a higher
/// limit not noticed by callers that do not stop asking.
const REFUSED_FOR: Duration = Duration::from_millis(250);
/// Time for which a limit is shown as nearly used after it was counted.
const SHOWN_FOR: Duration = Duration::from_mins(1);

/// A limit, and its state in this process.
#[derive(Debug, Clone)]
pub(crate) struct LiveLimit {
    pub(crate) limit: Limit,
    pub(crate) local: Arc<LocalState>,
}

/// State of a limit in this process. It survives a change of the limits.
#[derive(Debug, Default)]
pub(crate) struct LocalState {
    /// Requests and calls that run.
    running: AtomicU64,
    shares: Mutex<Shares>,
}

#[derive(Debug, Default)]
struct Shares {
    lease: Option<ShareLease>,
    refused: Option<RecentRefusal>,
    pace: Pace,
    /// Time until which it is shown as nearly used.
    nearly_used: Option<Instant>,
}

/// A share that is counted here.
#[derive(Debug, Clone, Copy)]
struct ShareLease {
    /// The share, where the store counts it.
    charge: Charge,
    left: u64,
    until: Instant,
}

/// A refusal of a moment ago.
#[derive(Debug, Clone, Copy)]
struct RecentRefusal {
    /// An amount that was not left.
    amount: u64,
    until: Instant,
    /// Time at which the amount is left if no other one is taken; `None` for never.
    free: Option<Instant>,
    /// The limit, with an addition.
    most: u64,
}

/// Amount that calls have taken, from shares and from the store.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// Begin of the running second.
    begun: Option<Instant>,
    running: PaceOfSecond,
    last: PaceOfSecond,
}

#[derive(Debug, Clone, Copy, Default)]
struct PaceOfSecond {
    calls: u32,
    amount: u64,
}

/// A refusal that is repeated without asking the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatedRefusal {
    pub(crate) most: u64,
    pub(crate) retry_after: Option<Duration>,
}

/// A share that a gateway would like to count in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseWish {
    /// The amount that calls take in a second.
    pub(crate) amount: u64,
    /// The least amount that is worth it.
    pub(crate) least: u64,
}

/// The part of a lease that a call has used. It can be returned to the same lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeasedPart {
    charge: Charge,
    until: Instant,
    pub(crate) amount: u64,
}

/// One of the requests and calls that run, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningCount(Arc<LocalState>);

impl LiveLimit {
    /// Returns whether a tenth or less was left when it was last counted here, in the last minute.
    pub(crate) fn is_nearly_used(&self, now: Instant) -> bool {
        let Limit { measure, most, .. } = self.limit;
        if measure == Measure::Concurrency {
            return is_near(most.saturating_sub(self.local.running()), most);
        }
        self.local.shares.lock().nearly_used.is_some_and(|until| now < until)
    }
}

/// Returns whether a tenth or less is left.
fn is_near(left: u64, most: u64) -> bool {
    most > 0 && left.saturating_mul(10) <= most
}

impl LocalState {
    /// Notes what is left of the limit, with a temporary addition, which has just been counted.
    pub(crate) fn note_left(&self, left: u64, most: u64, now: Instant) {
        self.shares.lock().nearly_used = is_near(left, most).then(|| now + SHOWN_FOR);
    }

    /// Counts a request or call that begins to run; `None` if as many run as the limit.
    pub(crate) fn begin(self: &Arc<Self>, most: u64) -> Option<RunningCount> {
        let counted = self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, |running| {
            (running < most).then_some(running + 1)
        });
        counted.is_ok().then(|| RunningCount(self.clone()))
    }

    /// Returns the number of requests and calls that run.
    pub(crate) fn running(&self) -> u64 {
        self.running.load(Ordering::Acquire)
    }

    /// Notes that a call needs an amount.
    pub(crate) fn note_call(&self, amount: u64, now: Instant) {
        self.shares.lock().pace.note(amount, now);
    }

    /// Takes an amount of the share that is counted here; `None` if it is not left.
    pub(crate) fn take_leased(&self, amount: u64, now: Instant) -> Option<LeasedPart> {
        let mut shares = self.shares.lock();
        let lease = shares.lease.as_mut().filter(|lease| lease.until > now)?;
        lease.left = lease.left.checked_sub(amount)?;
        Some(LeasedPart { charge: lease.charge, until: lease.until, amount })
    }

    /// Returns a part that a call did not use, if its share is still counted here; otherwise it counts as
    /// used.
    pub(crate) fn return_leased(&self, part: LeasedPart) {
        let mut shares = self.shares.lock();
        if let Some(lease) = &mut shares.lease
            && lease.charge == part.charge
            && lease.until == part.until
        {
            lease.left = lease.left.saturating_add(part.amount);
        }
    }

    /// Begins to count a share here. Returns the charge of the share before, and the amount of it that was
    /// used.
    pub(crate) fn set_lease(&self, charge: Charge, until: Instant) -> Option<(Charge, u64)> {
        let lease = ShareLease { charge, left: charge.amount, until };
        self.shares.lock().lease.replace(lease).map(ShareLease::used)
    }

    /// Returns the end of the share that is counted here.
    pub(crate) fn lease_end(&self) -> Option<Instant> {
        self.shares.lock().lease.map(|lease| lease.until)
    }

    /// Ends a share whose time is over. Returns its charge, and the amount of it that was used.
    pub(crate) fn end_lease(&self, now: Instant) -> Option<(Charge, u64)> {
        let mut shares = self.shares.lock();
        shares.lease.take_if(|lease| lease.until <= now).map(ShareLease::used)
    }

    /// Ends a share before its time. Returns its charge, and the amount of it that was used.
    pub(crate) fn take_lease(&self) -> Option<(Charge, u64)> {
        self.shares.lock().lease.take().map(ShareLease::used)
    }

    /// Ends every share, and forgets a refusal, because the count was changed by an operator.
    pub(crate) fn forget(&self) {
        let mut shares = self.shares.lock();
        shares.lease = None;
        shares.refused = None;
    }

    /// Returns a wish for a share if calls come fast, and the share that is counted here does not cover an
    /// amount that the store is asked for.
    pub(crate) fn wish(&self, amount: u64, now: Instant) -> Option<LeaseWish> {
        let shares = self.shares.lock();
        let PaceOfSecond { calls, amount: in_second } = shares.pace.of_second(now);
        let lease = shares.lease.filter(|lease| lease.until > now);
        let is_wanted = calls >= LEASED_FROM && lease.is_none_or(|lease| lease.left < amount);
        (is_wanted && amount > 0)
            .then_some(LeaseWish { amount: in_second, least: amount.saturating_mul(LEAST_CALLS) })
    }

    /// Notes that an amount was not left.
    pub(crate) fn note_refusal(
        &self,
        amount: u64,
        most: u64,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        let wait = retry_after.map_or(REFUSED_FOR, |wait| wait.min(REFUSED_FOR));
        let free = retry_after.and_then(|wait| now.checked_add(wait));
        self.shares.lock().refused = Some(RecentRefusal { amount, until: now + wait, free, most });
    }

    /// Forgets a refusal, because an amount was returned.
    pub(crate) fn forget_refusal(&self) {
        self.shares.lock().refused = None;
    }

    /// Returns the refusal of a moment ago that holds for an amount too.
    pub(crate) fn refusal(&self, amount: u64, now: Instant) -> Option<RepeatedRefusal> {
        let refused = self.shares.lock().refused?;
        let holds = refused.until > now && amount >= refused.amount;
        holds.then(|| RepeatedRefusal {
            most: refused.most,
            retry_after: refused.free.map(|free| free.saturating_duration_since(now)),
        })
    }
}

impl ShareLease {
    /// Returns the charge, and the amount of it that was used.
    fn used(self) -> (Charge, u64) {
        (self.charge, self.charge.amount.saturating_sub(self.left))
    }
}

impl Pace {
    fn note(&mut self, amount: u64, now: Instant) {
        let age = self.age(now);
        if age.is_none_or(|age| age >= SECOND) {
            self.last = self.of_second(now);
            self.running = PaceOfSecond::default();
            self.begun = Some(now);
        }
        self.running.calls = self.running.calls.saturating_add(1);
        self.running.amount = self.running.amount.saturating_add(amount);
    }

    /// Returns the greater pace of the last second and the running one.
    fn of_second(&self, now: Instant) -> PaceOfSecond {
        match self.age(now) {
            Some(age) if age < SECOND && self.last.calls > self.running.calls => self.last,
            Some(age) if age < 2 * SECOND => self.running,
            _ => PaceOfSecond::default(),
        }
    }

    fn age(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.begun?))
    }
}

impl Drop for RunningCount {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHARGE: Charge = Charge { amount: 100, bucket_ms: 0, epoch_ms: 1 };

    #[test]
    fn as_many_run_as_the_limit_and_one_that_ends_makes_room() {
        let local = Arc::new(LocalState::default());
        let running = [local.begin(2), local.begin(2)];
        assert!(running.iter().all(Option::is_some) && local.begin(2).is_none());
        drop(running);
        assert!(local.begin(1).is_some(), "a lower limit holds for the next one");
        assert_eq!(local.running(), 0);
        assert!(local.begin(0).is_none());
    }

    #[test]
    fn a_share_is_used_up_to_its_end_and_no_further() {
        let local = LocalState::default();
        let now = Instant::now();
        let end = now + Duration::from_secs(1);
        assert!(local.take_leased(1, now).is_none());
        local.set_lease(CHARGE, end);
        let part = local.take_leased(60, now).expect("it is left");
        assert!(local.take_leased(41, now).is_none() && local.take_leased(40, now).is_some());
        local.return_leased(part);
        assert!(local.take_leased(1, end).is_none(), "its time is over");
        assert!(local.end_lease(now).is_none());
        assert_eq!(local.end_lease(end), Some((CHARGE, 40)));
        local.set_lease(CHARGE, end + Duration::from_secs(1));
        local.return_leased(part);
        assert_eq!(local.end_lease(end + Duration::from_secs(1)), Some((CHARGE, 0)));
    }

    #[test]
    fn a_share_is_wished_for_while_calls_come_fast_and_no_share_covers_them() {
        let local = LocalState::default();
        let now = Instant::now();
        for number in 0..LEASED_FROM {
            assert_eq!(local.wish(3, now), None, "{number}");
            local.note_call(3, now);
        }
        let wish = LeaseWish { amount: u64::from(LEASED_FROM) * 3, least: 3 * LEAST_CALLS };
        assert_eq!(local.wish(3, now), Some(wish));
        assert_eq!(local.set_lease(CHARGE, now + SECOND), None);
        assert_eq!(local.wish(3, now), None);
        local.take_leased(98, now).expect("it is left");
        assert_eq!(local.wish(3, now), Some(wish), "two are left, and three are asked for");
        assert_eq!(local.set_lease(CHARGE, now + SECOND), Some((CHARGE, 98)));
        // The pace of the second before holds until the running one has ended.
        local.note_call(3, now + SECOND);
        assert_eq!(local.wish(3, now + SECOND), Some(wish));
        assert_eq!(local.wish(3, now + 2 * SECOND), None);
    }

    #[test]
    fn a_refusal_holds_for_a_moment_and_for_amounts_that_are_not_smaller() {
        let local = LocalState::default();
        let now = Instant::now();
        local.note_refusal(5, 9, Some(Duration::from_secs(7)), now);
        assert_eq!(local.refusal(4, now), None);
        let later = now + Duration::from_millis(100);
        let retry_after = Some(Duration::from_millis(6_900));
        assert_eq!(local.refusal(5, later), Some(RepeatedRefusal { most: 9, retry_after }));
        assert_eq!(local.refusal(5, now + REFUSED_FOR), None);
        local.note_refusal(5, 9, Some(Duration::from_millis(1)), now);
        assert_eq!(local.refusal(5, now + Duration::from_millis(1)), None);
    }
}
