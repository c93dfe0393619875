//! Reasons that a plugin is not built.

use std::{io, path::PathBuf};

use airlock_core::tool::BadTool;
use airlock_plugin::{BadManifest, MetadataError};
use airlock_sandbox::LoadError;

use crate::LanguageError;

/// Reason that a plugin is not built. The output of compilers is not part of it: a [`Reporter`] receives
/// it.
///
/// [`Reporter`]: crate::Reporter
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The directory has no sources of a plugin.
    #[error("{directory} holds no plugin that can be built")]
    Language {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: LanguageError,
    },
    /// The directory has no manifest.
    #[error("{directory} has no plugin.toml; `airlock plugin new` writes one")]
    NoManifest {
        /// The directory.
        directory: PathBuf,
    },
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] BadManifest),
    /// The manifest names a version of the contract that is not built for.
    #[error("plugin.toml: contract: found {found:?}, this airlock builds for {known}")]
    Contract {
        /// Version in the manifest.
        found: String,
        /// The versions that are built for.
        known: String,
    },
    /// A compiler is missing or too old. The text has the version to install.
    #[error("{0}")]
    Compiler(String),
    /// A tool failed, or did not write what a build needs. The text has where its output is.
    #[error("{0}")]
    Failed(String),
    /// A file cannot be read or written, or a tool cannot be started.
    #[error("{what}")]
    Io {
        /// The file or the tool, and what failed.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// A module is not made a component.
    #[error(
        "the compiled module cannot be made a component without WASI; if one of its crates is \
         written for browsers there, write `[build]` with `wasi = true` to plugin.toml"
    )]
    Encode(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The component does not describe its tools.
    #[error("the plugin cannot be asked for its tools")]
    Describe(#[source] LoadError),
    /// The gateway could not load the guard.
    #[error("the guard cannot be loaded")]
    Guard(#[source] LoadError),
    /// The tools cannot be offered as they are, or contradict the manifest. The text has what to write.
    #[error("{0}")]
    Tools(String),
    /// The gateway would leave a tool out.
    #[error(transparent)]
    Tool(#[from] BadTool),
    /// The component is not one that sections can be embedded in.
    #[error(transparent)]
    Embed(#[from] LoadError),
    /// The embedded sections cannot be read back.
    #[error("what was embedded cannot be read back")]
    Embedded(#[source] MetadataError),
    /// `package.json` is not JSON.
    #[error("package.json cannot be used")]
    Package(#[source] serde_json::Error),
}

impl BuildError {
    /// Returns a function that adds what failed to its cause.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what: what.into(), source }
    }
}
