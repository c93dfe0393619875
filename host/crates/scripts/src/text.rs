//! Makes untrusted text safe for a stub: on one line, in a docstring, or between quotes.
//!
//! Tool names, descriptions and schemas come from servers that may try to write more than their own
//! line. Only this module removes line breaks and characters that a model reads but a person does
//! not see.

use std::fmt::Write as _;

use airlock_strings::{MAX_NAME_BYTES, is_invisible};

/// Maximum ratio of bytes read from a text to bytes that may be shown of it. Texts of servers have few
/// blanks and hidden characters; a hostile one that consists of them costs 16 times what another shows.
pub(super) const MAX_READ: usize = 16;
/// Maximum bytes of a list of names in a text: about 1,000 tokens. A server may have 2,000 tools, and each misspelled
/// name would list all of them.
pub(super) const MAX_NAMES: usize = 4 << 10;

/// Returns text on one line, cut to `limit` bytes. Every run of blanks, line breaks and control
/// characters becomes one blank.
///
/// At most [`MAX_READ`] times `limit` bytes are read, because blanks and hidden characters need not
/// produce output and a schema can repeat one text many times. Text after these bytes is cut too.
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
        // Reads slightly more than the limit, so that `cut` detects the overflow.
        if out.len() > limit + 4 {
            break;
        }
    }
    out.truncate(out.trim_end().len());
    airlock_strings::cut(out, limit)
}

/// Returns a name as [`line()`] does, cut to [`MAX_NAME_BYTES`] bytes.
pub(super) fn echo(name: &str) -> String {
    line(name, MAX_NAME_BYTES)
}

/// Returns text as lines of a docstring, cut to `limit` bytes. The text cannot end the docstring.
pub(super) fn block(text: &str, limit: usize) -> Vec<String> {
    let text = airlock_strings::cut(text.trim().to_owned(), limit).replace("\r\n", "\n");
    let lines = text.split(is_line_break).map(|line| {
        let visible =
            line.chars().filter(|c| !is_hidden(*c)).map(|c| if c.is_control() { ' ' } else { c });
        // Replaced last, because a removed character may have stood between quotes.
        let visible = visible.collect::<String>().replace(r#"""""#, "'''");
        visible.trim_end().to_owned()
    });
    lines.collect()
}

/// Returns the first sentence of a description, or its beginning if the sentence is too long.
pub(super) fn summary(description: &str) -> String {
    const LIMIT: usize = 80;
    let text = line(description, 4 * LIMIT);
    match text.find(". ") {
        Some(end) if end < LIMIT => text[..=end].to_owned(),
        _ if text.len() <= LIMIT => text,
        _ => format!("{}...", text[..text.floor_char_boundary(LIMIT - 3)].trim_end()),
    }
}

/// Returns a Python string literal with exactly the value `text` and no hidden characters.
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

/// Joins the first lines that fit into `limit` bytes, each with a line break. Returns the number of
/// omitted lines too.
pub(super) fn fitting<L: AsRef<str>>(
    lines: impl IntoIterator<Item = L>,
    limit: usize,
) -> (String, usize) {
    let mut out = String::new();
    let mut left_out = 0_usize;
    for line in lines {
        let line = line.as_ref();
        if left_out > 0 || out.len() + line.len() >= limit {
            left_out += 1;
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    (out, left_out)
}

/// Joins lines up to `limit` bytes. The last line states the number of omitted lines.
pub(super) fn bounded(lines: impl IntoIterator<Item = String>, limit: usize) -> String {
    let (mut out, left_out) = fitting(lines, limit);
    if left_out > 0 {
        let _ = write!(out, "... and {left_out} more");
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns whether Python or a text reader treats `c` as the end of a line.
fn is_line_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Returns whether a model reads `c` but a person does not see it: direction overrides, zero-width
/// marks, tags and variation selectors. The two joiners are not hidden, because some languages need
/// them.
fn is_hidden(c: char) -> bool {
    is_invisible(c) && !matches!(c, '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_summary_is_the_first_sentence_or_the_beginning_of_a_long_one() {
        assert_eq!(summary("Reads a file. Then closes it."), "Reads a file.");
        assert_eq!(summary("Reads\n  a file"), "Reads a file");
        let long = "ä".repeat(60);
        assert_eq!(summary(&long), format!("{}...", "ä".repeat(38)));
        assert_eq!(summary(&format!("{long}. And more.")), format!("{}...", "ä".repeat(38)));
        assert_eq!(summary(""), "");
    }

    #[test]
    fn a_line_reads_a_fixed_multiple_of_its_limit() {
        for (blanks, expected) in [(10 * MAX_READ - 1, "x"), (10 * MAX_READ, "")] {
            assert_eq!(line(&format!("{}x", " ".repeat(blanks)), 10), expected);
        }
    }

    #[test]
    fn a_bounded_list_states_the_number_of_omitted_lines() {
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
        fn text_cannot_end_its_docstring(text in "[\"'\\\\\r\n\u{2028}\u{200b}a\\x00]*") {
            for line in block(&text, 40) {
                prop_assert!(!line.contains("\"\"\"") && !line.contains(|c: char| c.is_control() || is_line_break(c)), "{line:?}");
            }
        }

        #[test]
        fn a_literal_has_no_unescaped_quote_and_no_line_break(text in any::<String>()) {
            let literal = quoted(&text);
            let inner = literal[1..literal.len() - 1].replace("\\\\", "").replace("\\\"", "");
            prop_assert!(!inner.contains('"') && !inner.contains(|c: char| c.is_control() || is_line_break(c) || is_hidden(c)));
        }
    }
}
