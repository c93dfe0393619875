//! The importance of a line.

use crate::bindings::airlock::host::log as host;

/// Importance of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Every step.
    Trace,
    /// Details for finding a fault.
    Debug,
    /// Normal events.
    Info,
    /// A problem that the plugin has handled.
    Warn,
    /// A failure.
    Error,
}

impl Level {
    pub(crate) fn to_host(self) -> host::Level {
        match self {
            Self::Trace => host::Level::Trace,
            Self::Debug => host::Level::Debug,
            Self::Info => host::Level::Info,
            Self::Warn => host::Level::Warn,
            Self::Error => host::Level::Error,
        }
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn from_host(level: host::Level) -> Self {
        match level {
            host::Level::Trace => Self::Trace,
            host::Level::Debug => Self::Debug,
            host::Level::Info => Self::Info,
            host::Level::Warn => Self::Warn,
            host::Level::Error => Self::Error,
        }
    }
}
