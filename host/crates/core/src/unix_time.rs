//! Times as the store, the records and the APIs have them: in milliseconds since 1970.

use std::time::{Duration, SystemTime};

/// Returns a time in milliseconds since 1970; 0 for an earlier one.
pub fn unix_milliseconds(time: SystemTime) -> i64 {
    milliseconds(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// Returns a length of time in milliseconds; the largest number for one that has more.
pub fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_far_ones_are_bounded() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(unix_milliseconds(epoch + Duration::from_micros(1_500)), 1);
        let earlier = epoch.checked_sub(Duration::from_secs(1)).expect("a time");
        assert_eq!(unix_milliseconds(earlier), 0);
        assert_eq!(milliseconds(Duration::MAX), i64::MAX);
    }
}
