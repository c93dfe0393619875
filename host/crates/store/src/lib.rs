//! The state that survives a restart: a database of `SQLite` in a file, or of `PostgreSQL` on a server.
//!
//! A file belongs to one user. Several processes of that user may share it, for example `airlock
//! serve` and `airlock call`. It has a write-ahead log and `synchronous=NORMAL`: a finished change
//! survives the end of the process. In a power failure the last changes may be lost, but only as a whole, and no
//! decision is lost: changes of settings, approvals, pins and logins wait for the disk. A server is for several
//! gateways, on several machines.
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
//! | [`Database`], [`LazyDatabase`] | the open database; the one of a process, which is opened when it is first needed |
//! | `copy` | copies everything to another database |
//! | `rekey` | the change of the secrets at rest to a new key |
//! | [`changes`] | the changes of other processes |
//!
//! The lanes and everything below them are the crate `database`.
//!
//! With a key in the settings, these data are sealed: the tokens of logins, the state of login links and of logins of
//! operators, and the documents of entries. They cannot be read in a copy of the database without the key. Other data is
//! not sealed.

pub mod approvals;
pub mod call_log;
pub mod changes;
pub mod components;
mod copy;
mod database;
pub mod entries;
pub mod kv;
mod lazy;
pub mod limits;
pub mod login;
pub mod login_link;
pub mod operator_session;
pub mod operators;
mod page;
pub mod recall;
mod rekey;
pub mod replicas;
pub mod responses;
pub mod runs;
pub mod upstream;

pub use self::{
    copy::{CopyError, copy},
    database::Database,
    lazy::LazyDatabase,
    rekey::{RekeyError, rekey},
};
pub use airlock_database::{
    error::{OpenError, Unavailable},
    inspection::Inspection,
    location::{Location, LocationError, ServerUrl},
    open::ServerState,
    owner::OwnerId,
    schema::SchemaState,
    seal::{SealError, SealKey, SealKeyError, SealKeyId, Seals},
    settings::{Clock, Settings},
    sql::SqlError,
};

#[cfg(test)]
mod tests;
