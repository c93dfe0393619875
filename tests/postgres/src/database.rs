//! A database of one test.

use std::{fs::File, path::Path, thread};

use tokio::runtime;
use tokio_postgres::{Client, Error, NoTls, error::SqlState};

use crate::{programs::ROLE, shared::SharedServer};

/// Makes a database empty again, whatever is connected to it.
const RESET: &str = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
                     WHERE datname = current_database() AND pid <> pg_backend_pid(); \
                     DROP SCHEMA public CASCADE; CREATE SCHEMA public";

/// An empty database on the shared server. The next test that needs one gets it, made empty again: to
/// make and to remove a database takes longer than most tests.
#[derive(Debug)]
pub struct TestDatabase {
    server: &'static SharedServer,
    name: String,
    /// Locked while this test has the database.
    _lock: File,
}

impl TestDatabase {
    /// Creates a database; `None` if `PostgreSQL` is not installed.
    ///
    /// # Panics
    ///
    /// If the server does not start, or does not make the database.
    pub fn create() -> Option<Self> {
        let server = SharedServer::get()?;
        let (name, lock) = server.free_database();
        let url = server.url(&name);
        let is_missing = match try_execute(&url, RESET) {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_DATABASE) => true,
            reset => {
                reset.unwrap_or_else(|error| panic!("{error:?}"));
                false
            }
        };
        if is_missing {
            execute(&server.url("postgres"), &format!("CREATE DATABASE {name}"));
        }
        Some(Self { server, name, _lock: lock })
    }

    /// URL of the database, for a user who may do everything in it.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// Name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Directory of the server's socket.
    pub(crate) fn socket_directory(&self) -> &Path {
        self.server.directory()
    }

    /// Executes statements in the database. Blocks. Panics if one fails.
    pub fn execute(&self, statements: &str) {
        execute(&self.url(), statements);
    }
}

pub(crate) fn url(directory: &Path, port: u16, database: &str) -> String {
    format!("postgres:///{database}?host={}&port={port}&user={ROLE}", directory.display())
}

/// Executes statements. Panics if one fails.
pub(crate) fn execute(url: &str, statements: &str) {
    try_execute(url, statements).unwrap_or_else(|error| panic!("{error:?}"));
}

/// Executes statements, in a thread of its own: callers may be workers of a runtime.
fn try_execute(url: &str, statements: &str) -> Result<(), Error> {
    let url = url.to_owned();
    let statements = statements.to_owned();
    let thread = thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        runtime
            .expect("a runtime")
            .block_on(async { connect(&url).await?.batch_execute(&statements).await })
    });
    thread.join().expect("no panic")
}

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move { connection.await.is_ok() });
    Ok(client)
}
