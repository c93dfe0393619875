//! The time that guards spend on the definitions of each client. A server chooses how often it connects, how many tools
//! it lists, and how long guards take for them, so its lists share one allowance.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use airlock_core::tool::ClientName;

/// Time for the definitions of one client, at the start. A list has at most 2,000 tools, and an ordinary guard decides about
/// one in less than a millisecond, so this is ten times the time of the longest list.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Part of the time that passes which the allowance of a client regains: all of it in 20 minutes.
const REGAINED: u32 = 60;
/// Shortest time that is left to a client. With less, guards would fail at definitions of ordinary size.
const MIN_TIME: Duration = Duration::from_millis(50);

/// The time that guards may still spend on the definitions of each client.
#[derive(Default)]
pub(super) struct ReviewTimes(Mutex<HashMap<Option<ClientName>, ReviewAllowance>>);

/// Time that was left at an instant.
#[derive(Clone, Copy)]
struct ReviewAllowance {
    left: Duration,
    at: Instant,
}

impl ReviewTimes {
    /// Returns the time that is left for a client; zero if there is too little for a decision.
    pub(super) fn left(&self, client: Option<&ClientName>, now: Instant) -> Duration {
        let allowances = self.0.lock();
        let left = allowances.get(&client.cloned()).map_or(MAX_TIME, |found| found.left_at(now));
        if left < MIN_TIME { Duration::ZERO } else { left }
    }

    /// Takes the time that guards have spent on a definition. Several lists of one client may be decided at once.
    pub(super) fn spend(&self, client: Option<&ClientName>, begun: Instant, ended: Instant) {
        let mut allowances = self.0.lock();
        let allowance = allowances
            .entry(client.cloned())
            .or_insert(ReviewAllowance { left: MAX_TIME, at: begun });
        let left = allowance.left_at(ended).saturating_sub(ended.saturating_duration_since(begun));
        *allowance = ReviewAllowance { left, at: ended.max(allowance.at) };
    }
}

impl ReviewAllowance {
    /// Returns the time that is left later.
    fn left_at(self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at);
        self.left.saturating_add(passed / REGAINED).min(MAX_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ClientName {
        ClientName::parse(text).expect("a good name")
    }

    #[test]
    fn all_lists_of_a_client_share_its_time_and_regain_it_slowly() {
        let times = ReviewTimes::default();
        let hostile = name("hostile");
        let start = Instant::now();
        assert_eq!(times.left(Some(&hostile), start), MAX_TIME);
        let mut now = start;
        let mut spent = Duration::ZERO;
        // It connects anew as soon as its time is over.
        for _ in 0..1_000 {
            let taken = times.left(Some(&hostile), now).min(Duration::from_secs(1));
            times.spend(Some(&hostile), now, now + taken);
            spent += taken;
            now += taken + Duration::from_millis(100);
        }
        let passed = now - start;
        assert!(spent <= MAX_TIME + passed / REGAINED + Duration::from_secs(1), "{spent:?}");
        assert!(spent >= MAX_TIME);
        assert_eq!(times.left(Some(&name("other")), now), MAX_TIME);
        assert_eq!(times.left(None, now), MAX_TIME);
        assert_eq!(times.left(Some(&hostile), now + MAX_TIME * REGAINED), MAX_TIME);
    }

    #[test]
    fn a_rest_that_is_too_short_for_a_decision_is_none() {
        let times = ReviewTimes::default();
        let now = Instant::now();
        let over = now + MAX_TIME;
        times.spend(None, now, over);
        let enough = over + MIN_TIME * REGAINED;
        let too_early = over + MIN_TIME * REGAINED.saturating_sub(1);
        assert_eq!(times.left(None, too_early), Duration::ZERO);
        assert_eq!(times.left(None, enough), MIN_TIME);
    }
}
