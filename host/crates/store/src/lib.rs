//! The state that survives a restart: a database of `SQLite` in a file, or of `PostgreSQL` on a server.
//!
//! A file belongs to one user. Several processes of that user may share it, for example `airlock
//! serve` and `airlock call`. It has a write-ahead log and `synchronous=NORMAL`: a finished change
//! survives the end of the process. The last changes may be lost in a power failure, but never a
//! part of one. A server is for several gateways, on several machines.
//!
//! No operation on the database runs on a worker of the runtime: a lane moves each one to a
//! blocking thread. Each subject has a module with its SQL: [`approvals`], [`call_log`], [`components`], [`entries`],
//! [`kv`], [`limits`], [`login`], [`login_link`], [`operators`], [`operator_session`], [`recall`], [`replicas`], [`responses`],
//! [`runs`] and [`upstream`]. None of them knows which database it is on.
//!
//! ```text
//! approvals … upstream     statements, each text once
//!        │ a closure over `Sql`, and the `Subject` that it changes
//!     Database             reads and changes, each in its lane
//!        │
//!      Lane                places and turns of parties; a few connections; blocking threads
//!        │
//!    Connection            one read or one transaction
//!     ┌──┴──┐
//!  sql::sqlite  sql::postgres
//! ```
//!
//! | Module | Content |
//! |---|---|
//! | `location`, `settings` | the place of the database, parsed once; the settings |
//! | `open`, `schema` | opening a file or connecting to a server; the tables of both, and their migrations |
//! | `lane`, `connection` | who waits for whom, and for how long; one operation |
//! | `sql` | statements, parameters, rows, errors; the locks of subjects |
//! | `copy` | a copy of everything in another place |
//! | `metrics` | times and errors of operations, by lane |
//! | `inspection` | the state of a database, which is not changed |
//! | `eviction` | room in tables whose rows expire |
//! | `seal`, `rekey` | secrets at rest, and their change to a new key |
//! | [`changes`], `revision`, `watcher` | what other processes have changed; the numbers that tell it, and the thread that reads them |
//!
//! With a key in the settings, the tokens of logins, what login links and logins of operators remember, and the documents of entries are sealed: a copy of
//! the database is of no use without the key. Other data is stored as it is.
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

// What is made for a server has no caller then.
#![cfg_attr(not(feature = "postgres"), allow(dead_code))]

pub mod approvals;
pub mod call_log;
pub mod changes;
mod columns;
pub mod components;
mod connection;
mod copy;
mod database;
pub mod entries;
mod error;
mod eviction;
mod inspection;
pub mod kv;
mod lane;
mod lazy;
pub mod limits;
mod location;
pub mod login;
pub mod login_link;
mod metrics;
mod open;
pub mod operator_session;
pub mod operators;
mod outage;
mod owner;
pub mod recall;
mod rekey;
pub mod replicas;
pub mod responses;
mod revision;
pub mod runs;
mod schema;
mod seal;
mod settings;
mod sql;
pub mod upstream;
mod watcher;

pub use self::{
    copy::{CopyError, copy},
    database::Database,
    error::{OpenError, Unavailable},
    inspection::{Inspection, ServerState},
    lazy::LazyDatabase,
    location::{Location, LocationError, ServerUrl},
    owner::OwnerId,
    rekey::{RekeyError, rekey},
    schema::SchemaState,
    seal::{SealError, SealKey, SealKeyError, SealKeyId, Seals},
    settings::{Clock, Settings},
    sql::SqlError,
};

#[cfg(test)]
mod tests;
