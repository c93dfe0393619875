//! `regex_find`.

use std::ops::RangeInclusive;

use airlock_guest::{Error, tool, within};
use regex::{Captures, Match, Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Serialize;

/// Limits of `max_matches`.
const MATCHES: RangeInclusive<usize> = 1..=1_000;

/// Bytes of matched text, groups included, after which no further match is reported. It is below
/// the host's usual limit on a result, so that the model gets a truncated result rather than an
/// error.
const MATCHED_BYTES_MAX: usize = 256 * 1024;

/// Bytes that a compiled pattern may take; `\w{1000}` and similar patterns exceed them. A model
/// writes the pattern, and a short one could fill the memory of the call.
const PROGRAM_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The matches of a pattern.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Found {
    /// Matches from the start of the text; they do not overlap.
    pub matches: Vec<Hit>,
    /// Whether there are more matches than were reported.
    pub truncated: bool,
}

/// One match.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hit {
    /// The text that matched.
    pub text: String,
    /// Its start, in characters (Unicode code points) from the start of the text.
    pub start: usize,
    /// Its end: the character after the last one.
    pub end: usize,
    /// Line in which it starts, from 1.
    pub line: usize,
    /// Capture groups that took part in the match, in the order of their opening parentheses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
}

/// A capture group and its match.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Group {
    /// Number of the group, from 1.
    pub index: usize,
    /// Name of the group, if it has one: `(?<name>…)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text that matched.
    pub text: String,
    /// Its start, in characters from the start of the text.
    pub start: usize,
    /// Its end: the character after the last one.
    pub end: usize,
}

fn default_max_matches() -> usize {
    100
}

/// Finds every match of a regular expression in a text, with capture groups and positions.
///
/// The syntax is that of Rust's `regex` crate, close to Perl's and RE2's: `(?<name>…)` names a
/// group; `(?i)`, `(?m)`, `(?s)` and `(?x)` at the start set flags; `\b`, `\d`, `\w` and
/// `\p{Greek}` know Unicode. There are no look-around and no backreferences, and in return the time
/// is linear in the length of the text, whatever the pattern.
#[tool(
    read_only,
    idempotent,
    destructive = false,
    open_world = false,
    title = "Find by regular expression"
)]
pub fn regex_find(
    /// The text to search.
    text: String,
    /// The regular expression.
    pattern: String,
    /// Match letters in either case.
    #[serde(default)]
    ignore_case: bool,
    /// Let `^` and `$` match at the start and end of every line.
    #[serde(default)]
    multi_line: bool,
    /// Report at most this many matches.
    #[serde(default = "default_max_matches")]
    #[schemars(range(min = 1, max = 1000))]
    max_matches: usize,
) -> Result<Found, Error> {
    let max_matches = within("max_matches", max_matches, &MATCHES)?;
    let regex = RegexBuilder::new(&pattern)
        .case_insensitive(ignore_case)
        .multi_line(multi_line)
        .size_limit(PROGRAM_BYTES_MAX)
        .build()
        .map_err(refuse)?;
    Ok(find(&regex, &text, max_matches))
}

fn find(regex: &Regex, text: &str, max_matches: usize) -> Found {
    let mut position = TextPosition::start(text);
    let mut matches = Vec::new();
    let mut matched_bytes = 0;
    for captures in regex.captures_iter(text) {
        matched_bytes += captures.iter().flatten().map(|group| group.len()).sum::<usize>();
        if matches.len() == max_matches || matched_bytes > MATCHED_BYTES_MAX {
            return Found { matches, truncated: true };
        }
        matches.push(hit(regex, &captures, &mut position));
    }
    Found { matches, truncated: false }
}

fn hit(regex: &Regex, captures: &Captures<'_>, position: &mut TextPosition<'_>) -> Hit {
    let whole = captures.get_match();
    position.advance(whole.start());
    let (start, end) = position.span(&whole);
    let names = regex.capture_names().enumerate().skip(1);
    let groups = names.filter_map(|(index, name)| {
        let group = captures.get(index)?;
        let (start, end) = position.span(&group);
        let name = name.map(str::to_owned);
        Some(Group { index, name, text: group.as_str().to_owned(), start, end })
    });
    Hit {
        text: whole.as_str().to_owned(),
        start,
        end,
        line: position.line,
        groups: groups.collect(),
    }
}

/// A position in a text that only moves forward, so that counting characters stays linear in the
/// text.
struct TextPosition<'t> {
    text: &'t str,
    byte: usize,
    character: usize,
    line: usize,
}

impl<'t> TextPosition<'t> {
    fn start(text: &'t str) -> Self {
        Self { text, byte: 0, character: 0, line: 1 }
    }

    fn advance(&mut self, byte: usize) {
        let passed = &self.text[self.byte..byte];
        self.character += passed.chars().count();
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.byte = byte;
    }

    /// Returns start and end, in characters, of a match that starts here or later.
    fn span(&self, found: &Match<'_>) -> (usize, usize) {
        let start = self.character + self.text[self.byte..found.start()].chars().count();
        (start, start + found.as_str().chars().count())
    }
}

fn refuse(error: regex::Error) -> Error {
    let message = match error {
        regex::Error::CompiledTooBig(_) => {
            "the pattern is too large once its repetitions are written out; use smaller counts in `{…}`".to_owned()
        }
        other => format!("`pattern` is not a regular expression: {other}"),
    };
    Error::invalid_input(message).with_code("invalid_pattern")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, pattern: &str, max_matches: usize) -> Found {
        regex_find(text.into(), pattern.into(), false, false, max_matches).unwrap()
    }

    fn refused(pattern: &str) -> String {
        regex_find(String::new(), pattern.into(), false, false, 1).unwrap_err().to_string()
    }

    #[test]
    fn positions_are_characters_and_lines() {
        let found = found("é\nnaïve é", "é", 10);
        let places: Vec<_> =
            found.matches.iter().map(|hit| (hit.start, hit.end, hit.line)).collect();
        assert_eq!(places, [(0, 1, 1), (8, 9, 2)]);
    }

    #[test]
    fn groups_have_number_name_and_position_and_unmatched_ones_are_left_out() {
        let found = found("ü: key=7", r"(?<key>\w+)=(\d+)(x)?", 10);
        insta::assert_snapshot!(serde_json::to_string(&found.matches[0]).unwrap(), @r#"{"text":"key=7","start":3,"end":8,"line":1,"groups":[{"index":1,"name":"key","text":"key","start":3,"end":6},{"index":2,"text":"7","start":7,"end":8}]}"#);
    }

    #[test]
    fn the_limit_on_matches_is_enforced_and_reported() {
        assert!(!found("aaa", "a", 3).truncated);
        let cut = found("aaa", "a", 2);
        assert_eq!((cut.matches.len(), cut.truncated), (2, true));
    }

    #[test]
    fn the_limit_on_matched_text_is_enforced_and_reported() {
        let text = "x".repeat(MATCHED_BYTES_MAX);
        assert!(!found(&text, "x+", 10).truncated);
        assert!(found(&text, "(x+)", 10).truncated);
    }

    #[test]
    fn the_search_continues_after_an_empty_match() {
        assert_eq!(found("ab", "", 10).matches.len(), 3);
    }

    #[test]
    fn flags_apply() {
        let found = regex_find("a\nA".into(), "^a$".into(), true, true, 10).unwrap();
        assert_eq!(found.matches.len(), 2);
    }

    #[test]
    fn a_bad_pattern_is_refused_with_the_place() {
        insta::assert_snapshot!(refused("a(b"), @r#"
        `pattern` is not a regular expression: regex parse error:
            a(b
             ^
        error: unclosed group
        "#);
        insta::assert_snapshot!(refused("a(?=b)"), @r#"
        `pattern` is not a regular expression: regex parse error:
            a(?=b)
             ^^^
        error: look-around, including look-ahead and look-behind, is not supported
        "#);
        insta::assert_snapshot!(refused(r"\w{900}{900}"), @"the pattern is too large once its repetitions are written out; use smaller counts in `{…}`");
    }

    #[test]
    fn max_matches_must_be_in_its_range() {
        for (max, is_refused) in [(0, true), (1, false), (1_000, false), (1_001, true)] {
            let found = regex_find(String::new(), "a".into(), false, false, max);
            assert_eq!(found.is_err(), is_refused, "{max}");
        }
    }
}
