//! The limits of one call of a plugin, in one table.
//!
//! A row holds everything about a limit: its key in the configuration and in manifests, its
//! meaning, unit, minimum, default, and its maxima. The defaults of the sandbox and of egress, the
//! range checks, the intersection of request and grant, the texts for people, the JSON Schema and
//! the table in `docs/configuration.md` derive from it.

mod set;

use std::time::Duration;

pub use self::set::GuestLimitSet;
use crate::units::{Size, Span};

/// Unit of a limit. An amount is a whole number of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes, written as `"64MiB"`.
    Bytes,
    /// Nanoseconds, written as `"250ms"`.
    Nanoseconds,
}

struct Row {
    key: &'static str,
    description: &'static str,
    unit: Unit,
    minimum: u64,
    default: u64,
    trusted: u64,
    is_requestable: bool,
}

macro_rules! limits {
    ($(
        $(#[doc = $description:literal])+
        $limit:ident($key:literal, $unit:ident):
            $minimum:expr, $default:expr, $trusted:expr, $requestable:literal;
    )*) => {
        /// A limit of one call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum GuestLimit {
            $($(#[doc = $description])+ $limit,)*
        }

        impl GuestLimit {
            /// Every limit, in the order of the table.
            pub const ALL: [Self; [$(Self::$limit),*].len()] = [$(Self::$limit),*];
            const KEYS: &[&str] = &[$($key),*];

            const fn row(self) -> Row {
                match self {
                    $(Self::$limit => Row {
                        key: $key,
                        description: concat!($($description),+).trim_ascii(),
                        unit: Unit::$unit,
                        minimum: $minimum,
                        default: $default,
                        trusted: $trusted,
                        is_requestable: $requestable,
                    },)*
                }
            }
        }
    };
}

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

// Columns: key, unit; minimum; default, which is also the maximum of the profile `untrusted`;
// maximum of the profile `trusted`; whether a manifest may request the limit.
limits! {
    /// Work, in fuel: one unit for an operator, one for a byte in bulk operations.
    Fuel("fuel", Count): 1_000, 1_000_000_000, 1_000_000_000_000, true;
    /// CPU time. Waiting is free.
    CpuTime("cpu_time", Nanoseconds): MILLISECOND, 2 * SECOND, 5 * MINUTE, true;
    /// Wall-clock time, waiting included. The time that `tool_execution_timeout` leaves to the call
    /// applies if it is shorter.
    Deadline("deadline", Nanoseconds): MILLISECOND, HOUR, HOUR, true;
    /// Linear memory.
    Memory("memory", Bytes): 64 * KIB, 64 * MIB, GIB, true;
    /// Elements of all tables together.
    TableElements("table_elements", Count): 0, 20_000, 20_000, false;
    /// Live resource handles.
    Handles("handles", Count): 1, 1_024, 65_536, false;
    /// Bytes that the plugin may pass to the host at once: to one host call, or as its result.
    Copied("copied", Bytes): 64 * KIB, 8 * MIB, 256 * MIB, false;
    /// Host calls.
    HostCalls("host_calls", Count): 0, 1_000, 1_000_000, true;
    /// Size of the result.
    Result("result", Bytes): KIB, MIB, 64 * MIB, true;
    /// Log lines.
    LogLines("log_lines", Count): 0, 1_000, 100_000, false;
    /// Size of a log line.
    LogLine("log_line", Bytes): 64, 4 * KIB, 64 * KIB, false;
    /// HTTP requests, redirects included.
    HttpRequests("http_requests", Count): 0, 20, 10_000, true;
    /// Size of the body of an HTTP request.
    HttpRequest("http_request", Bytes): 0, MIB, 64 * MIB, true;
    /// Size of the body of an HTTP response.
    HttpResponse("http_response", Bytes): 0, 8 * MIB, 64 * MIB, true;
    /// Time for an HTTP exchange.
    HttpTimeout("http_timeout", Nanoseconds): MILLISECOND, 30 * SECOND, HOUR, true;
    /// Consecutive HTTP redirects.
    HttpRedirects("http_redirects", Count): 0, 5, 20, false;
}

impl GuestLimit {
    /// Keys that a manifest may have.
    const REQUESTABLE: [&str; count_requestable()] = {
        let mut keys = [""; count_requestable()];
        let mut from = 0;
        let mut to = 0;
        while from < Self::ALL.len() {
            if Self::ALL[from].row().is_requestable {
                keys[to] = Self::ALL[from].row().key;
                to += 1;
            }
            from += 1;
        }
        keys
    };

    /// Returns the key in `wasm_config.limits`, and in `request.limits` of a manifest.
    pub const fn key(self) -> &'static str {
        self.row().key
    }

    /// Returns the unit of amounts.
    pub const fn unit(self) -> Unit {
        self.row().unit
    }

    /// Returns the meaning of the limit, as a sentence for people.
    pub const fn description(self) -> &'static str {
        self.row().description
    }

    /// Returns the least amount that may be configured.
    pub const fn minimum(self) -> u64 {
        self.row().minimum
    }

    /// Returns the amount that applies if neither manifest nor configuration have one. It is also
    /// the maximum of an untrusted plugin.
    pub const fn default_amount(self) -> u64 {
        self.row().default
    }

    /// Returns the maximum of a trusted plugin.
    pub const fn trusted_maximum(self) -> u64 {
        self.row().trusted
    }

    /// Returns an amount of this limit with its unit, as text.
    pub fn show(self, amount: u64) -> String {
        match self.unit() {
            Unit::Count => amount.to_string(),
            Unit::Bytes => Size(amount).to_string(),
            Unit::Nanoseconds => Span(Duration::from_nanos(amount)).to_string(),
        }
    }

    fn with_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.key() == key)
    }
}

const fn count_requestable() -> usize {
    let mut at = 0;
    let mut count = 0;
    while at < GuestLimit::ALL.len() {
        count += GuestLimit::ALL[at].row().is_requestable as usize;
        at += 1;
    }
    count
}

/// Converts an amount to `usize`. Larger amounts become the maximum.
#[expect(clippy::cast_possible_truncation, reason = "compared with the maximum first")]
pub const fn saturating_usize(amount: u64) -> usize {
    if amount > usize::MAX as u64 { usize::MAX } else { amount as usize }
}

/// Converts an amount to `u32`. Larger amounts become the maximum.
#[expect(clippy::cast_possible_truncation, reason = "compared with the maximum first")]
pub const fn saturating_u32(amount: u64) -> u32 {
    if amount > u32::MAX as u64 { u32::MAX } else { amount as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limits_minimum_is_at_most_its_default_and_that_at_most_its_maximum() {
        for limit in GuestLimit::ALL {
            assert!(limit.minimum() <= limit.default_amount(), "{limit:?}");
            assert!(limit.default_amount() <= limit.trusted_maximum(), "{limit:?}");
            assert!(limit.description().ends_with('.'), "{limit:?}");
            assert_eq!(
                GuestLimit::with_key(limit.key()),
                Some(limit),
                "a key belongs to one limit"
            );
        }
    }

    #[test]
    fn amounts_beyond_a_type_become_its_maximum() {
        assert_eq!((saturating_u32(7), saturating_u32(1 << 40)), (7, u32::MAX));
        assert_eq!((saturating_usize(7), saturating_usize(u64::MAX)), (7, usize::MAX));
    }
}
