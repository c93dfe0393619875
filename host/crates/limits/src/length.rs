//! Lengths of windows as the configuration and the management API write them: `1m`, `2d`, `1M`, `never`.

use std::{fmt, time::Duration};

use crate::limit::{Period, Window};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Units of lengths in seconds, the longest first. Months, quarters and years have one length here.
const UNITS: [(char, u64); 8] = [
    ('Y', 365 * DAY),
    ('Q', 90 * DAY),
    ('M', 30 * DAY),
    ('w', 7 * DAY),
    ('d', DAY),
    ('h', HOUR),
    ('m', MINUTE),
    ('s', 1),
];
/// Words for lengths.
const WORDS: [(&str, &str); 4] =
    [("daily", "1d"), ("weekly", "1w"), ("monthly", "1M"), ("yearly", "1Y")];
/// A prepaid amount.
const NEVER: &str = "never";
/// Characters of a text that an error has: a request of an operator may have any text in the place
/// of a length.
const MAX_SHOWN: usize = 64;

/// Begin of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// With the use of the limit.
    Rolling,
    /// That of the calendar. The first quarter of a year begins with this month, 1 to 12.
    Calendar {
        /// The month.
        quarter_start: u8,
    },
}

/// A text is no length of a window. The text in it is bounded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLength {
    /// It has another form.
    #[error(
        "found {0:?}, expected a number with m, h, d, w, M, Q or Y, such as \"1m\" or \"1M\", one of \
         \"daily\", \"weekly\", \"monthly\" and \"yearly\", or \"never\""
    )]
    Form(String),
    /// It is too short or too long.
    #[error("must be from 1m to 1Y, found {0:?}")]
    Range(String),
    /// It is no period of the calendar.
    #[error(
        "with `calendar_aligned`, expected 1d, 1w, 1M, 1Q or 1Y, or a time below a day; found {0:?}"
    )]
    Period(String),
}

impl Window {
    /// Parses the length of a window. With windows of the calendar, those below a day stay rolling.
    pub fn parse(text: &str, alignment: Alignment) -> Result<Self, BadLength> {
        if text == NEVER {
            return Ok(Self::Never);
        }
        let word = WORDS.iter().find(|(word, _)| *word == text);
        let split = split(word.map_or(text, |(_, short)| *short));
        let (number, unit, unit_seconds) = split.ok_or_else(|| BadLength::Form(shown(text)))?;
        let seconds = number.checked_mul(unit_seconds);
        let seconds = seconds.filter(|seconds| (MINUTE..=365 * DAY).contains(seconds));
        let seconds = seconds.ok_or_else(|| BadLength::Range(shown(text)))?;
        let rolling = Self::Rolling(Duration::from_secs(seconds));
        let Alignment::Calendar { quarter_start } = alignment else { return Ok(rolling) };
        match period(unit, quarter_start) {
            Some(period) if number == 1 => Ok(Self::Calendar(period)),
            Some(_) => Err(BadLength::Period(shown(text))),
            None => Ok(rolling),
        }
    }

    /// Returns the length that identifies the window, in seconds; 0 for one without end. A window of the
    /// calendar has that of the rolling one with the same text.
    pub fn seconds(self) -> u64 {
        match self {
            Self::Never => 0,
            Self::Rolling(length) => length.as_secs(),
            Self::Calendar(period) => seconds_of(unit(period)).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = match *self {
            Self::Never => return f.write_str(NEVER),
            Self::Calendar(period) => return write!(f, "1{}", unit(period)),
            Self::Rolling(length) => length.as_secs(),
        };
        // Several weeks, months or years are a number of days.
        let fitting = UNITS.iter().find(|(_, length)| {
            seconds == *length || (*length <= DAY && seconds.is_multiple_of(*length))
        });
        fitting.map_or(Ok(()), |(unit, length)| write!(f, "{}{unit}", seconds / length))
    }
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
fn period(unit: char, quarter_start: u8) -> Option<Period> {
    match unit {
        'd' => Some(Period::Day),
        'w' => Some(Period::Week),
        'M' => Some(Period::Month),
        'Q' => Some(Period::Quarter(quarter_start)),
        'Y' => Some(Period::Year),
        _ => None,
    }
}

fn unit(period: Period) -> char {
    match period {
        Period::Day => 'd',
        Period::Week => 'w',
        Period::Month => 'M',
        Period::Quarter(_) => 'Q',
        Period::Year => 'Y',
    }
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALENDAR: Alignment = Alignment::Calendar { quarter_start: 4 };

    fn rolling(seconds: u64) -> Window {
        Window::Rolling(Duration::from_secs(seconds))
    }

    #[test]
    fn a_length_is_a_number_with_a_unit_a_word_or_never() {
        for (text, seconds, written) in [
            ("60s", 60, "1m"),
            ("1m", 60, "1m"),
            ("90s", 90, "90s"),
            ("90m", 5_400, "90m"),
            ("24h", 86_400, "1d"),
            ("daily", 86_400, "1d"),
            ("weekly", 604_800, "1w"),
            ("2w", 1_209_600, "14d"),
            ("1M", 2_592_000, "1M"),
            ("monthly", 2_592_000, "1M"),
            ("1Q", 7_776_000, "1Q"),
            ("yearly", 31_536_000, "1Y"),
        ] {
            let window = Window::parse(text, Alignment::Rolling);
            assert_eq!(window, Ok(rolling(seconds)), "{text}");
            assert_eq!(rolling(seconds).to_string(), written, "{text}");
        }
        assert_eq!(Window::parse("never", CALENDAR), Ok(Window::Never));
        assert_eq!(Window::Never.to_string(), "never");
    }

    #[test]
    fn a_calendar_has_days_weeks_months_quarters_and_years_and_shorter_windows_stay_rolling() {
        for (text, period, written) in [
            ("1d", Period::Day, "1d"),
            ("weekly", Period::Week, "1w"),
            ("1M", Period::Month, "1M"),
            ("1Q", Period::Quarter(4), "1Q"),
            ("1Y", Period::Year, "1Y"),
        ] {
            let window = Window::parse(text, CALENDAR).expect("a window");
            assert_eq!(window, Window::Calendar(period), "{text}");
            assert_eq!(window.to_string(), written);
            let rolling = Window::parse(text, Alignment::Rolling).expect("a window");
            assert_eq!(window.seconds(), rolling.seconds(), "{text}: the count stays");
        }
        assert_eq!(Window::parse("1h", CALENDAR), Ok(rolling(3_600)));
        assert_eq!(Window::parse("2d", CALENDAR), Err(BadLength::Period("2d".to_owned())));
    }

    #[test]
    fn other_texts_and_lengths_are_refused() {
        for text in ["", "m", "1", "+1m", "-1m", "1.5h", "1h30m", "1 m", "1D", "é", "hourly"] {
            let refused = Window::parse(text, Alignment::Rolling);
            assert_eq!(refused, Err(BadLength::Form(text.to_owned())), "{text}");
        }
        for text in ["59s", "0m", "366d", "2Y", "9999999999999999999Y"] {
            let refused = Window::parse(text, Alignment::Rolling);
            assert_eq!(refused, Err(BadLength::Range(text.to_owned())), "{text}");
        }
        let endless = "9".repeat(1 << 20);
        let refused = Window::parse(&endless, Alignment::Rolling);
        assert_eq!(refused, Err(BadLength::Form("9".repeat(MAX_SHOWN))));
    }
}
