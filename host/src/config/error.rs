//! What is wrong with a configuration, in the operator's words.

use std::{fmt, io};

use serde::Serialize;

/// Why there is no configuration. No value of the file or of the environment is quoted where it
/// could be a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{file} cannot be read")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file says something that cannot be done.
    #[error("{}", list(file, problems))]
    Invalid {
        /// The file.
        file: String,
        /// Everything that was found, in the order of the file where that is known.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// The file that was read.
    pub fn file(&self) -> &str {
        match self {
            Self::Unreadable { file, .. } | Self::Invalid { file, .. } => file,
        }
    }

    /// What is wrong in the file; nothing if it was not read at all.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Invalid { problems, .. } => problems,
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where: `mcp.client_configs[1].stdio_config.command`. Empty if it is the file as a whole.
    pub key: KeyPath,
    /// What was found, and what would be valid.
    pub message: String,
}

impl Problem {
    pub(super) fn of_file(message: impl Into<String>) -> Self {
        Self { key: KeyPath::default(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.0.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.key, self.message)
        }
    }
}

/// Path of a key in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct KeyPath(String);

impl KeyPath {
    /// The path of a member. A name that a dot would not set apart is quoted.
    pub(super) fn member(&self, name: &str) -> Self {
        let is_plain = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'));
        Self(match (is_plain, self.0.is_empty()) {
            (true, true) => name.to_owned(),
            (true, false) => format!("{}.{name}", self.0),
            (false, _) => format!("{}[{:?}]", self.0, crate::text::cut(name.to_owned(), 64)),
        })
    }

    /// The path of an element.
    pub(super) fn element(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of the element with a name, where its index is not known any more.
    pub(super) fn named(&self, name: &str) -> Self {
        Self(format!("{}[name = {name:?}]", self.0))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn list(file: &str, problems: &[Problem]) -> String {
    match problems {
        [only] => format!("{file}: {only}"),
        several => {
            let lines: Vec<_> = several.iter().map(|problem| format!("\n  {problem}")).collect();
            format!("{file} has {} errors:{}", several.len(), lines.concat())
        }
    }
}
