//! Model providers.

use std::path::PathBuf;

use crate::secret::Secret;

/// One configured provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Its name: what stands before the `/` in `model`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a provider is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Any service with OpenAI's chat completions.
    OpenAi {
        /// Up to and including `/v1`.
        base_url: String,
        /// Bearer token.
        api_key: Option<Secret>,
    },
    /// A file of turns, for demonstrations and tests.
    Scripted {
        /// The file.
        script: PathBuf,
    },
}
