//! `word_count`.

use airlock_guest::tool;
use schemars::JsonSchema;
use serde::Serialize;

/// Numbers of the parts of a text.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Bytes of the text in UTF-8.
    pub bytes: usize,
    /// Unicode code points, line breaks included. An emoji or an accented letter may be more than
    /// one.
    pub characters: usize,
    /// Runs of anything but white space, as `wc` counts them: `it's` and `A.B` are one word each.
    /// Languages that do not put spaces between words get too low a number.
    pub words: usize,
    /// Lines; a last line counts whether a line break ends it or not.
    pub lines: usize,
    /// Runs of lines that are not blank.
    pub paragraphs: usize,
}

/// Counts bytes, characters, words, lines and paragraphs of a text. Use it instead of counting by
/// eye: the numbers are exact.
#[tool(read_only, idempotent, destructive = false, open_world = false, title = "Count words")]
pub fn word_count(
    /// The text to count.
    text: String,
) -> Counts {
    Counts {
        bytes: text.len(),
        characters: text.chars().count(),
        words: text.split_whitespace().count(),
        lines: text.lines().count(),
        paragraphs: paragraphs(&text),
    }
}

fn paragraphs(text: &str) -> usize {
    let blank = text.lines().map(|line| line.trim().is_empty());
    let starts = blank.scan(true, |before, blank| Some(std::mem::replace(before, blank) && !blank));
    starts.filter(|start| *start).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> [usize; 5] {
        let counts = word_count(text.to_owned());
        [counts.bytes, counts.characters, counts.words, counts.lines, counts.paragraphs]
    }

    #[test]
    fn an_empty_text_has_zero_counts() {
        assert_eq!(counted(""), [0, 0, 0, 0, 0]);
        assert_eq!(counted(" \n\n"), [3, 3, 0, 2, 0]);
    }

    #[test]
    fn bytes_and_characters_differ_outside_ascii() {
        assert_eq!(counted("naïve é"), [9, 7, 2, 1, 1]);
    }

    #[test]
    fn words_are_separated_by_white_space_alone() {
        assert_eq!(counted("it's A.B\u{a0}c — d")[2], 5);
    }

    #[test]
    fn a_last_line_counts_with_and_without_its_break() {
        assert_eq!(counted("a\nb")[3], 2);
        assert_eq!(counted("a\r\nb\r\n")[3], 2);
    }

    #[test]
    fn paragraphs_are_separated_by_blank_lines() {
        assert_eq!(counted("\na\nb\n \n\nc\n")[4], 2);
    }
}
