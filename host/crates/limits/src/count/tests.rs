use proptest::prelude::*;

use super::*;
use crate::limit::{Measure, Owner, Period, Scope, Window};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// 2024-02-29 12:00 UTC.
const NOON: i64 = 1_709_208_000_000;
const MINUTE: Window = Window::Rolling(Duration::from_mins(1));
/// A minute, and the length of a bucket in it.
const MINUTE_MS: i64 = 60_000;
const STEP_MS: i64 = 937;

fn limit(measure: Measure, most: u64, window: Window) -> Limit {
    let owner = Owner::Everyone;
    let id = "l".to_owned();
    Limit { id, owner, owner_name: None, scope: Scope::All, measure, most, window }
}

/// A count with a clock.
struct Counted {
    limit: Limit,
    stored: StoredCount,
    clock_ms: i64,
}

impl Counted {
    fn new(limit: Limit) -> Self {
        Self { limit, stored: StoredCount::default(), clock_ms: NOON }
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Count<'_>) -> T) -> T {
        let mut count = Count::open(&self.limit, self.stored.clone(), self.clock_ms);
        let changed = change(&mut count);
        self.stored = count.stored().clone();
        changed
    }

    /// Takes an amount, or returns the time to wait.
    fn take(&mut self, amount: u64) -> Result<Charge, Option<Duration>> {
        self.change(|count| {
            if count.left() < amount { Err(count.wait(amount)) } else { Ok(count.take(amount)) }
        })
    }

    fn reset(&mut self) {
        self.change(|count| {
            count.reset();
        });
    }

    fn clear_extra(&mut self) {
        self.change(|count| {
            count.clear_extra();
        });
    }

    fn used(&mut self) -> u64 {
        self.change(|count| count.used())
    }
}

/// Times to pass before amounts are taken, and the amounts.
fn steps() -> impl Strategy<Value = Vec<(i64, u64)>> {
    let pause = prop_oneof![4 => 0..2_000_i64, 1 => 0..90_000_i64];
    prop::collection::vec((pause, 1..5_u64), 1..120)
}

proptest! {
    /// The guarantee of a sliding window, and that it does not refuse more than it has to.
    #[test]
    fn in_no_minute_more_is_taken_than_the_limit(steps in steps(), most in 4..40_u64) {
        let mut counted = Counted::new(limit(Measure::ToolCalls, most, MINUTE));
        let mut taken: Vec<(i64, u64)> = Vec::new();
        for (pause, amount) in steps {
            counted.clock_ms += pause;
            let now = counted.clock_ms;
            let is_taken = counted.take(amount).is_ok();
            let longer = sum_since(&taken, now - MINUTE_MS - STEP_MS) + amount;
            prop_assert!(is_taken || longer > most, "it is refused although it is left");
            if is_taken {
                taken.push((now, amount));
            }
            prop_assert!(sum_since(&taken, now - MINUTE_MS) <= most);
        }
    }

    #[test]
    fn a_window_of_money_has_the_sum_of_what_was_taken_in_it(
        steps in steps(),
        most in 4..40_u64,
    ) {
        let mut counted = Counted::new(limit(Measure::Cost, most, MINUTE));
        let mut taken: Vec<(i64, u64)> = Vec::new();
        let mut epoch = None;
        for (pause, amount) in steps {
            counted.clock_ms += pause;
            let now = counted.clock_ms;
            let begin = *epoch.get_or_insert(now);
            let window = begin + (now - begin) / MINUTE_MS * MINUTE_MS;
            let is_left = sum_since(&taken, window - 1) + amount <= most;
            prop_assert_eq!(counted.take(amount).is_ok(), is_left);
            if is_left {
                taken.push((now, amount));
            }
        }
    }

    #[test]
    fn an_amount_is_left_after_the_time_to_wait_and_not_before(
        steps in steps(),
        most in 4..40_u64,
    ) {
        for measure in [Measure::Tokens, Measure::Cost] {
            let mut counted = Counted::new(limit(measure, most, MINUTE));
            for (pause, amount) in steps.clone() {
                counted.clock_ms += pause;
                let Err(wait) = counted.take(amount) else { continue };
                let wait = i64::try_from(wait.expect("it ends").as_millis()).expect("short");
                counted.clock_ms += wait - 1;
                prop_assert!(counted.take(amount).is_err());
                counted.clock_ms += 1;
                prop_assert!(counted.take(amount).is_ok());
            }
        }
    }

    #[test]
    fn after_settlements_the_used_amount_is_the_sum_of_the_actual_ones(
        charges in prop::collection::vec((0..50_u64, 0..50_u64), 1..30),
    ) {
        let mut counted = Counted::new(limit(Measure::Tokens, 10_000, Window::Never));
        let taken: Vec<_> =
            charges.iter().map(|(amount, _)| counted.take(*amount).expect("it is left")).collect();
        for (charge, (_, actual)) in taken.into_iter().zip(&charges) {
            counted.clock_ms += 1_000;
            counted.change(|count| count.settle(charge, *actual));
        }
        let actual: u64 = charges.iter().map(|(_, actual)| actual).sum();
        prop_assert_eq!(counted.used(), actual);
    }

    /// However the clock goes, nothing is given twice: time only advances by steps forward.
    #[test]
    fn steps_of_the_clock_back_give_nothing(
        steps in prop::collection::vec((-50_000..50_000_i64, 1..5_u64), 1..120),
        most in 4..40_u64,
    ) {
        let mut counted = Counted::new(limit(Measure::Requests, most, MINUTE));
        let mut taken: Vec<(i64, u64)> = Vec::new();
        // The count has seen the first time, too.
        counted.used();
        let mut latest = counted.clock_ms;
        for (step, amount) in steps {
            // Never more than a window behind; see the next tests.
            counted.clock_ms = (counted.clock_ms + step).max(latest - MINUTE_MS);
            latest = latest.max(counted.clock_ms);
            if counted.take(amount).is_ok() {
                taken.push((latest, amount));
            }
            prop_assert!(sum_since(&taken, latest - MINUTE_MS) <= most);
        }
    }

    #[test]
    fn no_row_of_the_store_makes_a_count_panic(
        buckets in prop::collection::vec((any::<i64>(), any::<u64>()), 0..6),
        [epoch_ms, seen_ms, clock_ms] in any::<[i64; 3]>(),
        [amount, actual, most] in any::<[u64; 3]>(),
        length in any::<u64>(),
        first in any::<u8>(),
    ) {
        let windows = [
            Window::Never,
            Window::Rolling(Duration::from_millis(length)),
            Window::Calendar(Period::Quarter(first)),
            Window::Calendar(Period::Week),
        ];
        for window in windows {
            for measure in [Measure::Cost, Measure::Tokens] {
                let limit = limit(measure, most, window);
                let mut sorted = buckets.clone();
                sorted.sort_unstable();
                let buckets = sorted.into_iter();
                let buckets = buckets.map(|(start_ms, used)| StoredBucket { start_ms, used });
                let buckets = buckets.collect();
                let stored = StoredCount { epoch_ms, seen_ms, buckets, extra: None };
                let mut count = Count::open(&limit, stored, clock_ms);
                let before = count.used();
                let charge = count.take(amount);
                prop_assert!(count.used() >= before, "no overflow makes a count smaller");
                count.wait(amount);
                count.lease(amount, 1);
                count.settle(charge, actual);
                count.set_extra(amount, Some(u32::from(first)));
                count.window_start_ms();
                count.window_end_ms();
                count.reset();
                prop_assert_eq!(count.used(), 0);
            }
        }
    }
}

/// Returns the sum of the amounts that were taken after a time.
fn sum_since(taken: &[(i64, u64)], since_ms: i64) -> u64 {
    taken.iter().filter(|(at_ms, _)| *at_ms > since_ms).map(|(_, amount)| amount).sum()
}

#[test]
fn of_a_hundred_calls_a_minute_the_hundred_and_first_is_refused_until_the_first_is_a_minute_ago() {
    let mut counted = Counted::new(limit(Measure::ToolCalls, 100, MINUTE));
    for _ in 0..100 {
        counted.take(1).expect("it is left");
        counted.clock_ms += 500;
    }
    let wait = counted.take(1).expect_err("it is refused").expect("it ends");
    // The first call was 50 s ago.
    assert!(wait >= Duration::from_secs(10) && wait < Duration::from_secs(11), "{wait:?}");
}

#[test]
fn a_clock_that_was_a_year_ahead_blocks_a_limit_for_no_longer_than_a_window() {
    let mut counted = Counted::new(limit(Measure::ToolCalls, 2, MINUTE));
    counted.clock_ms += 365 * DAY_MS;
    counted.take(2).expect("it is left");
    counted.clock_ms -= 365 * DAY_MS;
    counted.take(1).expect_err("a step back gives nothing");
    counted.clock_ms += MINUTE_MS;
    counted.take(1).expect_err("the bucket has not ended");
    counted.clock_ms += STEP_MS;
    counted.take(1).expect("a window has passed");
}

#[test]
fn a_step_back_over_midnight_does_not_begin_the_day_before_again() {
    let mut counted = Counted::new(limit(Measure::Requests, 1, Window::Calendar(Period::Day)));
    counted.take(1).expect("it is left");
    counted.clock_ms += DAY_MS / 2;
    counted.take(1).expect("the next day");
    counted.clock_ms -= 1;
    counted.take(1).expect_err("the clock stands still");
    counted.clock_ms += DAY_MS;
    counted.take(1).expect_err("the day ends with the next midnight");
    counted.clock_ms += 1;
    counted.take(1).expect("the day after");
}

#[test]
fn a_prepaid_amount_never_returns() {
    let mut counted = Counted::new(limit(Measure::Cost, 10, Window::Never));
    counted.take(10).expect("it is left");
    counted.clock_ms += 10_000 * DAY_MS;
    assert_eq!(counted.take(1), Err(None));
    assert_eq!(counted.take(11), Err(None), "nor does more than the limit");
}

#[test]
fn what_was_used_in_addition_counts_although_it_is_not_left_and_a_reset_forgets_a_charge() {
    let mut counted = Counted::new(limit(Measure::Tokens, 10, MINUTE));
    let charge = counted.take(4).expect("it is left");
    counted.change(|count| count.settle(charge, u64::MAX));
    assert_eq!(counted.used(), u64::MAX);
    counted.take(1).expect_err("nothing is left");
    counted.reset();
    let later = counted.take(5).expect("it is left");
    counted.change(|count| count.settle(charge, 0));
    assert_eq!(counted.used(), 5, "the charge was forgotten");
    counted.change(|count| count.settle(later, 0));
    assert_eq!(counted.used(), 0);
}

#[test]
fn a_settlement_after_the_window_returns_nothing_to_the_next_one() {
    let mut counted = Counted::new(limit(Measure::Cost, 10, MINUTE));
    let charge = counted.take(8).expect("it is left");
    counted.clock_ms += MINUTE_MS;
    counted.take(3).expect("a new window");
    counted.change(|count| count.settle(charge, 1));
    assert_eq!(counted.used(), 3);
    counted.change(|count| count.settle(charge, 12));
    assert_eq!(counted.used(), 7, "what was used in addition was used now");
}

#[test]
fn an_addition_holds_for_its_windows_and_raises_the_limit_alone() {
    let mut counted = Counted::new(limit(Measure::Requests, 1, Window::Calendar(Period::Day)));
    counted.change(|count| count.set_extra(2, Some(2)));
    counted.take(3).expect("it is left");
    counted.clock_ms += DAY_MS;
    counted.take(3).expect("the second day");
    counted.clock_ms += DAY_MS;
    counted.take(2).expect_err("the addition has ended");
    counted.take(1).expect("the limit itself");
    counted.change(|count| count.set_extra(1, None));
    counted.clock_ms += 1_000 * DAY_MS;
    counted.take(2).expect("until it is removed");
    counted.clear_extra();
    assert_eq!(counted.change(|count| count.left()), 0);
}

#[test]
fn a_share_is_a_part_of_what_is_left_and_ends_with_the_window() {
    let mut counted = Counted::new(limit(Measure::Cost, 1_600, Window::Calendar(Period::Day)));
    counted.clock_ms += DAY_MS / 2 - 400;
    let (charge, time) = counted.change(|count| count.lease(1_000, 8)).expect("it is large");
    assert_eq!((charge.amount, time), (100, Duration::from_millis(400)));
    assert_eq!(
        counted.change(|count| count.lease(50, 8)).map(|(charge, _)| charge.amount),
        Some(50)
    );
    counted.take(1_330).expect("it is left");
    assert!(counted.change(|count| count.lease(1_000, 8)).is_none(), "120 are left");
    // In a sliding window, a share counts from the end of its time.
    let mut counted = Counted::new(limit(Measure::ToolCalls, 1_600, MINUTE));
    let (charge, time) = counted.change(|count| count.lease(1_000, 8)).expect("it is large");
    let time_ms = i64::try_from(time.as_millis()).expect("short");
    assert_eq!(time_ms, STEP_MS);
    counted.clock_ms += time_ms + MINUTE_MS;
    assert_eq!(counted.used(), charge.amount);
}
