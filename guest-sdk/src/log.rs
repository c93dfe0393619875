//! Diagnostics: one macro per level, with the syntax of the crate `tracing`. Fields come first,
//! then the message with its arguments.
//!
//! ```
//! use airlock_guest::log;
//!
//! let (rows, file, skipped) = (3, "a.csv", Some(1));
//! log::info!("table read");
//! log::info!("read {rows} rows of {}", file);
//! log::info!(rows, ?skipped, file.name = file, bytes = 12 * rows, "table read");
//! # #[cfg(not(target_family = "wasm"))]
//! # {
//! # let host = airlock_guest::testing::Host::new();
//! # host.run(|_| log::info!(rows, ?skipped, file.name = file, "read {}", 1));
//! # let expected = [("rows", "3"), ("skipped", "Some(1)"), ("file.name", "a.csv")];
//! # let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
//! # assert_eq!((host.logs()[0].message.as_str(), &host.logs()[0].fields[..]), ("read 1", &expected[..]));
//! # }
//! ```
//!
//! A field is `name`, `name = value`, or either with `?` before the value for `Debug`; without it,
//! or with `%`, a value is formatted by its `Display`. The host limits the number of lines (1,000 a
//! call) and their length (4 KiB), and marks the lines that it cut. Do not log arguments and
//! results of a tool: the log outlives them and has other readers.
//!
//! A panic is written at level error with its location, and then ends the call.
//!
//! With the feature `log`, lines of the crate `log` go to the host too, and with the feature
//! `tracing` the events of the crate `tracing`, with the fields of their spans; see
//! `set_forwarded_level`. Native builds write to the [`Host`](crate::testing::Host) of the test,
//! or else to stderr.

#[cfg(feature = "log")]
pub(crate) mod facade;
#[cfg(any(feature = "log", feature = "tracing"))]
mod forwarded;
mod level;
#[cfg(feature = "tracing")]
pub(crate) mod subscriber;

use std::fmt::Display;

use crate::host::log as host;

#[cfg(any(feature = "log", feature = "tracing"))]
pub use forwarded::set_forwarded_level;
pub use level::Level;

#[doc(inline)]
pub use crate::{
    __debug as debug, __error as error, __info as info, __trace as trace, __warn as warn,
};

/// Writes one line; the macros call it. It reports no failure.
pub fn write(level: Level, message: impl Display, fields: &[(&str, &dyn Display)]) {
    let fields: Vec<(String, String)> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    host::write(level.into(), &message.to_string(), &fields);
}

/// Writes the text and the location of a panic.
#[cfg_attr(not(any(target_family = "wasm", test)), expect(dead_code, reason = "a hook on wasm"))]
pub(crate) fn write_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("no text");
    let message = format!("panicked: {text}");
    match panic.location() {
        Some(location) => write(Level::Error, message, &[("location", &location)]),
        None => write(Level::Error, message, &[]),
    }
}

/// Writes a line about a step: `trace!(row, "row read")`.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Trace, [] $($line)+) };
}

/// Writes a line for finding a fault: `debug!(key = name, "cache missed")`.
#[doc(hidden)]
#[macro_export]
macro_rules! __debug {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Debug, [] $($line)+) };
}

/// Writes a line about a normal event: `info!("read {rows} rows")`.
#[doc(hidden)]
#[macro_export]
macro_rules! __info {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Info, [] $($line)+) };
}

/// Writes a line about a problem that the plugin has handled: `warn!(row, "row skipped")`.
#[doc(hidden)]
#[macro_export]
macro_rules! __warn {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Warn, [] $($line)+) };
}

/// Writes a line about a failure: `error!(%error, "table is broken")`.
#[doc(hidden)]
#[macro_export]
macro_rules! __error {
    ($($line:tt)+) => { $crate::__line!($crate::log::Level::Error, [] $($line)+) };
}

/// Expands fields and a message to a call of `write`. The brackets hold the fields that are done.
#[doc(hidden)]
#[macro_export]
macro_rules! __line {
    ($level:expr, [$($done:tt)*]) => { $crate::log::write($level, "", &[$($done)*]) };
    ($level:expr, [$($done:tt)*] $message:literal $($arguments:tt)*) => {
        $crate::log::write($level, ::core::format_args!($message $($arguments)*), &[$($done)*])
    };
    ($level:expr, [$($done:tt)*] $($name:ident).+ = ? $value:expr $(, $($rest:tt)*)?) => {
        $crate::__line!($level, [$($done)*
            (::core::stringify!($($name).+), &::core::format_args!("{:?}", $value)),
        ] $($($rest)*)?)
    };
    ($level:expr, [$($done:tt)*] $($name:ident).+ = % $value:expr $(, $($rest:tt)*)?) => {
        $crate::__line!($level, [$($done)* (::core::stringify!($($name).+), &$value),] $($($rest)*)?)
    };
    ($level:expr, [$($done:tt)*] $($name:ident).+ = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__line!($level, [$($done)* (::core::stringify!($($name).+), &$value),] $($($rest)*)?)
    };
    ($level:expr, [$($done:tt)*] ? $($name:ident).+ $(, $($rest:tt)*)?) => {
        $crate::__line!($level, [$($done)*
            (::core::stringify!($($name).+), &::core::format_args!("{:?}", $($name).+)),
        ] $($($rest)*)?)
    };
    ($level:expr, [$($done:tt)*] % $($name:ident).+ $(, $($rest:tt)*)?) => {
        $crate::__line!($level, [$($done)*
            (::core::stringify!($($name).+), &$($name).+),
        ] $($($rest)*)?)
    };
    ($level:expr, [$($done:tt)*] $($name:ident).+ $(, $($rest:tt)*)?) => {
        $crate::__line!($level, [$($done)*
            (::core::stringify!($($name).+), &$($name).+),
        ] $($($rest)*)?)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Host;

    /// Returns the lines as text.
    fn written(code: impl FnOnce()) -> Vec<String> {
        let host = Host::new();
        host.run(|_| code());
        let logs = host.logs();
        let lines = logs.iter().map(|line| {
            let fields = line.fields.iter().map(|(name, value)| format!(" {name}={value}"));
            format!("{:?} {}{}", line.level, line.message, fields.collect::<String>())
        });
        lines.collect()
    }

    #[test]
    fn a_message_takes_format_arguments() {
        let n = 3;
        let lines = written(|| {
            info!("observing {n}");
            warn!("observing {} of {total:>3}", n, total = 7);
            error!("{{}}");
        });
        assert_eq!(lines, ["Info observing 3", "Warn observing 3 of   7", "Error {}"]);
    }

    #[test]
    fn fields_come_before_the_message_and_have_display_or_debug() {
        struct Row {
            id: u8,
        }
        let row = Row { id: 4 };
        let name = "a b";
        let lines = written(|| {
            debug!(name, %name, ?name, row.id, a.b = 1 + 1, c = ?name, d = %name, "at {}", row.id);
            trace!(name);
        });
        assert_eq!(
            lines,
            [
                r#"Debug at 4 name=a b name=a b name="a b" row.id=4 a.b=2 c="a b" d=a b"#,
                "Trace  name=a b"
            ]
        );
    }

    #[test]
    fn a_panic_is_an_error_with_its_text_and_location() {
        let host = Host::new();
        // The hook is of the whole process: it is put back before anything else may panic.
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(write_panic));
        let panicked = host.run(|_| std::panic::catch_unwind(|| panic!("no {}", "luck")));
        std::panic::set_hook(previous);
        assert!(panicked.is_err());
        let [line] = &host.logs()[..] else { panic!("one line") };
        assert_eq!((line.level, line.message.as_str()), (Level::Error, "panicked: no luck"));
        let (name, location) = &line.fields[0];
        assert_eq!(name, "location");
        assert!(location.contains("log.rs:"), "{location}");
    }
}
