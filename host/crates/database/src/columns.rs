//! Values of columns.

use crate::settings::Clock;
use airlock_core::unix_time::unix_milliseconds;

pub use airlock_core::unix_time::milliseconds;

/// Converts a number for a database, which has only signed ones.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number from a database. A negative one becomes 0.
pub fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Returns the size of a text in bytes.
pub fn size(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

/// Returns the time that a clock shows, in milliseconds since 1970.
pub(crate) fn milliseconds_since_1970(clock: &Clock) -> i64 {
    unix_milliseconds(clock())
}
