//! Dates, if a clock is granted.

use std::time::{SystemTime, UNIX_EPOCH};

/// The start of 2025. Without the grant of a clock, the time of a plugin starts long before it.
const FIRST_SECOND: u64 = 1_735_689_600;
const SECONDS_PER_DAY: u64 = 86_400;

/// Returns the current time, such as `2026-11-21T09:13:48Z`; `None` without a clock.
pub(crate) fn now() -> Option<String> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    (seconds >= FIRST_SECOND).then(|| rfc3339(seconds))
}

/// Formats seconds since 1970 as a date of RFC 3339, in UTC.
fn rfc3339(seconds: u64) -> String {
    let days = seconds / SECONDS_PER_DAY;
    let rest = seconds % SECONDS_PER_DAY;
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Returns year, month and day for a number of days since 1970. The computation starts years in
/// March, so that a leap day is the last day of its year.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    // Days from 1 March of the year 0 to 1970.
    let days = days + 719_468;
    let era = days / DAYS_PER_ERA;
    let day_of_era = days % DAYS_PER_ERA;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_at_the_turns_of_days_months_and_years() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (FIRST_SECOND - 1, "2024-12-31T23:59:59Z"),
            (FIRST_SECOND, "2025-01-01T00:00:00Z"),
            (1_795_252_428, "2026-11-21T09:13:48Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), expected);
        }
    }
}
