//! The clock of a run: one moment, which stands still, so that a run that is resumed or derived again
//! sees the same time.

use airlock_executor::calendar::{self, DAYS};
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

/// Returns the date of a day, which is counted from 1970. Days that no `date` can have are the first and
/// the last that one can.
fn date(day: i64) -> MontyDate {
    let (year, month, day) = calendar::civil(day.clamp(*DAYS.start(), *DAYS.end()));
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
    fn days_beyond_the_calendar_are_its_first_and_last() {
        for (day, expected) in
            [(0, (1970, 1, 1)), (i64::MIN, (1, 1, 1)), (i64::MAX, (9999, 12, 31))]
        {
            let MontyDate { year, month, day: of_month } = date(day);
            assert_eq!((year, month, of_month), expected, "{day}");
        }
    }
}
