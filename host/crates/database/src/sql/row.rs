//! Rows.

use super::{
    column::FromColumn,
    error::{SqlError, SqlFault, SqlResult},
    postgres::PgRow,
};

/// A row that is being read.
pub enum Row<'r> {
    /// A row of a file.
    Sqlite(&'r rusqlite::Row<'r>),
    /// A row of a server.
    Postgres(&'r PgRow),
}

impl Row<'_> {
    /// Reads a column, counted from 0. Fails if its value has another type.
    pub fn get<'s, T: FromColumn<'s>>(&'s self, column: usize) -> SqlResult<T> {
        let value = match self {
            Self::Sqlite(row) => super::sqlite::value(row, column)?,
            Self::Postgres(row) => super::postgres::value(row, column)?,
        };
        T::from_value(value).ok_or_else(|| SqlError::new(SqlFault::Column(column)))
    }
}

/// Returns the first column of a row.
pub fn first<T: for<'r> FromColumn<'r>>(row: &Row<'_>) -> SqlResult<T> {
    row.get(0)
}
