//! Dates from text: ISO 8601 and `strptime`.

use super::DateTime;
use super::calendar::{Day, MICROS, MICROS_A_DAY};
use super::show::{MONTHS, WEEKDAYS};

/// Reads a text from its start.
struct TextReader<'a> {
    rest: &'a str,
}

impl<'a> TextReader<'a> {
    /// Takes `least..=most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        (count >= least).then(|| self.take(count).parse().ok())?
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes one of the names, in full or its first three letters; returns its place.
    fn name(&mut self, names: &[&str], full: bool) -> Option<i64> {
        for (at, name) in names.iter().enumerate() {
            let name = if full { name } else { &name[..3] };
            let head = self.rest.get(..name.len());
            if head.is_some_and(|head| head.eq_ignore_ascii_case(name)) {
                self.take(name.len());
                return i64::try_from(at).ok();
            }
        }
        None
    }

    /// Takes `AM` or `PM`; returns whether it is the afternoon.
    fn half(&mut self) -> Option<bool> {
        let afternoon = match &*self.rest.get(..2)?.to_ascii_uppercase() {
            "AM" => false,
            "PM" => true,
            _ => return None,
        };
        self.take(2);
        Some(afternoon)
    }

    /// Takes up to six digits of a fraction of a second, as microseconds.
    fn fraction(&mut self, most: usize) -> Option<i64> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let digits = self.take(count);
        (count > 0).then(|| format!("{digits:0<6}")[..6].parse().ok())?
    }

    /// Takes `Z`, `+02:00` or `+0200`, as seconds.
    fn zone(&mut self) -> Option<i32> {
        if self.skip("Z") || self.skip("z") {
            return Some(0);
        }
        let sign = if self.skip("-") {
            -1
        } else if self.skip("+") {
            1
        } else {
            return None;
        };
        let hours = self.digits(2, 2)?;
        let colon = self.skip(":");
        let minutes = if self.rest.is_empty() && !colon { 0 } else { self.digits(2, 2)? };
        let seconds = if self.skip(":") { self.digits(2, 2)? } else { 0 };
        let total = hours * 3600 + minutes * 60 + seconds;
        (total < 86_400 && minutes < 60).then(|| i32::try_from(sign * total).ok())?
    }
}

/// Reads ISO 8601 as `fromisoformat` does; `None` if it is none. With `date_only` there is no time.
pub(super) fn iso(text: &str, date_only: bool) -> Option<DateTime> {
    let mut reader = TextReader { rest: text };
    let year = reader.digits(4, 4)?;
    let dash = reader.skip("-");
    let day = if reader.skip("W") {
        let week = reader.digits(2, 2)?;
        let weekday = if dash && reader.skip("-") || !dash && !reader.rest.is_empty() {
            reader.digits(1, 1)?
        } else {
            1
        };
        of_week(year, week, weekday)?
    } else {
        let month = reader.digits(2, 2)?;
        if dash && !reader.skip("-") {
            return None;
        }
        Day::new(year, month, reader.digits(2, 2)?).ok()?
    };
    let midnight = day.0 * MICROS_A_DAY;
    if reader.rest.is_empty() || date_only {
        let whole = reader.rest.is_empty();
        return whole.then_some(DateTime { local: midnight, offset: None });
    }
    // Any one character separates the time.
    let separator = reader.rest.chars().next()?;
    reader.take(separator.len_utf8());
    let mut clock = reader.digits(2, 2).filter(|hour| *hour < 24)? * 3600 * MICROS;
    let colon = reader.skip(":");
    if colon || reader.rest.starts_with(|c: char| c.is_ascii_digit()) {
        clock += reader.digits(2, 2).filter(|minute| *minute < 60)? * 60 * MICROS;
        let more = if colon {
            reader.skip(":")
        } else {
            reader.rest.starts_with(|c: char| c.is_ascii_digit())
        };
        if more {
            clock += reader.digits(2, 2).filter(|second| *second < 60)? * MICROS;
            if reader.skip(".") || reader.skip(",") {
                clock += reader.fraction(usize::MAX)?;
            }
        }
    }
    let offset = if reader.rest.is_empty() { None } else { Some(reader.zone()?) };
    reader.rest.is_empty().then_some(DateTime { local: midnight + clock, offset })
}

fn of_week(year: i64, week: i64, weekday: i64) -> Option<Day> {
    if !(1..=53).contains(&week) || !(1..=7).contains(&weekday) {
        return None;
    }
    let fourth = Day::new(year, 1, 4).ok()?;
    let day = Day(fourth.0 - fourth.weekday() + (week - 1) * 7 + weekday - 1);
    (day.iso_week() == (year, week)).then_some(day)
}

/// The parts that a format names.
struct DateParts {
    year: i64,
    month: i64,
    day: i64,
    of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    offset: Option<i32>,
}

/// Reads a text by a template with `%` codes.
pub(super) fn strptime(text: &str, format: &str) -> Result<DateTime, String> {
    let mut parts = DateParts {
        year: 1900,
        month: 1,
        day: 1,
        of_year: None,
        hour: 0,
        minute: 0,
        second: 0,
        micros: 0,
        afternoon: None,
        offset: None,
    };
    let mut reader = TextReader { rest: text };
    let mismatch = format!("time data '{text}' does not match format '{format}'");
    if fill(&mut parts, &mut reader, format)?.is_none() {
        return Err(mismatch);
    }
    if !reader.rest.is_empty() {
        return Err(format!("unconverted data remains: {}", reader.rest));
    }
    let hour = match parts.afternoon {
        Some(afternoon) => parts.hour % 12 + if afternoon { 12 } else { 0 },
        None => parts.hour,
    };
    if hour > 23 || parts.minute > 59 || parts.second > 61 {
        return Err(mismatch);
    }
    let mut day = Day::new(parts.year, parts.month, parts.day)?;
    if let Some(of_year) = parts.of_year {
        day = Day(Day::new(parts.year, 1, 1)?.0 + of_year - 1);
    }
    let clock = (hour * 3600 + parts.minute * 60 + parts.second) * MICROS + parts.micros;
    Ok(DateTime { local: day.0 * MICROS_A_DAY + clock, offset: parts.offset })
}

/// Reads the codes of a template; `None` inside if the text does not match.
fn fill(
    parts: &mut DateParts,
    reader: &mut TextReader<'_>,
    format: &str,
) -> Result<Option<()>, String> {
    let mut codes = format.chars();
    while let Some(c) = codes.next() {
        if c.is_whitespace() {
            reader.rest = reader.rest.trim_start();
            continue;
        }
        if c != '%' {
            if !reader.skip(c.encode_utf8(&mut [0; 4])) {
                return Ok(None);
            }
            continue;
        }
        let code = codes.next().ok_or_else(|| format!("stray % in format '{format}'"))?;
        match code {
            'F' | 'T' | 'D' | 'R' => {
                let longer = match code {
                    'F' => "%Y-%m-%d",
                    'T' => "%H:%M:%S",
                    'R' => "%H:%M",
                    _ => "%m/%d/%y",
                };
                if fill(parts, reader, longer)?.is_none() {
                    return Ok(None);
                }
            }
            _ => {
                if field(parts, reader, code)
                    .ok_or_else(|| format!("'{code}' is a bad directive in format '{format}'"))?
                    .is_none()
                {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(()))
}

/// Reads one code; `None` for an unknown one, and inside if the text does not match.
#[expect(clippy::option_option, reason = "an unknown code and a text that does not match differ")]
fn field(parts: &mut DateParts, reader: &mut TextReader<'_>, code: char) -> Option<Option<()>> {
    let read = match code {
        'Y' => reader.digits(4, 4).map(|year| parts.year = year),
        'm' => reader.digits(1, 2).map(|month| parts.month = month),
        'd' | 'e' => reader.digits(1, 2).map(|day| parts.day = day),
        'H' | 'I' => reader.digits(1, 2).map(|hour| parts.hour = hour),
        'M' => reader.digits(1, 2).map(|minute| parts.minute = minute),
        'S' => reader.digits(1, 2).map(|second| parts.second = second),
        'f' => reader.fraction(6).map(|micros| parts.micros = micros),
        'y' => {
            reader.digits(2, 2).map(|year| parts.year = year + if year < 69 { 2000 } else { 1900 })
        }
        'j' => reader.digits(1, 3).map(|day| parts.of_year = Some(day)),
        'b' | 'h' => reader.name(&MONTHS, false).map(|at| parts.month = at + 1),
        'B' => reader.name(&MONTHS, true).map(|at| parts.month = at + 1),
        'a' => reader.name(&WEEKDAYS, false).map(drop),
        'A' => reader.name(&WEEKDAYS, true).map(drop),
        'p' => reader.half().map(|half| parts.afternoon = Some(half)),
        'z' => reader.zone().map(|zone| parts.offset = Some(zone)),
        'Z' => ["UTC", "GMT"].iter().any(|zone| reader.skip(zone)).then_some(()),
        '%' => reader.skip("%").then_some(()),
        _ => return None,
    };
    Some(read)
}
