//! Times of the store, in milliseconds since 1970, and of requests and responses, in RFC 3339.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::refusal::{Result, invalid};

/// Reads a time in the future, of the member `key`.
pub(crate) fn future(key: &str, text: &str) -> Result<SystemTime> {
    let time = humantime::parse_rfc3339(text).map_err(|_| {
        invalid(format!("`{key}` must be a time such as \"2027-01-31T00:00:00Z\" (RFC 3339)"))
    })?;
    if time <= SystemTime::now() {
        return Err(invalid(format!("{key} must be a future timestamp")));
    }
    Ok(time)
}

/// Renders milliseconds since 1970 as RFC 3339 has them.
pub(crate) fn rfc3339(milliseconds: i64) -> String {
    humantime::format_rfc3339_seconds(time(milliseconds)).to_string()
}

/// Returns the time of milliseconds since 1970, at most the last one that RFC 3339 can write.
pub(crate) fn time(milliseconds: i64) -> SystemTime {
    /// The last second of the year 9999, the latest that is written in RFC 3339.
    const LATEST: u64 = 253_402_300_799;
    let since = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
    UNIX_EPOCH + since.min(Duration::from_secs(LATEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_calendar_has_is_shown_as_the_last_one() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(i64::MAX), "9999-12-31T23:59:59Z");
        assert_eq!(rfc3339(-5), "1970-01-01T00:00:00Z");
    }
}
