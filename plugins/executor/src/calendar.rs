//! Days of the Gregorian calendar, counted from 1 January 1970.

use std::ops::RangeInclusive;

/// The days that Python's `date` can have: of the years from 1 to 9999.
pub const DAYS: RangeInclusive<i64> = -719_162..=2_932_896;

/// Returns year, month and day.
///
/// Computes with years that begin in March, so that a leap day is the last of its year
/// (<https://howardhinnant.github.io/date_algorithms.html>, `civil_from_days`).
pub fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
            (*DAYS.start(), (1, 1, 1)),
            (*DAYS.end(), (9999, 12, 31)),
        ] {
            assert_eq!(civil(day), expected, "{day}");
        }
    }
}
