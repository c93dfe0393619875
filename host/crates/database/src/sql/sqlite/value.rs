//! Values of parameters and columns, as `SQLite` has them.

use rusqlite::{
    ToSql,
    types::{ToSqlOutput, ValueRef},
};

use crate::sql::{Param, column::ColumnValue, error::SqlResult};

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Reads a column. There are no columns of other types: a number with a fraction reads as `NULL`.
pub(crate) fn value<'r>(row: &'r rusqlite::Row<'_>, column: usize) -> SqlResult<ColumnValue<'r>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null | ValueRef::Real(_) => ColumnValue::Null,
        ValueRef::Integer(number) => ColumnValue::Number(number),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => ColumnValue::Bytes(bytes),
    })
}
