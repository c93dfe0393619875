//! Servers of `PostgreSQL` for tests.
//!
//! [`TestDatabase::create`] returns an empty database on a server that all tests of this user share:
//! the first one starts it, and it stops some seconds after the last one has ended. A test that stops
//! or breaks its server starts one of its own: [`TestServer::start`]. [`TestPooler`] is `PgBouncer` in
//! front of a database.
//!
//! The programs are those of Debian's package `postgresql-15`, or of any other version in the same
//! place. Where there are none, [`TestDatabase::create`] and [`TestServer::start`] print a line and
//! return `None`, and the test is skipped; with `AIRLOCK_REQUIRE_POSTGRES=1` in the environment, they
//! panic instead. Nothing is written to a disk before it has to be: a crash of the machine may destroy
//! the data, which nobody needs afterwards.

mod database;
mod pooler;
mod programs;
mod server;
mod shared;

pub use self::{database::TestDatabase, pooler::TestPooler, server::TestServer};
