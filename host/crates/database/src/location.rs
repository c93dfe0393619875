//! The place where the database is: a file, or a server.

mod error;
#[cfg_attr(not(feature = "postgres"), path = "location/no_server.rs")]
mod url;

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

#[cfg(feature = "postgres")]
pub(crate) use self::url::ServerTls;
pub use self::{error::LocationError, url::ServerUrl};

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

#[cfg(all(test, feature = "postgres"))]
#[path = "location/no_server.rs"]
#[expect(dead_code, unreachable_pub, reason = "the test below parses a URL, and does nothing else")]
mod no_server;

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::{LocationError, no_server::ServerUrl};

    #[test]
    fn a_build_without_postgresql_refuses_a_server_and_names_the_feature() {
        let refused = ServerUrl::parse("postgres://ann:hunter2@db.test/airlock");
        let refused = refused.expect_err("there is no client");
        assert_eq!(refused, LocationError::NoPostgres);
        let expected = "a store that begins with postgres:// needs the cargo feature \"postgres\", \
                        which this build does not have; use the path of a file";
        assert_eq!(refused.to_string(), expected);
    }
}
