//! Times, as text.

use std::time::{Duration, SystemTime};

/// Parses a time of RFC 3339, with any offset from UTC. Times before 1970 are refused.
pub(super) fn rfc3339(text: &str) -> Result<SystemTime, String> {
    parse(text).ok_or_else(|| {
        let found = airlock_strings::cut(text.to_owned(), 64);
        format!("found {found:?}, expected a time such as \"2027-01-31T12:00:00Z\" (RFC 3339)")
    })
}

fn parse(text: &str) -> Option<SystemTime> {
    if let Some(local) = text.strip_suffix('Z') {
        return utc(local);
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let minutes = 60 * two_digits(hours, 23)? + two_digits(minutes, 59)?;
    let distance = Duration::from_mins(minutes);
    match offset.as_bytes().first()? {
        b'+' => utc(local)?.checked_sub(distance),
        b'-' => utc(local)?.checked_add(distance),
        _ => None,
    }
}

fn utc(local: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(&format!("{local}Z")).ok()
}

fn two_digits(text: &str, max: u64) -> Option<u64> {
    let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && *number <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_have_any_offset_from_utc() {
        let noon = SystemTime::UNIX_EPOCH + Duration::from_hours(12);
        for text in [
            "1970-01-01T12:00:00Z",
            "1970-01-01T12:00:00.000Z",
            "1970-01-01T14:30:00+02:30",
            "1970-01-01T06:00:00-06:00",
            "1970-01-01T12:00:00-00:00",
        ] {
            assert_eq!(rfc3339(text), Ok(noon), "{text}");
        }
    }

    #[test]
    fn a_time_without_an_offset_or_with_fields_out_of_range_is_refused() {
        for text in [
            "",
            "tomorrow",
            "é",
            "2027-01-31",
            "2027-01-31T12:00:00",
            "2027-13-31T12:00:00Z",
            "2027-01-31T12:00:00+24:00",
            "2027-01-31T12:00:00+00:60",
            "2027-01-31T12:00:00+0:000",
            "2027-01-31T12:00:00 02:00",
            "2027-01-31T12:00:00++1:00",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(rfc3339(text).is_err(), "{text}");
        }
    }
}
