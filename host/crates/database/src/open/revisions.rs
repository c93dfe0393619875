//! The connection that reads the revisions of changes.

use std::time::{Duration, Instant};

use airlock_strings::with_causes;
use tracing::warn;

use crate::{
    error::OpenError,
    location::{Location, ServerUrl},
    settings::Settings,
    sql::{
        Sql, SqlResult,
        postgres::{OPERATION, PgConnection},
        sqlite::SqliteConnection,
    },
};

/// Longest time of connecting to a server for notifications, while the revisions wait to be read.
const LISTEN: Duration = Duration::from_secs(1);
/// Time until the certificates for that server, which could not be used, are read again.
const RETRY: Duration = Duration::from_mins(1);

/// A connection that reads the revisions.
pub enum RevisionSource {
    /// A file.
    File {
        /// The connection to it.
        connection: Box<SqliteConnection>,
        /// Version of the data when it was last read.
        version: Option<i64>,
    },
    /// A server.
    Server {
        /// The connection to it, or to its pooler.
        connection: Box<PgConnection>,
        /// Receives notifications if `connection` is to a pooler.
        listener: Option<Box<DirectListener>>,
    },
}

/// Receives notifications from a server that other connections reach through a pooler. Without them, the
/// revisions are still read at each interval.
pub struct DirectListener {
    url: ServerUrl,
    settings: Settings,
    /// `None` while the certificates cannot be used.
    connection: Option<PgConnection>,
    /// Time from which on they are read again.
    retry_at: Instant,
}

/// Opens a connection to a database that is open already. One to a server is made when it is needed.
pub fn revisions(settings: &Settings) -> Result<RevisionSource, OpenError> {
    match &settings.location {
        Location::File(path) => {
            let connection = super::reader(path, settings)?;
            Ok(RevisionSource::File { connection: Box::new(connection), version: None })
        }
        Location::Server(url) => {
            let server = super::server::server(url, settings)?;
            let listener =
                url.is_pooled().then(|| Box::new(DirectListener::new(url.direct(), settings)));
            Ok(RevisionSource::Server { connection: Box::new(PgConnection::new(server)), listener })
        }
    }
}

impl RevisionSource {
    /// Returns whether the database was deleted or replaced.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::File { connection, .. } => connection.is_gone(),
            Self::Server { .. } => false,
        }
    }

    /// Runs a read; `None` if nothing has changed in the file since the last one.
    pub fn read<T>(&mut self, job: impl FnOnce(&Sql<'_>) -> SqlResult<T>) -> SqlResult<Option<T>> {
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
            Self::Server { connection, listener } => {
                match listener {
                    Some(listener) => listener.listen(),
                    None => connection.listen(OPERATION)?,
                }
                connection.read(false, job).map(Some)
            }
        }
    }

    /// Waits for a notification, at most for `time`. Returns whether `stop` has come. Returns `stop`
    /// if no notification can come.
    pub fn wait<F: Future>(&self, stop: F, time: Duration) -> Result<bool, F> {
        match self {
            Self::File { .. } => Err(stop),
            Self::Server { connection, listener } => match listener {
                None => connection.wait_for_notification(stop, time),
                Some(listener) => match &listener.connection {
                    Some(direct) => direct.wait_for_notification(stop, time),
                    None => Err(stop),
                },
            },
        }
    }
}

impl DirectListener {
    fn new(url: &ServerUrl, settings: &Settings) -> Self {
        let settings = settings.clone();
        Self { url: url.clone(), settings, connection: None, retry_at: Instant::now() }
    }

    /// Makes the server send notifications, if it can be reached.
    fn listen(&mut self) {
        if self.connection.is_none() && self.retry_at <= Instant::now() {
            self.set_up();
        }
        if let Some(connection) = &mut self.connection {
            // The server has logged why it cannot be reached.
            drop(connection.listen(LISTEN));
        }
    }

    fn set_up(&mut self) {
        match super::server::server(&self.url, &self.settings) {
            Ok(server) => self.connection = Some(PgConnection::new(server)),
            Err(error) => {
                let error = with_causes(&error);
                warn!(error, "a database server sends no notifications; its changes are polled");
                self.retry_at = Instant::now() + RETRY;
            }
        }
    }
}
