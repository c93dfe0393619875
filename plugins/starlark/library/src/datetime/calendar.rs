//! Days of the Gregorian calendar.

use airlock_executor::calendar::{self, DAYS};

pub(super) const MICROS: i64 = 1_000_000;
pub(super) const MICROS_A_DAY: i64 = 86_400 * MICROS;

/// The ordinal of 1 January 1970, with 1 for that of the year 1.
pub(super) const EPOCH_ORDINAL: i64 = 719_163;

const MONTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Days since 1 January 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Day(pub(super) i64);

impl Day {
    /// Returns the day of a date. Fails if there is none.
    pub(super) fn new(year: i64, month: i64, day: i64) -> Result<Self, String> {
        if !(1..=9999).contains(&year) {
            return Err(format!("year {year} is out of range"));
        }
        if !(1..=12).contains(&month) {
            return Err("month must be in 1..12".into());
        }
        if day < 1 || day > days_in(year, month) {
            return Err("day is out of range for month".into());
        }
        Ok(Self(days_from_civil(year, month, day)))
    }

    /// Returns a day if it is in the range of the calendar.
    pub(super) fn checked(day: Option<i64>) -> Option<Self> {
        day.filter(|day| DAYS.contains(day)).map(Self)
    }

    /// Returns year, month and day.
    pub(super) fn civil(self) -> (i64, i64, i64) {
        calendar::civil(self.0)
    }

    /// Returns the day of the week, 0 for Monday.
    pub(super) fn weekday(self) -> i64 {
        (self.0 + 3).rem_euclid(7)
    }

    /// Returns the number of the day in its year, from 1.
    pub(super) fn of_year(self) -> i64 {
        self.0 - days_from_civil(self.civil().0, 1, 1) + 1
    }

    /// Returns year and week of ISO 8601.
    pub(super) fn iso_week(self) -> (i64, i64) {
        // A week belongs to the year of its Thursday.
        let thursday = Self(self.0 - self.weekday() + 3);
        (thursday.civil().0, (thursday.of_year() - 1) / 7 + 1)
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match (usize::try_from(month - 1).ok().and_then(|at| MONTHS.get(at)), leap) {
        (Some(28), true) => 29,
        (Some(days), _) => *days,
        (None, _) => 0,
    }
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
