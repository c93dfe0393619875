//! Statements on a database: a file of `SQLite`, or a server of `PostgreSQL`. This crate has the connections and the
//! tables, and knows none of the subjects that the crate `store` keeps in them.
//!
//! | Module | Content |
//! |---|---|
//! | `location`, `settings` | the place of the database, parsed once; the settings |
//! | `open`, `schema` | opening a file or connecting to a server; the tables of both, and their migrations |
//! | `file_id` | whether a file is still the one that was opened |
//! | `lane`, `connection` | who waits for whom, and for how long; one operation |
//! | `sql` | statements, parameters, rows, errors; the locks of subjects |
//! | `columns` | values of columns |
//! | `error`, `outage` | why an operation fails; the time in which a server cannot be reached |
//! | `metrics` | times and errors of operations, by lane |
//! | `inspection` | the state of a database, which is not changed |
//! | `eviction`, `owner` | room in tables whose rows expire, or belong to owners |
//! | `seal` | secrets at rest |
//! | `revision`, `watcher` | the numbers that tell what has changed, and the thread that reads them |
//!
//! Without the feature `postgres` there are files alone: the types of a server are those of
//! `sql/no_postgres.rs` and `location/no_server.rs`, which have no values.
//!
//! The differences between the two databases, beside those in `sql`:
//!
//! - Changes of a file take turns. Those of a server run at the same time if their subjects differ;
//!   see `sql::subject`.
//! - The time of a file is that of the process. The time of a server is the server's.
//! - A change of a server that is lost in its last moment may have been made.

pub mod columns;
pub mod connection;
pub mod error;
pub mod eviction;
mod file_id;
pub mod inspection;
pub mod lane;
pub mod location;
pub mod metrics;
pub mod open;
pub mod outage;
pub mod owner;
pub mod revision;
pub mod schema;
pub mod seal;
pub mod settings;
pub mod sql;
pub mod watcher;
