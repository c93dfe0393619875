//! Diagnostics: one macro per level, each with a constant message and separate values.
//!
//! ```
//! use airlock_guest::log;
//!
//! let (rows, file) = (3, "a.csv");
//! log::info!("table read", rows, file, bytes = 12 * rows);
//! ```
//!
//! Values are formatted by their `Display`. The host limits the number of lines (1,000 a call) and
//! their length (4 KiB), and marks the lines that it cut. Do not log arguments and results of a
//! tool: the log outlives them and has other readers. Native builds write to stderr.

use std::fmt::Display;

use crate::bindings::airlock::host::log as host;

#[doc(inline)]
pub use crate::{
    __debug as debug, __error as error, __info as info, __trace as trace, __warn as warn,
};

/// Severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Every step.
    Trace,
    /// Details for finding a fault.
    Debug,
    /// Normal events of interest.
    Info,
    /// Something unexpected that was handled.
    Warn,
    /// Something failed.
    Error,
}

/// Writes one line; the macros call it. It reports no failure.
pub fn write(level: Level, message: &str, fields: &[(&str, &dyn Display)]) {
    let fields: Vec<(String, String)> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    if cfg!(target_family = "wasm") {
        host::write(to_host(level), message, &fields);
    } else {
        let fields = fields.iter().map(|(name, value)| format!("{name}={value}"));
        let line: Vec<String> = std::iter::once(message.to_owned()).chain(fields).collect();
        eprintln!("{level:?} {}", line.join(" "));
    }
}

fn to_host(level: Level) -> host::Level {
    match level {
        Level::Trace => host::Level::Trace,
        Level::Debug => host::Level::Debug,
        Level::Info => host::Level::Info,
        Level::Warn => host::Level::Warn,
        Level::Error => host::Level::Error,
    }
}

/// Writes a line about a step: `trace!("row read", row)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Trace, $($line)+) };
}

/// Writes a line for finding a fault: `debug!("cache missed", key = name)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __debug {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Debug, $($line)+) };
}

/// Writes a line about a normal event: `info!("table read", rows)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __info {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Info, $($line)+) };
}

/// Writes a line about something unexpected that was handled: `warn!("row skipped", row)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __warn {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Warn, $($line)+) };
}

/// Writes a line about a failure: `error!("table is broken", row)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __error {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Error, $($line)+) };
}

/// Expands `"message"` and its fields, each `name` or `name = value`.
#[doc(hidden)]
#[macro_export]
macro_rules! __line {
    (@fields [$($done:tt)*]) => { &[$($done)*] };
    (@fields [$($done:tt)*] $name:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__line!(@fields [$($done)* (::core::stringify!($name), &$value),] $($($rest)*)?)
    };
    (@fields [$($done:tt)*] $name:ident $(, $($rest:tt)*)?) => {
        $crate::__line!(@fields [$($done)* (::core::stringify!($name), &$name),] $($($rest)*)?)
    };
    ($level:expr, $message:literal $(, $($fields:tt)*)?) => {
        $crate::log::write($level, $message, $crate::__line!(@fields [] $($($fields)*)?))
    };
}
