//! Bounds: the limits of one call with their units, and the division of bounded resources between
//! tenants. Knows neither tools nor callers.
//!
//! | module | purpose |
//! |---|---|
//! | [`limit`] | the limits of one call, in one table: keys, units, defaults and maxima |
//! | [`log_rate`] | the rate at which calls of a plugin write to the log |
//! | [`memory`] | the memory that one request holds, and the hook that accounts for it |
//! | [`tenant`] | the parties that calls are accounted to, and their shares of bounded resources |
//! | [`timer`] | the timer of a stream, and a time limit for consecutive waits |
//! | [`units`] | sizes and durations with their unit: `"64MiB"`, `"250ms"` |

pub mod limit;
pub mod log_rate;
pub mod memory;
pub mod tenant;
pub mod timer;
pub mod units;
