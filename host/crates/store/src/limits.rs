//! The counts of limits, and the amounts that are reserved of them.
//!
//! A change of counts reads the rows of some limits, lets its caller compute new ones, and writes those
//! that were changed, all in one transaction that has the locks of the limits. So a change of several
//! limits is made completely or not at all, and of two changes the second one sees the first. The
//! meaning of the counts is known to the caller alone.

mod buckets;
mod sql;

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    time::Duration,
};

use crate::database::Database;
use airlock_database::{error::Unavailable, sql::Subject};

/// Maximum number of limits of one change. More fail. A transaction takes a lock for each.
pub const MAX_CHANGED_LIMITS: usize = 128;
/// Maximum number of reservations that one change reads, of up to 64 limits each. More fail: the
/// limits of the change stay locked until all of them are read.
pub const MAX_CHANGED_RESERVATIONS: usize = 128;
/// Longest time for which a change waits for another one of the same limit. Shorter than callers wait, so that
/// those whose limits are free can be served.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Number of limits that one statement reads.
const READ_AT_ONCE: usize = 128;

/// The count of one limit. The default is that of a limit that was never used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredCount {
    /// Time of its first use, or of its last reset, in milliseconds since 1970.
    pub epoch_ms: i64,
    /// Latest time at which an amount was taken or returned.
    pub seen_ms: i64,
    /// Amounts that count, by the times at which they were taken; each time once, in order.
    pub buckets: Vec<StoredBucket>,
    /// Temporary addition to the limit.
    pub extra: Option<StoredExtra>,
}

/// Amount that was taken at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBucket {
    /// The time, in milliseconds since 1970.
    pub start_ms: i64,
    /// The amount.
    pub used: u64,
}

/// Temporary addition to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredExtra {
    /// The addition.
    pub amount: u64,
    /// Its end in milliseconds since 1970; `None` for none.
    pub until_ms: Option<i64>,
}

/// Identifies what one request has reserved of one limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationKey {
    /// Identifier of the request.
    pub id: String,
    /// Identifier of the limit.
    pub limit: String,
}

/// Amount of a limit that is counted for a request whose cost is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredReservation {
    /// The amount.
    pub amount: u64,
    /// The bucket that has it.
    pub bucket_ms: i64,
    /// Epoch of the count that has it.
    pub epoch_ms: i64,
    /// Time from which it counts as used up, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// The rows of a change.
#[derive(Debug, Clone, Default)]
pub struct CountSelection {
    /// The limits, at most [`MAX_CHANGED_LIMITS`].
    pub limits: BTreeSet<String>,
    /// Identifiers of requests whose reservations are read, at most [`MAX_CHANGED_RESERVATIONS`].
    pub requests: BTreeSet<String>,
}

/// The rows during a change.
#[derive(Debug, Default)]
pub struct Counts {
    /// Time of the change in milliseconds since 1970: on a server, by the server's clock.
    pub now_ms: i64,
    stored: BTreeMap<String, StoredCount>,
    changed: BTreeSet<String>,
    reservations: BTreeMap<ReservationKey, StoredReservation>,
    removed: Vec<ReservationKey>,
    added: Vec<(ReservationKey, StoredReservation)>,
}

/// Counts that were read at one time.
#[derive(Debug, Clone, Default)]
pub struct ReadCounts {
    /// The time in milliseconds since 1970.
    pub now_ms: i64,
    /// The counts, by limit. A limit that was never used has none.
    pub counts: BTreeMap<String, StoredCount>,
    /// Sums of the reservations that have neither ended nor expired, by limit.
    pub reserved: BTreeMap<String, u64>,
}

impl Counts {
    /// Returns a copy of a count; the default if the limit was never used.
    pub fn get(&self, limit: &str) -> StoredCount {
        self.stored.get(limit).cloned().unwrap_or_default()
    }

    /// Replaces a count.
    pub fn set(&mut self, limit: &str, count: StoredCount) {
        self.stored.insert(limit.to_owned(), count);
        self.changed.insert(limit.to_owned());
    }

    /// Adds a reservation.
    pub fn reserve(&mut self, key: ReservationKey, reservation: StoredReservation) {
        self.added.push((key, reservation));
    }

    /// Removes a reservation that was read; `None` if it does not exist.
    pub fn end_reservation(&mut self, key: &ReservationKey) -> Option<StoredReservation> {
        let (key, reservation) = self.reservations.remove_entry(key)?;
        self.removed.push(key);
        Some(reservation)
    }
}

impl Database {
    /// Changes counts: `job` computes the new rows from the present ones. If the future is dropped, the
    /// change is made completely or not at all. Fails if the database cannot be used, or if another change
    /// holds one of the limits for a second; a change may have been made if the connection to a server was
    /// lost at its very end.
    pub async fn change_counts<T, F>(
        &self,
        selection: CountSelection,
        job: F,
    ) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&mut Counts) -> T + Send + 'static,
    {
        let is_bounded = selection.limits.len() <= MAX_CHANGED_LIMITS
            && selection.requests.len() <= MAX_CHANGED_RESERVATIONS;
        if !is_bounded {
            return Err(Unavailable::Busy);
        }
        let subjects: Vec<_> = selection.limits.iter().map(|limit| Subject::limit(limit)).collect();
        let changed = self.attempt_soon(LOCK_WAIT, subjects, move |sql| {
            let mut counts = sql::read(sql, &selection)?;
            let done = job(&mut counts);
            sql::write(sql, &counts)?;
            Ok(Ok::<T, Infallible>(done))
        });
        let Ok(done) = changed.await?;
        Ok(done)
    }

    /// Returns the limits that another change holds at this moment, for example that of a gateway that was
    /// stopped in the middle. Fails if the database cannot be used.
    pub async fn held_limits(
        &self,
        limits: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Unavailable> {
        let held = self.attempt(Vec::new(), move |sql| {
            let mut held = BTreeSet::new();
            for limit in limits {
                if !sql.try_lock(Subject::limit(&limit))? {
                    held.insert(limit);
                }
            }
            Ok(Ok::<_, Infallible>(held))
        });
        let Ok(held) = held.await?;
        Ok(held)
    }

    /// Reads counts. Fails if the database cannot be used.
    pub async fn counts(&self, limits: Vec<String>) -> Result<ReadCounts, Unavailable> {
        self.read_snapshot(move |sql| {
            let mut read = ReadCounts { now_ms: sql.now(), ..ReadCounts::default() };
            for limits in limits.chunks(READ_AT_ONCE) {
                let limits: Vec<_> = limits.iter().map(String::as_str).collect();
                read.counts.append(&mut sql::counts(sql, &limits)?);
                read.reserved.append(&mut sql::reserved(sql, &limits)?);
            }
            Ok(read)
        })
        .await
    }

    /// Reads counts as [`Self::counts`] for one party, such as a key that asks for its own. Its reads delay each
    /// other, and not those of others.
    pub async fn counts_for(
        &self,
        party: &str,
        limits: Vec<String>,
    ) -> Result<ReadCounts, Unavailable> {
        self.of_party(("limits", party)).counts(limits).await
    }

    /// Forgets reservations that have expired: what they have reserved is used up. Returns their number,
    /// which is bounded. Fails if the database cannot be used.
    pub async fn forget_expired_reservations(&self) -> Result<u64, Unavailable> {
        self.write(Subject::limit(""), sql::forget_expired).await
    }

    /// Forgets the counts of limits that do not exist any more. Fails if the database cannot be used, or if a
    /// change holds one of the limits for a second; some may be forgotten then.
    pub async fn forget_counts(&self, limits: BTreeSet<String>) -> Result<(), Unavailable> {
        let limits: Vec<_> = limits.into_iter().collect();
        for limits in limits.chunks(MAX_CHANGED_LIMITS) {
            let limits = limits.to_vec();
            let subjects = limits.iter().map(|limit| Subject::limit(limit)).collect();
            let forgotten = self.attempt_soon(LOCK_WAIT, subjects, move |sql| {
                sql::forget(sql, &limits)?;
                Ok(Ok::<(), Infallible>(()))
            });
            let Ok(()) = forgotten.await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
