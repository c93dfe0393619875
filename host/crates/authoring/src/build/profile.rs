//! The purpose of a build.

/// Purpose of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildProfile {
    /// A component to be installed.
    Release,
    /// The next try while a plugin is written: compiled in a short time, and slower when it runs.
    /// It differs in Rust alone.
    Development,
}
