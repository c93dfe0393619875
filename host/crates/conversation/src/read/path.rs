//! Positions in a request.

use std::fmt;

use super::ItemSite;

/// Position of a value in a request. Displays as OpenAI writes `param`: `input[0].content[1].type`.
///
/// Borrows its parents, so that text is built only for errors.
#[derive(Debug, Clone, Copy)]
pub enum Path<'a> {
    /// The request itself.
    Root,
    /// A member of an object.
    Member(&'a Path<'a>, &'a str),
    /// An element of an array.
    Element(&'a Path<'a>, usize),
    /// An item or a part.
    Item(&'a ItemSite),
}

impl<'a> Path<'a> {
    /// Returns the position of a member.
    pub fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    /// Returns the position of an element.
    pub fn element(&'a self, index: usize) -> Self {
        Self::Element(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Path::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Item(site) => site.fmt(f),
        }
    }
}
