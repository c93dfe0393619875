//! Crashes that stop a plugin for all tenants, because calls of several tenants crash.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use airlock_core::tenant::Tenant;

use super::breaker::{FAILURES, FIRST_COOL_DOWN, Open, WINDOW};

/// Most crashes of one tenant that count, of the five that stop a plugin for all. So fewer than
/// three tenants never stop it.
pub(super) const OF_ONE_TENANT: usize = 2;

/// Recent crashes of a plugin. Once they have stopped it, it stays stopped for a fixed time and
/// then starts with no crashes counted. There is no trial call: with one, a tenant could keep the
/// plugin stopped by making each trial crash.
#[derive(Debug, Default)]
pub(super) struct Widespread {
    /// Crashes that count, oldest first.
    crashes: VecDeque<(Instant, Tenant)>,
    open: Option<Open>,
}

impl Widespread {
    /// Fails while the plugin is stopped for all, with the time left.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), Duration> {
        let Some(open) = self.open else { return Ok(()) };
        if now < open.until {
            return Err(open.until.saturating_duration_since(now));
        }
        self.open = None;
        Ok(())
    }

    /// Counts a crash. Returns the open state if this crash stops the plugin.
    pub(super) fn crashed(&mut self, now: Instant, tenant: &Tenant) -> Option<Open> {
        if self.open.is_some_and(|open| now < open.until) {
            return None;
        }
        self.crashes.retain(|(time, _)| now.saturating_duration_since(*time) <= WINDOW);
        if self.crashes.iter().filter(|(_, other)| other == tenant).count() == OF_ONE_TENANT {
            return None;
        }
        self.crashes.push_back((now, tenant.clone()));
        if self.crashes.len() < FAILURES {
            return None;
        }
        self.crashes.clear();
        self.open =
            Some(Open { until: now + FIRST_COOL_DOWN, wait: FIRST_COOL_DOWN, failures: FAILURES });
        self.open
    }

    /// Returns whether crashes have stopped the plugin, and no call was permitted since.
    pub(super) fn was_opened(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the open state if the plugin is stopped right now.
    pub(super) fn open(&self, now: Instant) -> Option<Open> {
        self.open.filter(|open| now < open.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(number: u8) -> Tenant {
        Tenant::of_key([number; 32], number.to_string())
    }

    /// Returns whether crashes of these tenants, all at once, stop a plugin for all.
    fn stop(tenants: &[u8]) -> bool {
        let now = Instant::now();
        let mut widespread = Widespread::default();
        tenants.iter().fold(false, |stopped, number| {
            stopped | widespread.crashed(now, &tenant(*number)).is_some()
        })
    }

    #[test]
    fn five_crashes_of_three_tenants_stop_a_plugin_and_those_of_two_never_do() {
        assert!(stop(&[1, 1, 2, 2, 3]) && stop(&[1, 2, 3, 4, 5]) && stop(&[1, 1, 1, 1, 2, 3, 2]));
        assert!(
            !stop(&[1; 100])
                && !stop(&[1, 2].repeat(100))
                && !stop(&[1, 1, 1, 2, 3])
                && !stop(&[1, 2, 3, 4])
        );
    }

    #[test]
    fn crashes_count_for_a_minute_and_stop_a_plugin_for_thirty_seconds() {
        let now = Instant::now();
        let mut widespread = Widespread::default();
        for number in 1..5 {
            assert_eq!(widespread.crashed(now, &tenant(number)), None);
        }
        let later = now + WINDOW + Duration::from_millis(1);
        assert_eq!(widespread.crashed(later, &tenant(5)), None, "the others are too old");
        for number in 1..4 {
            assert_eq!(widespread.crashed(later, &tenant(number)), None);
        }
        assert!(
            widespread.crashed(later, &tenant(4)).is_some() && widespread.open(later).is_some()
        );
        assert_eq!(widespread.check(later), Err(FIRST_COOL_DOWN));
        assert_eq!(
            widespread.crashed(later, &tenant(1)),
            None,
            "calls from before say nothing new"
        );
        assert_eq!(widespread.check(later + FIRST_COOL_DOWN), Ok(()));
        assert_eq!(widespread.crashed(later + FIRST_COOL_DOWN, &tenant(1)), None, "it begins anew");
    }
}
