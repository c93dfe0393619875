//! Stands for the statements on a server in a build without `PostgreSQL`: the same types, which have
//! no values.

use std::{fmt, io, ops::ControlFlow, sync::Arc, time::Duration};

use super::{ColumnValue, FaultKind, Param, Row, Sql, SqlResult, Subject, insert::InsertPart};
use crate::{location::ServerUrl, settings::Settings};

/// Longest time of one operation.
pub const OPERATION: Duration = Duration::ZERO;
/// Longest time of a migration.
pub(crate) const MIGRATION: Duration = Duration::ZERO;

/// Reason that a statement failed on a server.
#[derive(Debug)]
pub(crate) enum ServerFault {}

impl ServerFault {
    pub(crate) fn is_unreachable(&self) -> bool {
        match *self {}
    }

    pub(crate) fn kind(&self) -> FaultKind {
        match *self {}
    }
}

impl fmt::Display for ServerFault {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// A row of a server.
pub enum PgRow {}

/// Reads a column.
pub(super) fn value(row: &PgRow, _: usize) -> SqlResult<ColumnValue<'_>> {
    match *row {}
}

/// An open connection.
pub(crate) enum PgSession {}

impl PgSession {
    pub(crate) fn script(&self, _: &str) -> SqlResult<Option<i64>> {
        match *self {}
    }

    pub(crate) fn run(&self, _: &str, _: &[Param<'_>]) -> SqlResult<u64> {
        match *self {}
    }

    pub(crate) fn run_each(&self, _: &str, _: &[Vec<Param<'_>>]) -> SqlResult<Vec<u64>> {
        match *self {}
    }

    pub(crate) fn insert(&self, _: &[InsertPart<'_, '_>]) -> SqlResult<()> {
        match *self {}
    }

    pub(crate) fn each<B>(
        &self,
        _: &str,
        _: &[Param<'_>],
        _: impl FnMut(&Row<'_>) -> SqlResult<ControlFlow<B>>,
    ) -> SqlResult<Option<B>> {
        match *self {}
    }

    pub(crate) fn try_lock(&self, _: Subject) -> SqlResult<bool> {
        match *self {}
    }

    pub(crate) fn share_lock(&self, _: Subject) -> SqlResult<()> {
        match *self {}
    }

    pub(crate) fn notify(&self, _: &str) -> SqlResult<()> {
        match *self {}
    }

    pub(crate) fn requests(&self) -> u32 {
        match *self {}
    }
}

/// A server.
pub(crate) enum PgServer {}

impl PgServer {
    pub(crate) fn new(url: ServerUrl, _: &Settings) -> io::Result<Self> {
        url.into_never()
    }
}

/// A connection of a lane.
pub struct PgConnection(Arc<PgServer>);

impl PgConnection {
    pub(crate) fn new(server: Arc<PgServer>) -> Self {
        Self(server)
    }

    pub(crate) fn read<T>(
        &mut self,
        _: bool,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        job(&Sql::on_postgres(self.session(), 0))
    }

    fn session(&self) -> &PgSession {
        match *self.0 {}
    }

    pub(crate) fn read_within<T>(
        &mut self,
        _: Duration,
        _: bool,
        _: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        match *self.0 {}
    }

    pub(crate) fn change<T, E>(
        &mut self,
        _: Duration,
        _: Option<Duration>,
        _: &[Subject],
        _: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>>,
    ) -> SqlResult<Result<T, E>> {
        match *self.0 {}
    }

    pub(crate) fn listen(&mut self, _: Duration) -> SqlResult<()> {
        match *self.0 {}
    }

    pub(crate) fn wait_for_notification<F: Future>(&self, _: F, _: Duration) -> Result<bool, F> {
        match *self.0 {}
    }
}
