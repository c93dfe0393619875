//! Values of parameters and columns, in `PostgreSQL`'s binary format.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::fault::UnfitParam;
use crate::sql::{
    Param,
    column::ColumnValue,
    error::{SqlError, SqlFault, SqlResult},
};
pub(crate) use tokio_postgres::Row as PgRow;

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self, ty) {
            (Self::Null, _) => return Ok(IsNull::Yes),
            (Self::Number(number), &Type::INT8) => out.put_i64(*number),
            (Self::Number(number), &Type::INT4) => out.put_i32(i32::try_from(*number)?),
            // A type that the server infers is one of these two, which have the same format.
            (Self::Text(text), &Type::TEXT | &Type::BYTEA | &Type::UNKNOWN) => {
                out.put_slice(text.as_bytes());
            }
            (Self::Bytes(bytes), &Type::BYTEA | &Type::UNKNOWN) => out.put_slice(bytes),
            _ => return Err(UnfitParam { expected: ty.name().to_owned() }.into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_ty: &Type) -> bool {
        // Which value fits which type is known when it is written.
        true
    }

    to_sql_checked!();
}

impl Param<'_> {
    /// Returns the type that a statement which is not prepared declares for this parameter.
    pub(super) fn declared_type(&self) -> Type {
        match self {
            Self::Number(_) => Type::INT8,
            // The server infers it.
            Self::Null | Self::Text(_) | Self::Bytes(_) => Type::UNKNOWN,
        }
    }
}

impl<'r> FromSql<'r> for ColumnValue<'r> {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT8 => Self::Number(i64::from_be_bytes(raw.try_into()?)),
            Type::INT4 => Self::Number(i32::from_be_bytes(raw.try_into()?).into()),
            Type::BOOL => Self::Number(raw.iter().any(|byte| *byte != 0).into()),
            _ => Self::Bytes(raw),
        })
    }

    fn from_sql_null(_ty: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::INT4 | Type::BOOL | Type::BYTEA | Type::TEXT)
    }
}

/// Reads a column.
pub(crate) fn value(row: &PgRow, column: usize) -> SqlResult<ColumnValue<'_>> {
    row.try_get(column).map_err(|_| SqlError::new(SqlFault::Column(column)))
}
