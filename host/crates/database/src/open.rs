//! Opens the database. A file is made private, `SQLite` is configured, and files that Airlock cannot
//! use are refused. A server has a module of its own.

mod revisions;
mod server;

pub(crate) use self::server::inspect as inspect_server;
pub use self::{
    revisions::{RevisionSource, revisions},
    server::{ServerState, read as read_server},
};

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use rusqlite::{ErrorCode, OpenFlags};
use tracing::warn;

use crate::{
    connection::{Connection, OpenDatabase},
    error::OpenError,
    location::Location,
    schema::{self, SchemaState},
    settings::Settings,
    sql::{
        Sql, SqlResult,
        sqlite::{SqliteConnection, SqliteSession},
    },
};
use airlock_core::unix_time::unix_milliseconds;

/// Most bytes that the write-ahead log keeps on disk after a large change.
const LOG_BYTES: i64 = 16 << 20;
/// Interval between two attempts to switch to a write-ahead log while another process prevents it.
const RETRY: Duration = Duration::from_millis(10);

/// Opens the database: makes it if it does not exist, and migrates one of an older version.
pub fn open(settings: &Settings) -> Result<OpenDatabase, OpenError> {
    match &settings.location {
        Location::File(path) => open_file(path, settings),
        Location::Server(url) => server::open(url, settings),
    }
}

/// Reads the state of the tables without changing them.
pub fn schema_state(settings: &Settings) -> Result<SchemaState, OpenError> {
    let found = match &settings.location {
        Location::File(path) => look(path)?.map(|(_, version)| version),
        Location::Server(url) => server::version(url, settings)?,
    };
    Ok(SchemaState { found: found.filter(|version| *version > 0), known: schema::VERSION })
}

/// Opens the connections to a file: one that writes, one that reads, and one for long reads of the call log.
fn open_file(path: &Path, settings: &Settings) -> Result<OpenDatabase, OpenError> {
    // Making the file also closes a descriptor of it, which releases all locks that this process
    // holds on it: see "how to corrupt" in SQLite's documentation. So files are opened one at a
    // time. Otherwise, another thread could hold a lock by the time the descriptor is closed.
    static OPENING: Mutex<()> = Mutex::new(());
    let _turn = OPENING.lock();

    // Made absolute, because a path that begins with `file:` would be read as a URI.
    let path =
        std::path::absolute(path).map_err(|error| OpenError::unusable(path.display(), error))?;
    let shown = &path.display();
    make_private(&path).map_err(|error| OpenError::unusable(shown, error))?;
    let mut writer =
        connect(&path, settings.busy_timeout).map_err(|error| OpenError::new(shown, error))?;
    // Checked before anything is written, so that a file that is not Airlock's stays as it is.
    schema::check(&writer, &path)?;
    into_wal(&writer, &path, settings.busy_timeout)
        .map_err(|error| OpenError::new(shown, error))?;
    schema::migrate(&mut writer, &path)?;
    let writer = SqliteConnection::new(writer, &path, settings.clock.clone());
    let connections = [writer, reader(&path, settings)?, reader(&path, settings)?];
    let [writers, readers, log_readers] =
        connections.map(|connection| vec![Connection::Sqlite(Box::new(connection))]);
    // A file has one change at a time, whatever the number of connections.
    Ok(OpenDatabase { writers, log_writers: Vec::new(), readers, log_readers })
}

/// Opens a connection to a file that exists, for reading.
fn reader(path: &Path, settings: &Settings) -> Result<SqliteConnection, OpenError> {
    let path =
        std::path::absolute(path).map_err(|error| OpenError::unusable(path.display(), error))?;
    let reader = connect(&path, settings.busy_timeout)
        .map_err(|error| OpenError::new(path.display(), error))?;
    reader
        .pragma_update(None, "query_only", true)
        .map_err(|error| OpenError::new(path.display(), error))?;
    Ok(SqliteConnection::new(reader, &path, settings.clock.clone()))
}

/// Runs a read on the file at `path`, which is not changed, not even to migrate it. `job` gets the version of its tables
/// too; 0 if it has none. Returns the default if there is no such file.
pub fn read_file<T: Default>(
    path: &Path,
    job: impl FnOnce(&Sql<'_>, i32) -> SqlResult<T>,
) -> Result<T, OpenError> {
    let Some((connection, version)) = look(path)? else { return Ok(T::default()) };
    let now = unix_milliseconds(SystemTime::now());
    let sql = Sql::on_sqlite(SqliteSession::new(&connection), now);
    job(&sql, version).map_err(|error| OpenError::new(path.display(), error))
}

/// Opens a database for reading, without making or changing it. Returns its version too; `None` if
/// there is no file.
pub(super) fn look(path: &Path) -> Result<Option<(rusqlite::Connection, i32)>, OpenError> {
    let path =
        std::path::absolute(path).map_err(|error| OpenError::unusable(path.display(), error))?;
    if !path.try_exists().map_err(|error| OpenError::unusable(path.display(), error))? {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(&path, flags)
        .map_err(|error| OpenError::new(path.display(), error))?;
    let version = schema::check(&connection, &path)?;
    Ok(Some((connection, version)))
}

/// Makes the file for this user alone, or removes the access that other users have to it. `SQLite`
/// gives its side files the same mode when it makes them.
fn make_private(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made.map(drop),
    }
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        match fs::metadata(&file) {
            Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
                fs::set_permissions(&file, Permissions::from_mode(0o600))?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn connect(path: &Path, busy_timeout: Duration) -> rusqlite::Result<rusqlite::Connection> {
    // Without the lock of `SQLite` itself, since a lane uses a connection from one thread at a
    // time.
    let connection = rusqlite::Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(busy_timeout)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
    Ok(connection)
}

/// Switches to a write-ahead log, once in a file's life. `SQLite` does not wait here for a process
/// that does the same, so the switch is retried until `patience` is over.
fn into_wal(
    connection: &rusqlite::Connection,
    path: &Path,
    patience: Duration,
) -> rusqlite::Result<()> {
    let give_up = Instant::now() + patience;
    let mode = loop {
        let switched = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match switched {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < give_up =>
            {
                thread::sleep(RETRY);
            }
            switched => break switched?,
        }
    };
    if mode != "wal" {
        // On a network file system, for example, there is no memory that processes could share.
        warn!(path = %path.display(), mode, "the file system allows no write-ahead log; readers wait for writers");
    }
    Ok(())
}
