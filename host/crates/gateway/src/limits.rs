//! The limits of a gateway and its prices, which follow the configuration.

use std::{collections::BTreeSet, mem, sync::Arc};

use airlock_config::Config;
use airlock_limits::{Limiter, limit::Limit};
use airlock_store::LazyDatabase;

/// The limits that this gateway has had and that were not removed, by their identifiers.
#[derive(Default)]
pub(super) struct KnownLimits(BTreeSet<String>);

impl KnownLimits {
    /// Replaces the limits. Returns those that were removed, whose counts are of no use any more. While the
    /// settings do not have all entries of the store, any of them may have the limits that are missing.
    pub(super) fn replace(&mut self, limits: &[Limit], has_all_entries: bool) -> BTreeSet<String> {
        let present = limits.iter().map(|limit| limit.id.clone());
        if !has_all_entries {
            self.0.extend(present);
            return BTreeSet::new();
        }
        let before = mem::replace(&mut self.0, present.collect());
        before.difference(&self.0).cloned().collect()
    }
}

/// Makes the limiter of a gateway.
pub(super) fn start(config: &Config, database: &LazyDatabase) -> Arc<Limiter> {
    let limiter = Limiter::new(database.clone());
    follow(&limiter, config);
    limiter
}

/// Takes the limits and the prices of a configuration. What was counted stays.
pub(super) fn follow(limiter: &Limiter, config: &Config) {
    limiter.set_prices(config.prices.clone());
    limiter.set(&config.limits);
}

#[cfg(test)]
mod tests {
    use airlock_limits::limit::{Measure, Owner, Scope, Window};

    use super::*;

    fn limit(id: &str) -> Limit {
        Limit {
            id: id.to_owned(),
            owner: Owner::Everyone,
            owner_name: None,
            scope: Scope::All,
            measure: Measure::Requests,
            most: 1,
            window: Window::Never,
        }
    }

    #[test]
    fn a_limit_is_removed_once_and_only_if_all_entries_were_read_without_it() {
        let [one, two] = ["one", "two"].map(limit);
        let mut known = KnownLimits::default();
        assert!(known.replace(&[one.clone(), two.clone()], true).is_empty());
        assert!(
            known.replace(std::slice::from_ref(&one), false).is_empty(),
            "an entry may have it"
        );
        assert!(known.replace(&[one.clone(), two], false).is_empty());
        assert_eq!(known.replace(std::slice::from_ref(&one), true), ["two".to_owned()].into());
        assert!(known.replace(&[one], true).is_empty());
        assert_eq!(known.replace(&[], true), ["one".to_owned()].into());
    }
}
