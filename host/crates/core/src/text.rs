//! Functions for text that is shown to people and models: they cut it, put it on one line, make it
//! visible, and find similar names.
//!
//! This module does not depend on the rest of the gateway.

mod encoding;
mod invisible;
mod nearest;

use std::error::Error;

pub use self::{
    encoding::{hex, hex_digit, percent_decoded},
    invisible::{is_invisible, visible, visible_line},
    nearest::nearest,
};

/// Mark at the end of a text that was cut.
const CUT_MARK: &str = "…";

/// Cuts `text` to at most `limit_bytes` at a character boundary. The mark of the cut, `…`, counts
/// towards the limit.
pub fn cut(mut text: String, limit_bytes: usize) -> String {
    if text.len() > limit_bytes {
        text.truncate(text.floor_char_boundary(limit_bytes.saturating_sub(CUT_MARK.len())));
        text.push_str(CUT_MARK);
    }
    text
}

/// Puts a text on one line. Every run of whitespace and control characters becomes one space;
/// leading and trailing ones are removed.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Renders an error with its causes, separated by `: `. A cause that the text already contains is
/// left out, because many libraries repeat the cause in their own message.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Iterates over the causes of an error, the direct cause first.
pub fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{message}")]
    struct Outer {
        message: &'static str,
        #[source]
        cause: io::Error,
    }

    #[test]
    fn a_cut_respects_characters_and_is_marked() {
        assert_eq!(cut("äöü".into(), 6), "äöü");
        assert_eq!(cut("äöüx".into(), 6), "ä…");
    }

    #[test]
    fn one_line_joins_whitespace_and_control_characters() {
        assert_eq!(one_line(" a \r\n\tb\u{1b}[31m\u{85}c "), "a b [31m c");
    }

    #[test]
    fn each_cause_appears_once() {
        let error = |message| Outer { message, cause: io::Error::other("no such thing") };
        assert_eq!(with_causes(&error("it failed")), "it failed: no such thing");
        assert_eq!(with_causes(&error("it failed: no such thing")), "it failed: no such thing");
        assert_eq!(causes(&error("it failed")).count(), 1);
    }
}
