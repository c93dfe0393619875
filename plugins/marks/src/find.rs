//! Finds marks in a text: what a person does not see in it, or does not expect in data. Each pass takes time that is
//! linear in the length of the text.

mod bidi;
mod forged;
mod markup;
mod orders;
mod style;
mod tag;
mod unseen;
mod url;
mod words;

pub(crate) use self::url::hosts;
use crate::mark::{FoundMark, MarkSearch};

/// Finds marks of some kinds in a text, in their order.
pub(crate) type MarkPass = fn(&str, &MarkSearch) -> Vec<FoundMark>;

/// The passes in their order. Each reads what the one before it has left, so that a mark which hidden characters
/// interrupt is found when they are removed.
pub(crate) const PASSES: [MarkPass; 4] = [bidi::marks, unseen::marks, markup::marks, orders::marks];

/// Returns whether no pass but that of orders can find something in a text.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii() && !matches!(byte, b'<' | b'[' | b']' | b'#'))
}

#[cfg(test)]
mod tests;
