//! Paths of values in the arguments, and the errors about them.

use std::fmt;

use serde_json::Value;

use super::{super::messages::describe, BadArguments};

/// Path of a value in the arguments.
pub(super) enum ArgumentPath<'a> {
    Root,
    Member(&'a ArgumentPath<'a>, &'a str),
    Item(&'a ArgumentPath<'a>, usize),
}

impl fmt::Display for ArgumentPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("the arguments"),
            Self::Member(Self::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl ArgumentPath<'_> {
    pub(super) fn error(&self, problem: impl fmt::Display) -> BadArguments {
        BadArguments(format!("{self}: {problem}"))
    }

    pub(super) fn mismatch(&self, value: &Value, expected: &str) -> BadArguments {
        self.error(format_args!("found {}, expected {expected}", describe(value)))
    }
}
