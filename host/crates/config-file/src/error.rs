//! Errors of a configuration, for the operator.

use std::{fmt, io};

use serde::Serialize;

use super::key_path::KeyPath;

/// Reason that there is no configuration. Values of the file or the environment that may be secrets
/// are never quoted.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}", unreadable(file, source))]
    Unreadable {
        /// The file.
        file: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The content of the file is invalid.
    #[error("{}", list(file, problems))]
    Invalid {
        /// The file.
        file: String,
        /// All problems, in the order of the file if known.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// Returns the name of the file.
    pub fn file(&self) -> &str {
        match self {
            Self::Unreadable { file, .. } | Self::Invalid { file, .. } => file,
        }
    }

    /// Returns the problems in the file; empty if the file could not be read.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Invalid { problems, .. } => problems,
        }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Key path: `mcp.client_configs[1].stdio_config.command`. Empty for the file as a whole.
    pub key: KeyPath,
    /// The found value and the valid ones.
    pub message: String,
}

impl Problem {
    /// Creates the problem of a key, by its path.
    pub fn at(key: &str, message: impl Into<String>) -> Self {
        Self { key: KeyPath::parse(key), message: message.into() }
    }

    /// Creates the problem of the file as a whole.
    pub fn of_file(message: impl Into<String>) -> Self {
        Self { key: KeyPath::default(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_root() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.key, self.message)
        }
    }
}

fn unreadable(file: &str, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "there is no configuration file {file}; give the path of another one, on the command line with `--config FILE`"
            )
        }
        _ => format!("{file} cannot be read"),
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
