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

same_variants!(Level = host::Level { Trace Debug Info Warn Error });
