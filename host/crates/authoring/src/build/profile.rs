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

impl BuildProfile {
    /// Returns the name of the component of the plugin with this id. A component does not say how it
    /// was compiled, so a development build has a name of its own, which is not installed by mistake.
    pub(super) fn file_name(self, id: &str) -> String {
        match self {
            Self::Release => format!("{id}.wasm"),
            Self::Development => format!("{id}.dev.wasm"),
        }
    }
}
