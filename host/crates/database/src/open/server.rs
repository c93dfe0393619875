//! Opens a database on a server.

use std::sync::Arc;

use crate::{
    connection::{Connection, OpenDatabase},
    error::OpenError,
    location::ServerUrl,
    schema,
    settings::Settings,
    sql::{
        Sql, SqlResult, first,
        postgres::{PgConnection, PgServer},
    },
};

/// Connections that write, and connections that read. A gateway has as many of each, and one that
/// listens for changes, so that ten gateways are below the hundred connections that a server has by
/// default. More would not make a small server faster: each is a process there.
const CONNECTIONS: usize = 4;
/// Those of the connections that write which are for the call log alone. Its rows come from one thread.
const LOG_WRITERS: usize = 1;

/// Reads the version of the server.
const SERVER_VERSION: &str = "SELECT CAST(current_setting('server_version_num') AS BIGINT)";

/// The state of a server of `PostgreSQL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerState {
    /// Its version, as `server_version_num`: 160004 is 16.4.
    pub version: i64,
    /// Time of its clock, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Migrates the database if it is of an older version.
pub(super) fn open(url: &ServerUrl, settings: &Settings) -> Result<OpenDatabase, OpenError> {
    let server = checked(url, settings)?;
    let mut first = PgConnection::new(server.clone());
    schema::server::migrate(&mut first, url)?;
    let mut writers = connections(&server, CONNECTIONS - LOG_WRITERS - 1);
    // The last one is used first.
    writers.push(Connection::Postgres(Box::new(first)));
    let log_writers = connections(&server, LOG_WRITERS);
    let readers = connections(&server, CONNECTIONS);
    Ok(OpenDatabase { writers, log_writers, readers, log_readers: Vec::new() })
}

/// Returns connections that are made when they are needed.
fn connections(server: &Arc<PgServer>, count: usize) -> Vec<Connection> {
    let connections = (0..count).map(|_| PgConnection::new(server.clone()));
    connections.map(|connection| Connection::Postgres(Box::new(connection))).collect()
}

/// Returns the version of the tables, without changing them; `None` if there are none.
pub(super) fn version(url: &ServerUrl, settings: &Settings) -> Result<Option<i32>, OpenError> {
    schema::server::version(&mut PgConnection::new(checked(url, settings)?), url)
}

/// Returns the state of a server, and the version of the tables as [`version`] does.
pub(crate) fn inspect(
    url: &ServerUrl,
    settings: &Settings,
) -> Result<(ServerState, Option<i32>), OpenError> {
    let mut connection = PgConnection::new(checked(url, settings)?);
    let state = connection.read(false, |sql| {
        let version = sql.one(SERVER_VERSION, &[], first)?;
        Ok(ServerState { version, now_ms: sql.now() })
    });
    let state = state.map_err(|error| OpenError::new(url, error))?;
    Ok((state, schema::server::version(&mut connection, url)?))
}

/// Runs a read on a database, without changing it. Returns the default if it has no tables.
pub fn read<T: Default>(
    url: &ServerUrl,
    settings: &Settings,
    job: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
) -> Result<T, OpenError> {
    let mut connection = PgConnection::new(checked(url, settings)?);
    if schema::server::version(&mut connection, url)?.is_none() {
        return Ok(T::default());
    }
    connection.read(false, job).map_err(|error| OpenError::new(url, error))
}

/// Returns a server. Fails also if the certificates of the one that sends its notifications cannot be used:
/// nothing else would report that at the start.
fn checked(url: &ServerUrl, settings: &Settings) -> Result<Arc<PgServer>, OpenError> {
    if url.is_pooled() {
        server(url.direct(), settings)?;
    }
    server(url, settings)
}

pub(super) fn server(url: &ServerUrl, settings: &Settings) -> Result<Arc<PgServer>, OpenError> {
    let server = PgServer::new(url.clone(), settings);
    server.map(Arc::new).map_err(|error| OpenError::unusable(url, error))
}
