//! Functions for text that is shown to people and models: truncate it, put it on one line, make it
//! printable or visible, find similar names, and estimate tokens.
//!
//! Text from outside must not act on a terminal. [`printable`] and [`one_line`] replace its control
//! characters. [`visible`] is for text that a person approves: it writes out every character that
//! the person could not see. [`Placeholders`] replaces parts of the texts for a model, and puts them back.
//!
//! [`named_enum!`] defines enums whose values have names, [`debug_fields!`] implements `Debug`.
//!
//! This crate does not depend on the rest of the gateway.

mod encoding;
mod hidden;
mod invisible;
mod lengths;
mod lines;
mod macros;
mod nearest;
mod placeholders;
mod tokens;

use std::error::Error;

pub use self::{
    encoding::{from_hex, hex, hex_digit, percent_decoded},
    hidden::stripped,
    invisible::{has_hidden, is_invisible, visible, visible_json, visible_line},
    lengths::{
        MAX_EXCERPT_BYTES, MAX_LINE_BYTES, MAX_LISTED, MAX_MESSAGE_BYTES, MAX_NAME_BYTES,
        MAX_NAMED, MAX_REASON_BYTES, MAX_WORD_BYTES,
    },
    lines::line_end,
    nearest::nearest,
    placeholders::{PlaceholderError, PlaceholderSpan, Placeholders},
    tokens::estimated_tokens,
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

/// Replaces control characters by U+FFFD, because an escape sequence could forge the contents of a
/// terminal. Newlines and tabs are kept, and `\r\n` becomes a newline.
///
/// Control characters are replaced and not removed: the text around a removed one could join to a
/// secret that was not found before.
pub fn printable(text: &str) -> String {
    text.replace("\r\n", "\n")
        .chars()
        .map(|c| if matches!(c, '\n' | '\t') { c } else { without_control(c) })
        .collect()
}

/// Puts a text on one line. Every run of whitespace becomes one space; leading and trailing
/// whitespace is removed. Control characters are replaced as in [`printable`].
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().map(without_control));
    }
    line
}

fn without_control(c: char) -> char {
    if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }
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

/// Quotes text as one word for a shell.
pub fn shell_word(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c));
    if !text.is_empty() && is_plain {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
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
    fn text_with_special_characters_is_quoted_for_a_shell() {
        assert_eq!(shell_word("plugins/a.wasm"), "plugins/a.wasm");
        assert_eq!(shell_word("it's here"), r"'it'\''s here'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_cut_respects_characters_and_is_marked() {
        assert_eq!(cut("äöü".into(), 6), "äöü");
        assert_eq!(cut("äöüx".into(), 6), "ä…");
    }

    #[test]
    fn control_characters_other_than_newline_and_tab_are_replaced() {
        assert_eq!(
            printable("a\x1b[2Jb\r\n\tc\u{9b}d\r\0"),
            "a\u{fffd}[2Jb\n\tc\u{fffd}d\u{fffd}\u{fffd}"
        );
        assert_eq!(printable(" Größe – 大小 \u{200d}\n"), " Größe – 大小 \u{200d}\n");
    }

    #[test]
    fn one_line_joins_whitespace_and_replaces_control_characters() {
        assert_eq!(one_line(" a \r\n\tb\u{1b}[31m\u{85}c "), "a b\u{fffd}[31m c");
        assert_eq!(one_line("\0 \n"), "\u{fffd}");
        assert_eq!(one_line(" \n\t"), "");
    }

    #[test]
    fn each_cause_appears_once() {
        assert_eq!(with_causes(&error("it failed")), "it failed: no such thing");
        assert_eq!(with_causes(&error("it failed: no such thing")), "it failed: no such thing");
        assert_eq!(causes(&error("it failed")).count(), 1);
    }

    fn error(message: &'static str) -> Outer {
        Outer { message, cause: io::Error::other("no such thing") }
    }
}
