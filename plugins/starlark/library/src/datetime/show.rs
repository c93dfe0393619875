//! Dates as text: ISO 8601 and `strftime`.

use super::DateTime;
use super::calendar::{Day, MICROS, MICROS_A_DAY};

pub(super) const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Writes a day as `2024-01-31`.
pub(super) fn date(day: Day) -> String {
    let (year, month, day) = day.civil();
    format!("{year:04}-{month:02}-{day:02}")
}

/// Writes a time in ISO 8601.
pub(super) fn iso(
    time: DateTime,
    separator: &str,
    precision: Option<&str>,
) -> Result<String, String> {
    let hour = time.field(3600 * MICROS, 24);
    let minute = time.field(60 * MICROS, 60);
    let second = time.field(MICROS, 60);
    let micros = time.field(1, MICROS);
    let precision = match precision.unwrap_or("auto") {
        "auto" if micros == 0 => "seconds",
        "auto" => "microseconds",
        other => other,
    };
    let clock = match precision {
        "hours" => format!("{hour:02}"),
        "minutes" => format!("{hour:02}:{minute:02}"),
        "seconds" => format!("{hour:02}:{minute:02}:{second:02}"),
        "milliseconds" => format!("{hour:02}:{minute:02}:{second:02}.{:03}", micros / 1_000),
        "microseconds" => format!("{hour:02}:{minute:02}:{second:02}.{micros:06}"),
        other => return Err(format!("Unknown timespec value {other}")),
    };
    let zone = time.offset.map(|offset| zone(offset, ":")).unwrap_or_default();
    Ok(format!("{}{separator}{clock}{zone}", date(time.day())))
}

/// Writes a distance from UTC as `+02:00`.
fn zone(offset: i32, colon: &str) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let seconds = offset.unsigned_abs();
    let mut out = format!("{sign}{:02}{colon}{:02}", seconds / 3600, seconds / 60 % 60);
    if !seconds.is_multiple_of(60) {
        out.push_str(&format!("{colon}{:02}", seconds % 60));
    }
    out
}

/// Returns the name of a time zone: `UTC`, `UTC+02:00`.
pub(super) fn zone_name(offset: i32) -> String {
    if offset == 0 { "UTC".into() } else { format!("UTC{}", zone(offset, ":")) }
}

/// Writes a difference as `1 day, 2:03:04`.
pub(super) fn delta(micros: i64) -> String {
    let days = micros.div_euclid(MICROS_A_DAY);
    let rest = micros.rem_euclid(MICROS_A_DAY);
    let seconds = rest / MICROS;
    let mut out = match days {
        0 => String::new(),
        1 | -1 => format!("{days} day, "),
        _ => format!("{days} days, "),
    };
    out.push_str(&format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
    if rest % MICROS != 0 {
        out.push_str(&format!(".{:06}", rest % MICROS));
    }
    out
}

/// Formats a time by a template with `%` codes.
pub(super) fn strftime(time: DateTime, template: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = template.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            // GNU: without the zero in front.
            Some('-') => {
                let code = chars.next().ok_or("incomplete format")?;
                let padded = field(time, code)?;
                let bare = padded.trim_start_matches('0');
                out.push_str(if bare.is_empty() { "0" } else { bare });
            }
            Some(code) => out.push_str(&field(time, code)?),
            None => out.push('%'),
        }
    }
    Ok(out)
}

fn field(time: DateTime, code: char) -> Result<String, String> {
    let day = time.day();
    let (year, month, of_month) = day.civil();
    let hour = time.field(3600 * MICROS, 24);
    let minute = time.field(60 * MICROS, 60);
    let second = time.field(MICROS, 60);
    Ok(match code {
        'Y' => format!("{year}"),
        'm' => format!("{month:02}"),
        'd' => format!("{of_month:02}"),
        'e' => format!("{of_month:2}"),
        'H' => format!("{hour:02}"),
        'I' => format!("{:02}", (hour + 11) % 12 + 1),
        'M' => format!("{minute:02}"),
        'S' => format!("{second:02}"),
        'f' => format!("{:06}", time.field(1, MICROS)),
        'y' => format!("{:02}", year % 100),
        'C' => format!("{:02}", year / 100),
        'j' => format!("{:03}", day.of_year()),
        'p' => (if hour < 12 { "AM" } else { "PM" }).into(),
        'a' => named(&WEEKDAYS, day.weekday())[..3].into(),
        'A' => named(&WEEKDAYS, day.weekday()).into(),
        'b' | 'h' => named(&MONTHS, month - 1)[..3].into(),
        'B' => named(&MONTHS, month - 1).into(),
        'w' => ((day.weekday() + 1) % 7).to_string(),
        'u' => (day.weekday() + 1).to_string(),
        'U' => format!("{:02}", (day.of_year() + 6 - (day.weekday() + 1) % 7) / 7),
        'W' => format!("{:02}", (day.of_year() + 6 - day.weekday()) / 7),
        'V' => format!("{:02}", day.iso_week().1),
        'G' => format!("{:04}", day.iso_week().0),
        'z' => time.offset.map(|offset| zone(offset, "")).unwrap_or_default(),
        'Z' => time.offset.map(zone_name).unwrap_or_default(),
        's' => (time.instant().div_euclid(MICROS)).to_string(),
        'F' => date(day),
        'T' | 'X' => format!("{hour:02}:{minute:02}:{second:02}"),
        'R' => format!("{hour:02}:{minute:02}"),
        'D' | 'x' => format!("{month:02}/{of_month:02}/{:02}", year % 100),
        'c' => strftime(time, "%a %b %e %H:%M:%S %Y")?,
        'n' => "\n".into(),
        't' => "\t".into(),
        '%' => "%".into(),
        other => format!("%{other}"),
    })
}

fn named(names: &[&'static str], at: i64) -> &'static str {
    usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or_default()
}
