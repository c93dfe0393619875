//! Periods of the calendar, in UTC. Times are in milliseconds since 1970.

use crate::limit::Period;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;
/// Days of 400 years, after which the calendar repeats.
const DAYS_OF_ERA: i64 = 146_097;
/// Begin of the earliest period that has a time from 1970 on, or before it.
const FIRST_MS: i64 = -366 * DAY_MS;
/// Time after which the calendar stands still, so that no date overflows: the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;

/// Returns the begin of the period that has a time.
pub(crate) fn start_ms(period: Period, at_ms: i64) -> i64 {
    let day = at_ms.clamp(0, LAST_MS).div_euclid(DAY_MS);
    // 1 January 1970 was a Thursday.
    let day = match period {
        Period::Day => day,
        Period::Week => day - (day + 3).rem_euclid(7),
        Period::Month | Period::Quarter(_) | Period::Year => {
            let (year, month) = month_of_day(day);
            let months = year * 12 + month - 1;
            day_of_month(months - (months - offset(period)).rem_euclid(months_of(period)))
        }
    };
    day * DAY_MS
}

/// Returns the end of the period that begins at a time.
pub(crate) fn end_ms(period: Period, start_ms: i64) -> i64 {
    let day = start_ms.clamp(FIRST_MS, LAST_MS).div_euclid(DAY_MS);
    let day = match period {
        Period::Day => day + 1,
        Period::Week => day + 7,
        Period::Month | Period::Quarter(_) | Period::Year => {
            let (year, month) = month_of_day(day);
            day_of_month(year * 12 + month - 1 + months_of(period))
        }
    };
    day * DAY_MS
}

/// Returns the greatest length of a period.
pub(crate) fn longest_ms(period: Period) -> i64 {
    let days = match period {
        Period::Day => 1,
        Period::Week => 7,
        Period::Month => 31,
        Period::Quarter(_) => 92,
        Period::Year => 366,
    };
    days * DAY_MS
}

/// Returns the number of months of a period.
fn months_of(period: Period) -> i64 {
    match period {
        Period::Quarter(_) => 3,
        Period::Year => 12,
        Period::Day | Period::Week | Period::Month => 1,
    }
}

/// Returns the first month of a year in which a period begins, from 0 on.
fn offset(period: Period) -> i64 {
    match period {
        Period::Quarter(first) => i64::from(first.clamp(1, 12)) - 1,
        Period::Day | Period::Week | Period::Month | Period::Year => 0,
    }
}

/// Returns the year of a day since 1970, and its month from 1 on. Years of this computation begin in
/// March, so that the day that may be missing is the last one.
fn month_of_day(day: i64) -> (i64, i64) {
    let day = day + DAYS_TO_1970;
    let era = day.div_euclid(DAYS_OF_ERA);
    let day_of_era = day.rem_euclid(DAYS_OF_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month)
}

/// Returns the first day of a month, which is counted from year 0 on, as a day since 1970.
fn day_of_month(months: i64) -> i64 {
    let month = months.rem_euclid(12) + 1;
    let year = months.div_euclid(12) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_OF_ERA + day_of_era - DAYS_TO_1970
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2024-02-29 12:00 UTC, a Thursday.
    const LEAP_DAY: i64 = 1_709_208_000_000;

    fn days_from(period: Period, at_ms: i64) -> (i64, i64) {
        let start = start_ms(period, at_ms);
        (start / DAY_MS, end_ms(period, start) / DAY_MS)
    }

    #[test]
    fn periods_begin_at_midnight_on_monday_and_on_the_first_of_months() {
        let day = LEAP_DAY / DAY_MS;
        assert_eq!(days_from(Period::Day, LEAP_DAY), (day, day + 1));
        assert_eq!(days_from(Period::Week, LEAP_DAY), (day - 3, day + 4));
        assert_eq!(days_from(Period::Month, LEAP_DAY), (day - 28, day + 1));
        assert_eq!(days_from(Period::Year, LEAP_DAY), (day - 59, day + 307));
        // January to March; with a first quarter from February, February to April.
        assert_eq!(days_from(Period::Quarter(1), LEAP_DAY), (day - 59, day + 32));
        assert_eq!(days_from(Period::Quarter(2), LEAP_DAY), (day - 28, day + 62));
        // With one from March, December 2023 to February.
        assert_eq!(days_from(Period::Quarter(3), LEAP_DAY), (day - 90, day + 1));
        assert_eq!(days_from(Period::Week, 0), (-3, 4));
    }

    proptest! {
        #[test]
        fn each_time_is_in_one_period_and_the_next_one_begins_at_its_end(
            at_ms in 0..LAST_MS,
            kind in 0_u8..5,
            first in 1_u8..=12,
        ) {
            let period = [
                Period::Day,
                Period::Week,
                Period::Month,
                Period::Quarter(first),
                Period::Year,
            ][usize::from(kind)];
            let start = start_ms(period, at_ms);
            let end = end_ms(period, start);
            prop_assert!(start <= at_ms && at_ms < end);
            prop_assert!(end - start <= longest_ms(period));
            prop_assert_eq!(start_ms(period, end - 1), start);
            if end <= LAST_MS {
                prop_assert_eq!(start_ms(period, end), end);
            }
        }
    }
}
