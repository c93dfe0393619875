//! Windows of limits, as text.

use std::time::Duration;

use airlock_limits::limit::{Period, Window};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Units of durations, in seconds. Months, quarters and years have one length here.
const UNITS: [(char, u64); 8] = [
    ('s', 1),
    ('m', MINUTE),
    ('h', HOUR),
    ('d', DAY),
    ('w', 7 * DAY),
    ('M', 30 * DAY),
    ('Q', 90 * DAY),
    ('Y', 365 * DAY),
];
/// Words for durations.
const WORDS: [(&str, &str); 4] =
    [("daily", "1d"), ("weekly", "1w"), ("monthly", "1M"), ("yearly", "1Y")];
/// A prepaid amount.
const NEVER: &str = "never";

/// Begin of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alignment {
    /// That of the owner.
    Rolling,
    /// That of the calendar. The first quarter of a year begins with this month, 1 to 12.
    Calendar {
        /// The month.
        quarter_start: u8,
    },
}

/// Parses a duration. With windows of the calendar, those below a day stay rolling.
pub(super) fn parse(text: &str, alignment: Alignment) -> Result<Window, String> {
    if text == NEVER {
        return Ok(Window::Never);
    }
    let word = WORDS.iter().find(|(word, _)| *word == text);
    let (number, unit, unit_seconds) =
        split(word.map_or(text, |(_, short)| *short)).ok_or_else(|| {
            let found = airlock_strings::cut(text.to_owned(), 64);
            format!(
                "found {found:?}, expected a number with m, h, d, w, M, Q or Y, such as \"1m\" or \"1M\", one of \
                 \"daily\", \"weekly\", \"monthly\" and \"yearly\", or \"never\""
            )
        })?;
    let seconds = number.checked_mul(unit_seconds);
    let seconds = seconds.filter(|seconds| (MINUTE..=365 * DAY).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("must be from 1m to 1Y, found {text:?}"))?;
    match (alignment, period(unit, alignment)) {
        (Alignment::Calendar { .. }, Some(period)) if number == 1 => Ok(Window::Calendar(period)),
        (Alignment::Calendar { .. }, Some(_)) => Err(format!(
            "with `calendar_aligned`, expected 1d, 1w, 1M, 1Q or 1Y, or a time below a day; found {text:?}"
        )),
        _ => Ok(Window::Rolling(Duration::from_secs(seconds))),
    }
}

/// Returns the length that identifies a window, in seconds; 0 for one without end.
pub(super) fn length(window: Window) -> u64 {
    let unit = match window {
        Window::Never => return 0,
        Window::Rolling(length) => return length.as_secs(),
        Window::Calendar(Period::Day) => 'd',
        Window::Calendar(Period::Week) => 'w',
        Window::Calendar(Period::Month) => 'M',
        Window::Calendar(Period::Quarter(_)) => 'Q',
        Window::Calendar(Period::Year) => 'Y',
    };
    seconds_of(unit).unwrap_or_default()
}

/// Returns the number, the unit, and the length of the unit in seconds.
fn split(text: &str) -> Option<(u64, char, u64)> {
    let unit = text.chars().next_back()?;
    let number = text.strip_suffix(unit)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|_| is_number)?;
    Some((number, unit, seconds_of(unit)?))
}

fn seconds_of(unit: char) -> Option<u64> {
    UNITS.iter().find_map(|(own, seconds)| (*own == unit).then_some(*seconds))
}

/// Returns the period of the calendar with this unit.
fn period(unit: char, alignment: Alignment) -> Option<Period> {
    let quarter_start = match alignment {
        Alignment::Rolling => 1,
        Alignment::Calendar { quarter_start } => quarter_start,
    };
    match unit {
        'd' => Some(Period::Day),
        'w' => Some(Period::Week),
        'M' => Some(Period::Month),
        'Q' => Some(Period::Quarter(quarter_start)),
        'Y' => Some(Period::Year),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALENDAR: Alignment = Alignment::Calendar { quarter_start: 4 };

    fn rolling(seconds: u64) -> Window {
        Window::Rolling(Duration::from_secs(seconds))
    }

    #[test]
    fn a_duration_is_a_number_with_a_unit_a_word_or_never() {
        for (text, seconds) in [
            ("60s", 60),
            ("1m", 60),
            ("90m", 5_400),
            ("24h", 86_400),
            ("1d", 86_400),
            ("daily", 86_400),
            ("weekly", 604_800),
            ("1M", 2_592_000),
            ("monthly", 2_592_000),
            ("1Q", 7_776_000),
            ("yearly", 31_536_000),
        ] {
            assert_eq!(parse(text, Alignment::Rolling), Ok(rolling(seconds)), "{text}");
        }
        assert_eq!(parse("never", CALENDAR), Ok(Window::Never));
    }

    #[test]
    fn a_calendar_has_days_weeks_months_quarters_and_years_and_shorter_windows_stay_rolling() {
        for (text, period) in [
            ("1d", Period::Day),
            ("weekly", Period::Week),
            ("1M", Period::Month),
            ("1Q", Period::Quarter(4)),
            ("1Y", Period::Year),
        ] {
            let window = parse(text, CALENDAR).expect("a window");
            assert_eq!(window, Window::Calendar(period), "{text}");
            let rolling = parse(text, Alignment::Rolling).expect("a window");
            assert_eq!(length(window), length(rolling), "{text}: the count stays");
        }
        assert_eq!(parse("1h", CALENDAR), Ok(rolling(3_600)));
        assert!(parse("2d", CALENDAR).is_err());
    }

    #[test]
    fn other_texts_and_lengths_are_refused() {
        for text in [
            "",
            "m",
            "1",
            "+1m",
            "-1m",
            "1.5h",
            "1h30m",
            "1 m",
            "1D",
            "é",
            "59s",
            "0m",
            "366d",
            "2Y",
            "hourly",
            "99999999999999999999d",
            "9999999999999999999Y",
        ] {
            assert!(parse(text, Alignment::Rolling).is_err(), "{text}");
        }
    }
}
