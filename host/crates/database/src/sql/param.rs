//! Values of parameters.

use std::fmt;

/// A value for a parameter of a statement. `Debug` shows the size of a text and not the text: the
/// client of `PostgreSQL` logs parameters.
#[derive(Clone, Copy)]
pub enum Param<'v> {
    /// No value.
    Null,
    /// A number.
    Number(i64),
    /// A text.
    Text(&'v str),
    /// Bytes.
    Bytes(&'v [u8]),
}

/// Lists values for the parameters `?1`, `?2` … of a statement.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::sql::Param::from($value)),*]
    };
}
pub use params;

/// Returns the names of `count` parameters from `?first` on, as a list for `IN`.
pub fn numbered(first: usize, count: usize) -> String {
    let names = (first..first + count).map(|number| format!("?{number}"));
    names.collect::<Vec<_>>().join(", ")
}

impl From<i64> for Param<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Param<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Param<'_> {
    fn from(is_true: bool) -> Self {
        Self::Number(is_true.into())
    }
}

impl<'v> From<&'v str> for Param<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(text)
    }
}

impl<'v> From<&'v String> for Param<'v> {
    fn from(text: &'v String) -> Self {
        Self::Text(text)
    }
}

impl<'v> From<&'v [u8]> for Param<'v> {
    fn from(bytes: &'v [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'v> From<&'v Vec<u8>> for Param<'v> {
    fn from(bytes: &'v Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'v, const N: usize> From<&'v [u8; N]> for Param<'v> {
    fn from(bytes: &'v [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'v, T: Into<Param<'v>>> From<Option<T>> for Param<'v> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl fmt::Debug for Param<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "text of {} bytes", text.len()),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_parameters_has_no_text() {
        let token = String::from("hunter2");
        let values: &[Param<'_>] = params![&token, token.as_bytes(), 7_i64, None::<i64>];
        assert_eq!(format!("{values:?}"), "[text of 7 bytes, 7 bytes, 7, NULL]");
    }
}
