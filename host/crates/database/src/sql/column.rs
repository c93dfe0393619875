//! The values of columns, and the types that they are read as.

/// The value of a column, not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnValue<'r> {
    /// No value.
    Null,
    /// A number.
    Number(i64),
    /// Bytes, or a text as its bytes.
    Bytes(&'r [u8]),
}

/// A type that the value of a column is read as.
pub trait FromColumn<'r>: Sized {
    /// Converts a value; `None` if it has another type or is out of range.
    fn from_value(value: ColumnValue<'r>) -> Option<Self>;
}

impl FromColumn<'_> for i64 {
    fn from_value(value: ColumnValue<'_>) -> Option<Self> {
        match value {
            ColumnValue::Number(number) => Some(number),
            _ => None,
        }
    }
}

impl FromColumn<'_> for u32 {
    fn from_value(value: ColumnValue<'_>) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl FromColumn<'_> for bool {
    fn from_value(value: ColumnValue<'_>) -> Option<Self> {
        Some(i64::from_value(value)? != 0)
    }
}

impl<'r> FromColumn<'r> for &'r [u8] {
    fn from_value(value: ColumnValue<'r>) -> Option<Self> {
        match value {
            ColumnValue::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<const N: usize> FromColumn<'_> for [u8; N] {
    fn from_value(value: ColumnValue<'_>) -> Option<Self> {
        <&[u8]>::from_value(value)?.try_into().ok()
    }
}

impl<'r> FromColumn<'r> for &'r str {
    fn from_value(value: ColumnValue<'r>) -> Option<Self> {
        str::from_utf8(<&[u8]>::from_value(value)?).ok()
    }
}

impl<'r> FromColumn<'r> for Vec<u8> {
    fn from_value(value: ColumnValue<'r>) -> Option<Self> {
        <&[u8]>::from_value(value).map(<[u8]>::to_vec)
    }
}

impl<'r> FromColumn<'r> for String {
    fn from_value(value: ColumnValue<'r>) -> Option<Self> {
        <&str>::from_value(value).map(str::to_owned)
    }
}

impl<'r, T: FromColumn<'r>> FromColumn<'r> for Option<T> {
    fn from_value(value: ColumnValue<'r>) -> Option<Self> {
        match value {
            ColumnValue::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}
