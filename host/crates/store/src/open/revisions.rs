//! The connection that reads the revisions of changes.

use std::time::Duration;

use crate::{
    error::OpenError,
    location::Location,
    settings::Settings,
    sql::{Sql, SqlError, postgres::PgConnection, sqlite::SqliteConnection},
};

/// A connection that reads the revisions.
pub(crate) enum RevisionSource {
    File {
        connection: Box<SqliteConnection>,
        /// Version of the data when it was last read.
        version: Option<i64>,
    },
    Server(Box<PgConnection>),
}

/// Opens a connection to a database that is open already. One to a server is made when it is needed.
pub(crate) fn revisions(settings: &Settings) -> Result<RevisionSource, OpenError> {
    match &settings.location {
        Location::File(path) => {
            let connection = super::reader(path, settings)?;
            Ok(RevisionSource::File { connection: Box::new(connection), version: None })
        }
        Location::Server(url) => {
            let server = super::server::server(url, settings)?;
            Ok(RevisionSource::Server(Box::new(PgConnection::new(server))))
        }
    }
}

impl RevisionSource {
    /// Returns whether the database was deleted or replaced.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::File { connection, .. } => connection.is_gone(),
            Self::Server(_) => false,
        }
    }

    /// Runs a read; `None` if nothing has changed in the file since the last one.
    pub(crate) fn read<T>(
        &mut self,
        job: impl FnOnce(&Sql<'_>) -> Result<T, SqlError>,
    ) -> Result<Option<T>, SqlError> {
        match self {
            Self::File { connection, version } => {
                let found = connection.data_version()?;
                if *version == Some(found) {
                    return Ok(None);
                }
                let done = connection.read(false, job)?;
                *version = Some(found);
                Ok(Some(done))
            }
            Self::Server(connection) => connection.listen(job).map(Some),
        }
    }

    /// Waits for a notification, at most for `time`. Returns whether `stop` has come. Returns `stop`
    /// if no notification can come.
    pub(crate) fn wait<F: Future>(&self, stop: F, time: Duration) -> Result<bool, F> {
        match self {
            Self::File { .. } => Err(stop),
            Self::Server(connection) => connection.wait_for_notification(stop, time),
        }
    }
}
