//! The state of limits, for operators, and their changes of it.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use airlock_store::{
    Unavailable,
    limits::{CountSelection, MAX_CHANGED_LIMITS, StoredCount},
};

use crate::{
    count::Count,
    limit::{Limit, Measure},
    limiter::Limiter,
};

/// State of a limit, on all gateways of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitState {
    /// Identifier of the limit.
    pub id: String,
    /// The amount that counts now, with what is reserved and what gateways have leased. Of
    /// [`Measure::Concurrency`], the requests and calls that run on this gateway.
    pub used: u64,
    /// The part of it that is reserved for requests that run.
    pub reserved: u64,
    /// The most in one window, with a temporary addition.
    pub most: u64,
    /// Begin of the window; `None` for one without end. The window of a rolling limit begins anew at each moment,
    /// unless it is of money.
    pub window_start: Option<SystemTime>,
    /// Time from which a used amount counts no more; `None` for never, or if none is used in a window that
    /// begins anew at each moment.
    pub window_end: Option<SystemTime>,
    /// Temporary addition.
    pub raise: Option<LimitRaise>,
}

/// Temporary addition to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRaise {
    /// The addition, in the unit of the measure.
    pub amount: u64,
    /// Its end; `None` if it has to be removed.
    pub until: Option<SystemTime>,
}

/// Reason that the state of a limit cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum LimitChangeError {
    /// There is no limit with this identifier, or it is one of [`Measure::Concurrency`], which has no
    /// count.
    #[error("there is no limit '{0}' with a count")]
    Unknown(String),
    /// The store cannot be used.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Limiter {
    /// Returns the states of the limits with these identifiers. Leaves out those that do not exist. Fails
    /// if the store cannot be used.
    pub async fn states(&self, ids: &[impl AsRef<str>]) -> Result<Vec<LimitState>, Unavailable> {
        self.read_states(None, ids).await
    }

    /// Returns states as [`Self::states`] for a virtual key that asks. The reads of one key delay each other, and
    /// not those of others.
    pub async fn states_for(
        &self,
        key: &str,
        ids: &[impl AsRef<str>],
    ) -> Result<Vec<LimitState>, Unavailable> {
        self.read_states(Some(key), ids).await
    }

    async fn read_states(
        &self,
        key: Option<&str>,
        ids: &[impl AsRef<str>],
    ) -> Result<Vec<LimitState>, Unavailable> {
        let set = self.limits();
        let limits: Vec<_> = ids.iter().filter_map(|id| set.find(id.as_ref())).collect();
        let counted = limits.iter().map(|limit| limit.limit.id.clone()).collect();
        let database = self.store.available().await?;
        let read = match key {
            Some(key) => database.counts_for(key, counted).await?,
            None => database.counts(counted).await?,
        };
        let states = limits.into_iter().map(|limit| {
            let id = &limit.limit.id;
            let stored = read.counts.get(id).cloned().unwrap_or_default();
            let reserved = read.reserved.get(id).copied().unwrap_or_default();
            let state = state(&limit.limit, stored, reserved, read.now_ms);
            if limit.limit.measure == Measure::Concurrency {
                LimitState { used: limit.local.running(), ..state }
            } else {
                state
            }
        });
        Ok(states.collect())
    }

    /// Forgets what was counted by the limits with these identifiers, and begins new windows. Settlements of
    /// requests that run then return nothing.
    pub async fn reset(&self, ids: &[impl AsRef<str>]) -> Result<(), LimitChangeError> {
        self.change(ids, |count| {
            count.reset();
        })
        .await
    }

    /// Raises a limit by an amount for this number of windows, the present one included; without a number,
    /// until [`Self::clear_override`]. Replaces an earlier raise.
    pub async fn set_override(
        &self,
        id: &str,
        amount: u64,
        windows: Option<u32>,
    ) -> Result<(), LimitChangeError> {
        self.change(&[id], move |count| count.set_extra(amount, windows)).await
    }

    /// Removes the raise of a limit.
    pub async fn clear_override(&self, id: &str) -> Result<(), LimitChangeError> {
        self.change(&[id], |count| {
            count.clear_extra();
        })
        .await
    }

    async fn change(
        &self,
        ids: &[impl AsRef<str>],
        change: impl Fn(&mut Count<'_>) + Copy + Send + 'static,
    ) -> Result<(), LimitChangeError> {
        let set = self.limits();
        let mut limits = Vec::new();
        for id in ids.iter().map(AsRef::as_ref) {
            let limit = set.find(id).filter(|limit| limit.limit.measure != Measure::Concurrency);
            let limit = limit.ok_or_else(|| LimitChangeError::Unknown(id.to_owned()))?;
            limits.push(limit.clone());
        }
        let database = self.store.available().await?;
        for limits in limits.chunks(MAX_CHANGED_LIMITS) {
            let changed: Vec<_> = limits.iter().map(|limit| limit.limit.clone()).collect();
            let ids = changed.iter().map(|limit| limit.id.clone()).collect();
            let selection = CountSelection { limits: ids, requests: BTreeSet::new() };
            let done = database.change_counts(selection, move |counts| {
                for limit in &changed {
                    let mut count = Count::open(limit, counts.get(&limit.id), counts.now_ms);
                    change(&mut count);
                    counts.set(&limit.id, count.stored().clone());
                }
            });
            done.await?;
            for limit in limits {
                limit.local.forget();
            }
        }
        Ok(())
    }
}

fn state(limit: &Limit, stored: StoredCount, reserved: u64, now_ms: i64) -> LimitState {
    let count = Count::open(limit, stored, now_ms);
    let raise = count
        .stored()
        .extra
        .map(|extra| LimitRaise { amount: extra.amount, until: extra.until_ms.map(system_time) });
    LimitState {
        id: limit.id.clone(),
        used: count.used(),
        reserved: reserved.min(count.used()),
        most: count.most(),
        window_start: count.window_start_ms().map(system_time),
        window_end: count.window_end_ms().map(system_time),
        raise,
    }
}

fn system_time(at_ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at_ms).unwrap_or_default())
}
