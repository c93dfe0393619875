//! Reasons that a dump is not made or loaded.

use std::fmt;

/// Maximum bytes of a dump, which is read whole: room for 32 MiB of arguments and answers as JSON text with an escape for
/// each byte, and for the inputs, the script and usual printed text.
pub const MAX_DUMP_BYTES: usize = 256 << 20;

/// Reason that a run is not dumped or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadDump {
    /// There are too many bytes.
    #[error("a dump has at most {MAX_DUMP_BYTES} bytes, found {found}")]
    TooLarge {
        /// Their number.
        found: usize,
    },
    /// The bytes are no dump.
    #[error("the bytes are not the dump of a run")]
    NotADump,
    /// Another version of this crate has made it.
    #[error("the dump has the version {found:?}, and this program reads the version \"1\"")]
    Version {
        /// The version.
        found: String,
    },
    /// The bytes were changed or cut.
    #[error("the dump was changed: its digest is not that of its content")]
    Digest,
    /// The content is not that of a run.
    #[error("the content of the dump cannot be used: {0}")]
    Content(String),
    /// A function of the run is not there.
    #[error(
        "the run has the function {name:?}, which is not among the functions that it is loaded with"
    )]
    MissingFunction {
        /// Name of the function.
        name: String,
    },
    /// A function is declared in another way than when the run began.
    #[error("the function {name:?} is not declared as it was when the run began")]
    ChangedFunction {
        /// Name of the function.
        name: String,
    },
    /// The script has ended, so that there is nothing to resume.
    #[error("the run has ended; it can be replayed, and not resumed")]
    Finished,
}

impl BadDump {
    pub(crate) fn content(problem: impl fmt::Display) -> Self {
        Self::Content(problem.to_string())
    }
}
