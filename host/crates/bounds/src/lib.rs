//! Bounds: the limits of one call with their units, and the division of bounded resources between
//! tenants; the memory of requests; timers and wake-ups of streams. Knows neither tools nor callers.
//!
//! | module | purpose |
//! |---|---|
//! | [`admission`] | slots for guests that run at once, and the queue of the calls that wait for one |
//! | [`limit`] | the limits of one call, in one table: keys, units, defaults and maxima |
//! | [`log_rate`] | the rate at which calls of a plugin write to the log |
//! | [`memory`] | the memory that one request holds, and the hook that accounts for it |
//! | [`model_calls`] | the maximum number of calls that are read from one response of a model; the member that describes them |
//! | [`profile`] | the ceilings of the limits and rights of plugins, by name |
//! | [`request_memory`] | the memory of all requests in flight, and the share of it that one caller gets |
//! | [`tenant`] | the parties that calls are accounted to, and their shares of bounded resources |
//! | [`timer`] | the timer of a stream, and a time limit for consecutive waits |
//! | [`units`] | sizes and durations with their unit: `"64MiB"`, `"250ms"` |
//! | [`wake`] | the wake-ups of work that its task polls itself |

pub mod admission;
pub mod limit;
pub mod log_rate;
pub mod memory;
pub mod model_calls;
pub mod profile;
pub mod request_memory;
pub mod tenant;
pub mod timer;
pub mod units;
pub mod wake;
