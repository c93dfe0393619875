//! All breakers of one plugin: selects those that apply to a call, and records in each how the call
//! ended. Pure: callers pass the time.

use std::{
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

use airlock_core::{tenant::Tenant, tool::ToolName};
use serde_json::{Map, Value, json};

use super::{
    breaker::{Breaker, Open, Transition, Verdict},
    widespread::Widespread,
};

/// Breakers that are kept for one tenant, each less than a kilobyte. A breaker exists only where a
/// call has failed.
pub(super) const MAX_OF_TENANT: usize = 64;
/// Breakers that are kept for all tenants of a plugin together: those of 16 tenants at their own
/// limit.
pub(super) const MAX_BREAKERS: usize = 1_024;

/// Calls that a breaker stops.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum BreakerScope {
    /// All calls of the plugin.
    All,
    /// All calls of one tenant.
    Tenant(Tenant),
    /// Calls of one tenant to one tool.
    Tool(Tenant, ToolName),
}

/// Outcome of a call, as far as the plugin is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEnding {
    /// The guest ran to its end, with whatever result.
    Worked,
    /// The host stopped it at one of its limits.
    Overran,
    /// It trapped or ended itself.
    Crashed,
    /// It was not reached, or ended for a reason that is not its own.
    Unknown,
}

/// Breakers for which a call is the trial call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Trials {
    tenant: bool,
    tool: bool,
}

impl Trials {
    pub(super) fn any(self) -> bool {
        self.tenant || self.tool
    }
}

impl CallEnding {
    /// Returns whether it counts against the plugin.
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::Overran | Self::Crashed)
    }
}

/// Changes that the operator's log reports.
#[derive(Debug, PartialEq)]
pub(super) enum BreakerChange {
    Opened { scope: BreakerScope, open: Open },
    Closed { scope: BreakerScope },
}

/// The breakers of one plugin.
#[derive(Debug, Default)]
pub(super) struct Breakers {
    widespread: Widespread,
    scoped: HashMap<BreakerScope, BreakerEntry>,
}

#[derive(Debug)]
struct BreakerEntry {
    breaker: Breaker,
    /// Time of its last change.
    changed: Instant,
}

impl Breakers {
    /// Returns whether every call is permitted, and one that does not fail changes nothing.
    pub(super) fn is_quiet(&self) -> bool {
        self.scoped.is_empty() && !self.widespread.was_opened()
    }

    /// Permits a call, and returns the breakers for which it is the trial. Fails with the time left
    /// to wait.
    pub(super) fn permit(
        &mut self,
        now: Instant,
        tenant: &Tenant,
        tool: &ToolName,
    ) -> Result<Trials, Duration> {
        self.widespread.check(now)?;
        // The common case: nothing has failed.
        if self.scoped.is_empty() {
            return Ok(Trials::default());
        }
        let of_tenant = BreakerScope::Tenant(tenant.clone());
        let trial_of_tenant = self.permit_one(now, &of_tenant)?;
        match self.permit_one(now, &BreakerScope::Tool(tenant.clone(), tool.clone())) {
            Ok(trial_of_tool) => Ok(Trials { tenant: trial_of_tenant, tool: trial_of_tool }),
            Err(wait) => {
                // This call is refused, so another one has to be the trial.
                self.record_one(now, of_tenant, trial_of_tenant, Verdict::None);
                Err(wait)
            }
        }
    }

    /// Records how a call ended. Returns the state changes.
    pub(super) fn record(
        &mut self,
        now: Instant,
        tenant: &Tenant,
        tool: &ToolName,
        trials: Trials,
        outcome: CallEnding,
    ) -> Vec<BreakerChange> {
        let (of_tenant, of_tool) = match outcome {
            CallEnding::Worked => (Verdict::Works, Verdict::Works),
            CallEnding::Overran => (Verdict::None, Verdict::Fails),
            CallEnding::Crashed => (Verdict::Fails, Verdict::None),
            CallEnding::Unknown => (Verdict::None, Verdict::None),
        };
        if self.scoped.is_empty() && !outcome.is_failure() {
            return Vec::new();
        }
        let widespread = (outcome == CallEnding::Crashed)
            .then(|| self.widespread.crashed(now, tenant))
            .flatten();
        let widespread =
            widespread.map(|open| BreakerChange::Opened { scope: BreakerScope::All, open });
        let of_tenant =
            self.record_one(now, BreakerScope::Tenant(tenant.clone()), trials.tenant, of_tenant);
        let of_tool = self.record_one(
            now,
            BreakerScope::Tool(tenant.clone(), tool.clone()),
            trials.tool,
            of_tool,
        );
        widespread.into_iter().chain(of_tenant).chain(of_tool).collect()
    }

    /// Describes the breaker that refuses the most: the one whose cool-down ends last, or else the
    /// one with the most failures. It does not name the tenant, because other tenants may read
    /// this.
    pub(super) fn describe(&self, now: Instant) -> Map<String, Value> {
        let widespread = self
            .widespread
            .open(now)
            .map(|open| (Some(open.until), open.failures, Some(&BreakerScope::All)));
        let scoped = self.scoped.iter().map(|(scope, kept)| {
            (kept.breaker.open_until(), kept.breaker.failures(now), Some(scope))
        });
        let worst = widespread
            .into_iter()
            .chain(scoped)
            .max_by_key(|(until, failures, _)| (*until, *failures));
        let (until, failures, scope) = worst.unwrap_or_default();
        let left = until.map(|until| until.saturating_duration_since(now));
        let state = match left {
            None => "closed",
            Some(Duration::ZERO) => "half_open",
            Some(_) => "open",
        };
        let retry_after = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        let scope = scope.filter(|_| until.is_some()).map(BreakerScope::kind);
        Map::from_iter([
            ("state".to_owned(), json!(state)),
            ("scope".to_owned(), json!(scope)),
            ("failures".to_owned(), json!(failures)),
            ("retry_after_ms".to_owned(), json!(retry_after)),
        ])
    }

    /// Returns whether the cool-down of a breaker lasts.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        let mut until = self.scoped.values().filter_map(|kept| kept.breaker.open_until());
        self.widespread.open(now).is_some() || until.any(|until| until > now)
    }

    /// Ends every cool-down, for tests.
    #[cfg(test)]
    pub(super) fn end_cool_downs(&mut self) {
        for kept in self.scoped.values_mut() {
            if let Breaker::Open(open) = &mut kept.breaker {
                open.until = Instant::now();
            }
        }
    }

    fn permit_one(&mut self, now: Instant, scope: &BreakerScope) -> Result<bool, Duration> {
        match self.scoped.get_mut(scope) {
            Some(kept) => kept.breaker.permit(now),
            None => Ok(false),
        }
    }

    fn record_one(
        &mut self,
        now: Instant,
        scope: BreakerScope,
        is_trial: bool,
        verdict: Verdict,
    ) -> Option<BreakerChange> {
        if verdict == Verdict::Fails && !self.scoped.contains_key(&scope) {
            self.make_room(now, &scope);
            self.scoped
                .insert(scope.clone(), BreakerEntry { breaker: Breaker::closed(), changed: now });
        }
        let kept = self.scoped.get_mut(&scope)?;
        let transition = kept.breaker.record(now, is_trial, verdict);
        if verdict == Verdict::Fails || transition.is_some() {
            kept.changed = now;
        }
        match transition? {
            Transition::Opened(open) => Some(BreakerChange::Opened { scope, open }),
            Transition::Closed => {
                self.scoped.remove(&scope);
                Some(BreakerChange::Closed { scope })
            }
        }
    }

    /// Removes stale breakers. If that is not enough, evicts the breaker that changed longest ago:
    /// one of the same tenant at [`MAX_OF_TENANT`], one of any tenant at [`MAX_BREAKERS`]. It runs
    /// only when a call has failed, which takes longer than a scan of all breakers.
    fn make_room(&mut self, now: Instant, newcomer: &BreakerScope) {
        self.scoped.retain(|_, kept| !kept.breaker.is_stale(now));
        let of_tenant =
            self.scoped.keys().filter(|scope| scope.tenant() == newcomer.tenant()).count();
        let oldest = if of_tenant >= MAX_OF_TENANT {
            self.oldest(|scope| scope.tenant() == newcomer.tenant())
        } else if self.scoped.len() >= MAX_BREAKERS {
            self.oldest(|_| true)
        } else {
            None
        };
        if let Some(scope) = oldest {
            self.scoped.remove(&scope);
        }
    }

    fn oldest(&self, concerns: impl Fn(&BreakerScope) -> bool) -> Option<BreakerScope> {
        let kept = self.scoped.iter().filter(|(scope, _)| concerns(scope));
        kept.min_by_key(|(_, kept)| kept.changed).map(|(scope, _)| scope.clone())
    }
}

impl BreakerScope {
    /// Returns the kind of scope, without the names of tenants and tools.
    fn kind(&self) -> &'static str {
        match self {
            Self::All => "all callers",
            Self::Tenant(_) => "one caller",
            Self::Tool(..) => "one caller of one tool",
        }
    }

    fn tenant(&self) -> Option<&Tenant> {
        match self {
            Self::All => None,
            Self::Tenant(tenant) | Self::Tool(tenant, _) => Some(tenant),
        }
    }
}

impl fmt::Display for BreakerScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all callers"),
            Self::Tenant(tenant) => write!(f, "{tenant}"),
            Self::Tool(tenant, tool) => write!(f, "{tenant}, tool {tool}"),
        }
    }
}

#[cfg(test)]
mod tests;
