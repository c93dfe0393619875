//! Copies a database to another place: from a file to a server, or back.
//!
//! The copy is one snapshot of the source and one transaction of the target, which has to be empty: it
//! is complete, or nothing. What gateways write to the source after it began is not copied, so they
//! are stopped before.

mod tables;

use std::{fmt, ops::ControlFlow};

use self::tables::{CopiedKind, CopiedTable, TABLES};
use airlock_database::{
    connection::{Connection, OpenDatabase},
    error::OpenError,
    open,
    settings::Settings,
    sql::{Param, Row, Sql, SqlError, SqlResult, Subject, first},
};

/// Rows, and bytes of their values, that are written at once.
const ROWS_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 1 << 20;

/// Reason that a database was not copied. The target is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source is a file that does not exist.
    #[error("there is no database {store}")]
    Missing {
        /// The file.
        store: String,
    },
    /// The target has rows already.
    #[error("the database {store} is not empty: it has rows in {table}")]
    NotEmpty {
        /// The target.
        store: String,
        /// A table with rows.
        table: &'static str,
    },
    /// The source or the target cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The source cannot be read, or the target cannot be written.
    #[error("the database was not copied")]
    Failed(#[from] SqlError),
    /// The copy was interrupted.
    #[error("the copy was interrupted")]
    Lost(#[from] tokio::task::JoinError),
}

/// Copies all data from one database to another one, which has none. Both are migrated to the schema
/// of this version first; the target is made if it does not exist. Returns the number of rows.
pub async fn copy(from: Settings, to: Settings) -> Result<u64, CopyError> {
    tokio::task::spawn_blocking(move || copy_blocking(&from, &to)).await?
}

fn copy_blocking(from: &Settings, to: &Settings) -> Result<u64, CopyError> {
    if from.location.is_missing_file() {
        return Err(CopyError::Missing { store: from.location.to_string() });
    }
    let mut source = first_of(open::open(from)?.readers);
    let OpenDatabase { writers, .. } = open::open(to)?;
    let mut target = first_of(writers);
    let copied = source.copy_read(|source| {
        target.copy_write(&[Subject::SCHEMA], |target| {
            if let Some(table) = occupied(target)? {
                return Ok(Err(table));
            }
            let mut rows = 0;
            for table in &TABLES {
                rows += table.copy(source, target)?;
            }
            Ok(Ok(rows))
        })
    })?;
    copied.map_err(|table| CopyError::NotEmpty { store: to.location.to_string(), table })
}

fn first_of(connections: Vec<Connection>) -> Connection {
    connections.into_iter().next().expect("a lane has a connection")
}

/// Returns a table that has rows.
fn occupied(target: &Sql<'_>) -> SqlResult<Option<&'static str>> {
    for table in &TABLES {
        let count: i64 = target.one(&format!("SELECT count(*) FROM {table}"), &[], first)?;
        if count > 0 {
            return Ok(Some(table.name));
        }
    }
    Ok(None)
}

impl CopiedTable {
    /// Copies the rows. Returns their number.
    fn copy(&self, source: &Sql<'_>, target: &Sql<'_>) -> SqlResult<u64> {
        let insert = self.insert();
        let kinds = self.kinds();
        let mut batch = RowBatch::default();
        let mut copied = 0;
        source.each(&self.select(), &[], |row| {
            batch.add(&kinds, row)?;
            if batch.is_full() {
                copied += batch.write(target, &insert)?;
            }
            Ok(ControlFlow::<()>::Continue(()))
        })?;
        copied += batch.write(target, &insert)?;
        if let Some(column) = self.identity {
            target.resume_identity(self.name, column)?;
        }
        Ok(copied)
    }
}

impl fmt::Display for CopiedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Rows that are written at once.
#[derive(Default)]
struct RowBatch {
    rows: Vec<Vec<CopiedValue>>,
    bytes: usize,
}

/// A value of a column.
enum CopiedValue {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl RowBatch {
    fn add(&mut self, kinds: &[CopiedKind], row: &Row<'_>) -> SqlResult<()> {
        let values = kinds.iter().enumerate();
        let values = values.map(|(index, kind)| kind.read(row, index));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        self.bytes += values.iter().map(CopiedValue::bytes).sum::<usize>();
        self.rows.push(values);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_AT_ONCE || self.bytes >= BYTES_AT_ONCE
    }

    fn write(&mut self, target: &Sql<'_>, insert: &str) -> SqlResult<u64> {
        let rows = std::mem::take(self).rows;
        let rows = rows.iter().map(|row| row.iter().map(CopiedValue::param).collect());
        target.run_all(insert, &rows.collect::<Vec<Vec<Param<'_>>>>())
    }
}

impl CopiedValue {
    fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Number(_) => 0,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn param(&self) -> Param<'_> {
        match self {
            Self::Null => Param::Null,
            Self::Number(number) => Param::Number(*number),
            Self::Text(text) => Param::Text(text),
            Self::Bytes(bytes) => Param::Bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
