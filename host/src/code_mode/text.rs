//! Untrusted text made safe to stand in a stub: on one line, in a docstring, or between quotes.
//!
//! Tool names, descriptions and schemas come from servers that may want to write more than their
//! own line. What breaks a line, and what a model reads but a person does not see, is taken out
//! here and nowhere else.

use crate::text::is_invisible;
use std::fmt::Write as _;

/// How many times the bytes that are shown of a text may be read to find them.
const MAX_READ: usize = 16;

/// Text on one line: every run of blanks, line breaks and control characters is one blank. Cut to
/// `limit` bytes.
///
/// At most [`MAX_READ`] times as many bytes are read, because blanks and hidden characters need not
/// leave anything behind and a schema can repeat one text many times. What is behind them is cut
/// too.
pub(super) fn line(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let read = &text[..text.floor_char_boundary(limit.saturating_mul(MAX_READ))];
    let visible = read
        .chars()
        .filter(|c| !is_hidden(*c))
        .map(|c| if c.is_control() || c.is_whitespace() { ' ' } else { c });
    for c in visible {
        if c == ' ' && (out.is_empty() || out.ends_with(' ')) {
            continue;
        }
        out.push(c);
        // One character more than fits says that there is more.
        if out.len() > limit + 4 {
            break;
        }
    }
    out.truncate(out.trim_end().len());
    crate::text::cut(out, limit)
}

/// Text as lines of a docstring: nothing in it ends the docstring. Cut to `limit` bytes.
pub(super) fn block(text: &str, limit: usize) -> Vec<String> {
    let text = crate::text::cut(text.trim().to_owned(), limit).replace("\r\n", "\n");
    let lines = text.split(is_line_break).map(|line| {
        let visible =
            line.chars().filter(|c| !is_hidden(*c)).map(|c| if c.is_control() { ' ' } else { c });
        // After the rest: what is taken out may have stood between quotes.
        let visible = visible.collect::<String>().replace(r#"""""#, "'''");
        visible.trim_end().to_owned()
    });
    lines.collect()
}

/// The first sentence of a description, or its beginning.
pub(super) fn summary(description: &str) -> String {
    const LIMIT: usize = 80;
    let text = line(description, 4 * LIMIT);
    match text.find(". ") {
        Some(end) if end < LIMIT => text[..=end].to_owned(),
        _ if text.len() <= LIMIT => text,
        _ => format!("{}...", text[..text.floor_char_boundary(LIMIT - 3)].trim_end()),
    }
}

/// A string literal of Python that means exactly `text` and shows all of it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        // Writing to a String cannot fail.
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            _ if c.is_control() || is_hidden(c) || is_line_break(c) => match u32::from(c) {
                point @ ..=0xffff => write!(out, "\\u{point:04x}"),
                point => write!(out, "\\U{point:08x}"),
            },
            _ => write!(out, "{c}"),
        };
    }
    out.push('"');
    out
}

/// Lines up to `limit` bytes; the last one says how many were left out.
pub(super) fn bounded(lines: impl IntoIterator<Item = String>, limit: usize) -> String {
    let mut out = String::new();
    let mut left_out = 0_usize;
    for line in lines {
        if left_out > 0 || out.len() + line.len() >= limit {
            left_out += 1;
            continue;
        }
        out.push_str(&line);
        out.push('\n');
    }
    if left_out > 0 {
        let _ = write!(out, "... and {left_out} more");
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether Python, or a reader of text, takes `c` for the end of a line.
fn is_line_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Characters that a model reads and a person does not see: direction overrides, zero-width marks,
/// tags and variation selectors. The two joiners stay, since languages are written with them.
fn is_hidden(c: char) -> bool {
    is_invisible(c) && !matches!(c, '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_summary_is_the_first_sentence_if_that_is_short_and_the_beginning_otherwise() {
        assert_eq!(summary("Reads a file. Then closes it."), "Reads a file.");
        assert_eq!(summary("Reads\n  a file"), "Reads a file");
        let long = "ä".repeat(60);
        assert_eq!(summary(&long), format!("{}...", "ä".repeat(38)));
        assert_eq!(summary(&format!("{long}. And more.")), format!("{}...", "ä".repeat(38)));
        assert_eq!(summary(""), "");
    }

    #[test]
    fn lists_are_bounded_and_say_so() {
        assert_eq!(bounded(["a".to_owned(), "b".to_owned()], 100), "a\nb");
        assert_eq!(bounded((0..9).map(|n| n.to_string()), 5), "0\n1\n... and 7 more");
    }

    proptest! {
        #[test]
        fn a_line_is_one_line_and_within_its_limit(text in "\\PC*|[ \\x00-\\x20\u{85}\u{2028}\u{200b}\u{e0041}a]*", limit in 3_usize..60) {
            let line = line(&text, limit);
            prop_assert!(line.len() <= limit, "{line:?}");
            prop_assert!(!line.contains(|c: char| c.is_control() || is_line_break(c) || is_hidden(c)), "{line:?}");
        }

        #[test]
        fn a_docstring_cannot_be_left(text in "[\"'\\\\\r\n\u{2028}\u{200b}a\\x00]*") {
            for line in block(&text, 40) {
                prop_assert!(!line.contains("\"\"\"") && !line.contains(|c: char| c.is_control() || is_line_break(c)), "{line:?}");
            }
        }

        #[test]
        fn a_literal_has_no_quote_of_its_own_and_no_line_break(text in any::<String>()) {
            let literal = quoted(&text);
            let inner = literal[1..literal.len() - 1].replace("\\\\", "").replace("\\\"", "");
            prop_assert!(!inner.contains('"') && !inner.contains(|c: char| c.is_control() || is_line_break(c) || is_hidden(c)));
        }
    }
}
