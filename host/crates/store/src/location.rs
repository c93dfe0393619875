//! The place where the database is: a file, or a server.

mod url;

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

pub(crate) use self::url::ServerTls;
pub use self::url::{LocationError, ServerUrl};

/// Place of the database. `Display` and `Debug` show no password.
#[derive(Debug, Clone)]
pub enum Location {
    /// A file of `SQLite`.
    File(PathBuf),
    /// A database on a server of `PostgreSQL`.
    Server(ServerUrl),
}

impl Location {
    /// Returns the path of the file; `None` for a server.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Server(_) => None,
        }
    }

    /// Returns whether this is a file that does not exist.
    pub fn is_missing_file(&self) -> bool {
        self.path().is_some_and(|path| matches!(path.try_exists(), Ok(false)))
    }
}

impl FromStr for Location {
    type Err = LocationError;

    /// Parses a path, or a URL that begins with `postgres://` or `postgresql://`. Fails for URLs of
    /// other databases, for parameters that are not safe, and for a URL without its `//`: as a path, it
    /// would be shown with its password.
    fn from_str(text: &str) -> Result<Self, LocationError> {
        if let Some(("postgres" | "postgresql", rest)) = text.split_once(':')
            && !rest.starts_with("//")
        {
            return Err(LocationError::Malformed);
        }
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => ServerUrl::parse(text).map(Self::Server),
            Some((scheme, _)) if !scheme.is_empty() && !scheme.contains('/') => {
                Err(LocationError::Scheme { found: scheme.to_owned() })
            }
            _ => Ok(Self::File(text.into())),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(url) => url.fmt(f),
        }
    }
}
