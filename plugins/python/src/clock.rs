//! The clock of a run: one moment, which stands still, so that a run that is resumed or derived again
//! sees the same time.

use monty_types::{MontyDate, MontyDateTime, MontyObject, MontyTimeZone};

const MS_A_DAY: i64 = 24 * 60 * 60 * 1000;

/// A moment, in milliseconds since 1970. The time zone of the machine is not visible: local time is
/// UTC.
#[derive(Clone, Copy)]
pub(crate) struct Clock(pub(crate) i64);

impl Clock {
    /// Returns `date.today()`.
    pub(crate) fn today(self) -> MontyObject {
        MontyObject::Date(date(self.0.div_euclid(MS_A_DAY)))
    }

    /// Returns `datetime.now(zone)`.
    pub(crate) fn now(self, zone: Option<&MontyTimeZone>) -> MontyObject {
        let offset = zone.map(|zone| zone.offset_seconds);
        let local = self.0.saturating_add(i64::from(offset.unwrap_or(0)) * 1000);
        let MontyDate { year, month, day } = date(local.div_euclid(MS_A_DAY));
        let ms = local.rem_euclid(MS_A_DAY);
        MontyObject::DateTime(MontyDateTime {
            year,
            month,
            day,
            hour: small(ms / 3_600_000),
            minute: small(ms / 60_000 % 60),
            second: small(ms / 1000 % 60),
            microsecond: u32::try_from(ms % 1000 * 1000).unwrap_or_default(),
            offset_seconds: offset,
            timezone_name: zone.and_then(|zone| zone.name.clone()),
        })
    }
}

/// Converts a part of the time, which is below the bound of its unit: it is the remainder of a division
/// by it.
fn small(part: i64) -> u8 {
    u8::try_from(part).unwrap_or_default()
}

/// Returns the date of a day, which is counted from 1970, in the Gregorian calendar. Days that no
/// `date` can have are the first and the last that one can.
///
/// Computes with years that begin in March, so that a leap day is the last of its year
/// (<https://howardhinnant.github.io/date_algorithms.html>, `civil_from_days`).
fn date(day: i64) -> MontyDate {
    const FIRST: i64 = -719_162;
    const LAST: i64 = 2_932_896;
    let day = day.clamp(FIRST, LAST) + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    // The clamped day has a year from 1 to 9999.
    MontyDate {
        year: i32::try_from(year).unwrap_or_default(),
        month: u8::try_from(month).unwrap_or_default(),
        day: u8::try_from(day).unwrap_or_default(),
    }
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
            (i64::MIN, (1, 1, 1)),
            (i64::MAX, (9999, 12, 31)),
        ] {
            let MontyDate { year, month, day: of_month } = date(day);
            assert_eq!((year, month, of_month), expected, "{day}");
        }
    }
}
