//! Statements on a database: a file of `SQLite`, or a server of `PostgreSQL`. This crate has the connections and the
//! tables, and knows none of the subjects that the crate `store` keeps in them.
//!
//! | Module | Content |
//! |---|---|
//! | `location`, `settings` | the place of the database, parsed once; the settings |
//! | `open`, `schema` | opening a file or connecting to a server; the tables of both, and their migrations |
//! | `file_id` | the identity of the file that was opened |
//! | `lane`, `connection` | the order in which operations run, and how long they wait; one operation |
//! | `sql` | statements, parameters, rows, errors; the locks of subjects |
//! | `columns` | values of columns |
//! | `error`, `outage` | the errors of operations; the time in which a server cannot be reached |
//! | `metrics` | times and errors of operations, by lane |
//! | `inspection` | reads the state of a database without changing it |
//! | `eviction`, `owner` | room in tables whose rows expire, or belong to owners |
//! | `seal` | secrets at rest |
//! | `revision`, `watcher` | the revision numbers that show changes, and the thread that reads them |
//!
//! Without the feature `postgres`, only files are supported: the types of a server come from
//! `sql/no_postgres.rs` and `location/no_server.rs`, and have no values.
//!
//! The differences between the two databases, beside those in `sql`:
//!
//! - Changes of a file take turns. Those of a server run at the same time if their subjects differ;
//!   see `sql::subject`.
//! - The time of a file is that of the process. The time of a server is the server's.
//! - If the connection to a server is lost during a commit, the change may have been made.

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
