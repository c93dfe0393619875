//! The state that survives a restart: one `SQLite` database, which no other program opens.
//!
//! The file belongs to one user. Several processes of that user may share it, for example `airlock
//! serve` and `airlock call`. It has a write-ahead log and `synchronous=NORMAL`: a finished change
//! survives the end of the process. The last changes may be lost in a power failure, but never a
//! part of one.
//!
//! No operation on the database runs on a worker of the runtime: a lane moves each one to a
//! blocking thread. Each subject has a module with its SQL: [`approvals`],
//! [`kv`], [`login`], [`recall`], [`responses`], [`runs`] and [`upstream`].

pub mod approvals;
mod columns;
mod database;
mod error;
pub mod kv;
mod lane;
mod lazy;
pub mod login;
mod open;
mod owner;
pub mod recall;
pub mod responses;
pub mod runs;
mod schema;
mod settings;
pub mod upstream;

pub use self::{
    database::Database,
    error::{OpenError, Unavailable},
    lazy::LazyDatabase,
    owner::OwnerId,
    settings::{Clock, Settings},
};

#[cfg(test)]
mod tests;
