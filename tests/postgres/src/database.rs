//! A database of one test.

use std::{path::Path, thread};

use tokio::runtime;
use tokio_postgres::NoTls;
use uuid::Uuid;

use crate::{programs::ROLE, shared::SharedServer};

/// An empty database on the shared server. It is removed when this is dropped, whatever is connected
/// to it.
#[derive(Debug)]
pub struct TestDatabase {
    server: &'static SharedServer,
    name: String,
}

impl TestDatabase {
    /// Creates a database; `None` if `PostgreSQL` is not installed.
    pub fn create() -> Option<Self> {
        let server = SharedServer::get()?;
        let name = format!("test_{}", Uuid::new_v4().simple());
        execute(&server.url("postgres"), &format!("CREATE DATABASE {name}"));
        Some(Self { server, name })
    }

    /// URL of the database, for a user who may do everything in it.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// Name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Executes statements in the database. Blocks. Panics if one fails.
    pub fn execute(&self, statements: &str) {
        execute(&self.url(), statements);
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        execute(&self.server.url("postgres"), &drop);
    }
}

pub(crate) fn url(directory: &Path, port: u16, database: &str) -> String {
    format!("postgres:///{database}?host={}&port={port}&user={ROLE}", directory.display())
}

/// Executes statements, in a thread of its own: callers may be workers of a runtime.
pub(crate) fn execute(url: &str, statements: &str) {
    let url = url.to_owned();
    let statements = statements.to_owned();
    let thread = thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            tokio::spawn(async move { connection.await.is_ok() });
            client.batch_execute(&statements).await
        })
    });
    let executed = thread.join().expect("no panic");
    executed.unwrap_or_else(|error| panic!("{error:?}"));
}
