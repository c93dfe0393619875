//! Paths of values in the arguments, for error messages.

use std::fmt;

use serde_json::Value;

use super::{super::words::shown, BadArguments};

/// Path of a value in the arguments.
pub(super) enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("the arguments"),
            Self::Member(Self::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl Place<'_> {
    pub(super) fn is(&self, problem: impl fmt::Display) -> BadArguments {
        BadArguments(format!("{self}: {problem}"))
    }

    pub(super) fn found(&self, value: &Value, expected: &str) -> BadArguments {
        self.is(format_args!("found {}, expected {expected}", shown(value)))
    }
}
