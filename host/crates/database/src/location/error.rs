//! Reasons that a text is not the location of a database.

/// Reason that a text is not the location of a database. `Display` shows no password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The URL is of another kind of database.
    #[error("a store is a path or a URL that begins with postgres://, and not {found}://")]
    Scheme {
        /// The scheme.
        found: String,
    },
    /// The URL cannot be parsed.
    #[error(
        "the URL is not one of PostgreSQL: postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…; special characters of the password are percent-encoded"
    )]
    Malformed,
    /// The URL names no host.
    #[error("the URL names no host")]
    NoHost,
    /// The URL has a value of `sslmode` that does not protect the connection.
    #[error(
        "sslmode={found} is not supported: it {reason}; use verify-full, or disable for plain text"
    )]
    Mode {
        /// The value.
        found: String,
        /// Reason that it is not supported.
        reason: &'static str,
    },
    /// TLS is requested for a Unix socket, which has none.
    #[error("sslmode requests TLS, which a Unix socket does not have; leave it out")]
    SocketTls,
    /// The URL is of a server, of which this build has no client.
    #[error(
        "a store that begins with postgres:// needs the cargo feature \"postgres\", which this build does not have; use the path of a file"
    )]
    NoPostgres,
}
