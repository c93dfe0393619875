//! Shows a change to an operator: one line per difference, bounded, without invisible characters.
//!
//! Both definitions are of a server, which may have made them to be compared: the time and the memory of a comparison
//! grow with their length and no faster.

use std::{collections::BTreeSet, str::Split, time::Instant};

use serde_json::Value;

use super::{Change, ChangeKind};
use airlock_json::indented;
use airlock_lock::{CONTEXT_LINES, MAX_COMPARED_LINES, MAX_DIFF_LINES, diff_deadline, diff_lines};
use airlock_strings::{cut, visible_line};

/// Characters after which a line is continued on the next one: a hidden instruction at the end of
/// a long line would not be seen.
const MAX_WIDTH: usize = 160;
/// Maximum bytes of a place. A longer one is cut, and counts as a line that is not shown: a name is read by models too.
const MAX_PLACE_BYTES: usize = 1_000;
/// Members that every definition has, perhaps without content.
const OF_ALL: [&str; 3] = ["/description", "/inputSchema", "/annotations"];
/// Mark at the end of a text that was cut.
const CUT_MARK: char = '…';
/// Marks the continuation of a line that was too long.
const CONTINUED: &str = "… ";

/// Lines about a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The lines: a place, such as `/inputSchema/properties/a`, then the lines that were removed
    /// there, with `-`, and added, with `+`. A long line is continued on the next one. Invisible characters are shown as
    /// ⟨U+200B⟩.
    pub lines: Vec<String>,
    /// Number of further lines that are not shown.
    pub hidden: usize,
}

/// Describes a change field by field. A new tool is shown with all its members.
pub fn shown(change: &Change) -> Shown {
    shown_by(change, diff_deadline())
}

/// Describes a change as [`shown`] does. After the deadline, differing texts are shown one after the other.
pub(super) fn shown_by(change: &Change, deadline: Instant) -> Shown {
    let mut shown = Differences { shown: Shown::default(), deadline };
    let was = change.accepted.as_ref().map(super::Definition::value);
    let is = change.pending.as_ref().map(super::Definition::value);
    match change.kind {
        // The definition is the same, and the heading has both names.
        ChangeKind::Renamed | ChangeKind::Removed => {}
        ChangeKind::New => {
            shown.members(&Value::Object(serde_json::Map::new()), &is.unwrap_or_default());
        }
        ChangeKind::Changed => shown.members(&was.unwrap_or_default(), &is.unwrap_or_default()),
    }
    shown.shown
}

/// The differences that were found so far.
struct Differences {
    shown: Shown,
    deadline: Instant,
}

impl Differences {
    fn members(&mut self, was: &Value, is: &Value) {
        self.value("", Some(was), Some(is));
    }

    /// Adds the differences of two values at a JSON pointer.
    fn value(&mut self, at: &str, was: Option<&Value>, is: Option<&Value>) {
        if was == is || OF_ALL.contains(&at) && is_absence(was, is) {
            return;
        }
        match (was, is) {
            (Some(Value::Object(was)), Some(Value::Object(is))) => {
                let keys: BTreeSet<_> = was.keys().chain(is.keys()).collect();
                for key in keys {
                    let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                    // Each of many members would have a copy of a long name.
                    let at = cut(at, MAX_PLACE_BYTES);
                    self.value(&at, was.get(key), is.get(key));
                }
            }
            (Some(Value::Array(was)), Some(Value::Array(is))) if was.len() == is.len() => {
                for (n, (was, is)) in was.iter().zip(is).enumerate() {
                    self.value(&format!("{at}/{n}"), Some(was), Some(is));
                }
            }
            _ => self.texts(at, was, is),
        }
    }

    fn texts(&mut self, at: &str, was: Option<&Value>, is: Option<&Value>) {
        self.place(at);
        let was_kind = was.map(Value::is_string);
        let is_kind = is.map(Value::is_string);
        // A text and another value may look the same.
        let has_other_kind = was_kind.is_some() && is_kind.is_some() && was_kind != is_kind;
        let is_quoted = has_other_kind || is_empty_text(was, is);
        let was = text_of(was, is_quoted);
        let is = text_of(is, is_quoted);
        let (was, is) = differing(&was, &is);
        self.lines(pieces(was), pieces(is));
    }

    fn place(&mut self, at: &str) {
        self.shown.hidden += usize::from(at.ends_with(CUT_MARK));
        for piece in pieces(&visible_line(at)) {
            self.add(|| piece);
        }
    }

    /// Adds the differences of the lines of two texts.
    fn lines(&mut self, mut was: Pieces<'_>, mut is: Pieces<'_>) {
        // Once there is no room, they are counted alone.
        let compared = if self.shown.lines.len() < MAX_DIFF_LINES { MAX_COMPARED_LINES } else { 0 };
        let first: Vec<String> = was.by_ref().take(compared).collect();
        let second: Vec<String> = is.by_ref().take(compared).collect();
        let old: Vec<&str> = first.iter().map(String::as_str).collect();
        let new: Vec<&str> = second.iter().map(String::as_str).collect();
        diff_lines(&old, &new, self.deadline, |mark, line| self.add(|| format!("  {mark} {line}")));
        self.shown.hidden += was.count() + is.count();
    }

    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.shown.lines.len() < MAX_DIFF_LINES {
            self.shown.lines.push(line());
        } else {
            self.shown.hidden += 1;
        }
    }
}

/// Returns whether two values differ only in that one is absent and the other has no content.
fn is_absence(was: Option<&Value>, is: Option<&Value>) -> bool {
    match (was, is) {
        (None, Some(value)) | (Some(value), None) => match value {
            Value::Object(members) => members.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether one value is absent and the other is a text without characters, of which nothing would be shown.
fn is_empty_text(was: Option<&Value>, is: Option<&Value>) -> bool {
    match (was, is) {
        (None, Some(value)) | (Some(value), None) => value.as_str() == Some(""),
        _ => false,
    }
}

/// Returns a value as text: a text without quotes unless `is_quoted`, and nothing for an absent one.
fn text_of(value: Option<&Value>, is_quoted: bool) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) if !is_quoted => text.clone(),
        Some(value) => indented(value),
    }
}

/// Returns two texts without the first and the last lines that they share, but for [`CONTEXT_LINES`] of them.
fn differing<'t>(was: &'t str, is: &'t str) -> (&'t str, &'t str) {
    let begin = shared_bytes(was.split_inclusive('\n'), is.split_inclusive('\n'));
    let was = &was[begin..];
    let is = &is[begin..];
    let end = shared_bytes(was.split_inclusive('\n').rev(), is.split_inclusive('\n').rev());
    (&was[..was.len() - end], &is[..is.len() - end])
}

/// Returns the length of the first lines that are the same, without the last [`CONTEXT_LINES`] of these.
fn shared_bytes<'t>(
    one: impl Iterator<Item = &'t str>,
    other: impl Iterator<Item = &'t str>,
) -> usize {
    let mut context = [0; CONTEXT_LINES];
    let mut bytes = 0;
    for (line, _) in one.zip(other).take_while(|(line, other)| line == other) {
        bytes += context[0];
        context.rotate_left(1);
        context[CONTEXT_LINES - 1] = line.len();
    }
    bytes
}

/// The lines of a text with visible characters only. A line that is too long is continued on the next ones, which
/// begin after a sentence or a word if possible, so that a change within it moves few others.
struct Pieces<'t> {
    /// Lines that were not begun yet; `None` for an empty text, which has none.
    lines: Option<Split<'t, char>>,
    /// The line that was begun last.
    line: String,
    /// Position of the rest of it.
    at: usize,
}

fn pieces(text: &str) -> Pieces<'_> {
    let lines = (!text.is_empty()).then(|| text.split('\n'));
    Pieces { lines, line: String::new(), at: 0 }
}

impl Iterator for Pieces<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let is_continued = self.at < self.line.len();
        if !is_continued {
            self.line = visible_line(self.lines.as_mut()?.next()?);
            self.at = 0;
        }
        let rest = &self.line[self.at..];
        let is_long = rest.chars().nth(MAX_WIDTH).is_some();
        let piece = if is_long { &rest[..break_of(rest)] } else { rest };
        self.at += piece.len();
        let mark = if is_continued { CONTINUED } else { "" };
        Some(format!("{mark}{piece}"))
    }
}

/// Returns the position to break a line at, in bytes: not beyond [`MAX_WIDTH`] characters, never 0.
fn break_of(line: &str) -> usize {
    let end = line.char_indices().nth(MAX_WIDTH).map_or(line.len(), |(at, _)| at);
    let head = &line[..end];
    let sentence = head.rfind(". ").map(|at| at + 2);
    sentence.or_else(|| head.rfind(' ').map(|at| at + 1)).filter(|at| *at > 0).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pins::Definition;

    fn definition(mut members: Value) -> Definition {
        members["name"] = json!("t");
        if members.get("inputSchema").is_none() {
            members["inputSchema"] = json!({});
        }
        let tool = serde_json::from_value(members).expect("a definition");
        Definition::new(&tool).expect("not deep")
    }

    fn change(kind: ChangeKind, was: Option<Value>, is: Option<Value>) -> Change {
        let accepted = was.map(definition);
        let pending = is.map(definition);
        Change { tool: "t".to_owned(), kind, was: None, accepted, pending, is_offered: false }
    }

    fn changed(was: Value, is: Value) -> String {
        shown(&change(ChangeKind::Changed, Some(was), Some(is))).lines.join("\n")
    }

    #[test]
    fn each_field_is_shown_at_its_place() {
        let was = json!({
            "description": "Adds.\nFast.", "inputSchema": {"properties": {"a/b": {"type": "string"}, "c": {"enum": [1, 2]}}},
            "annotations": {"readOnlyHint": true}, "icons": [{"src": "a"}],
        });
        let is = json!({
            "description": "Adds.\nSlow.", "inputSchema": {"properties": {"a/b": {"type": ["string"]}, "c": {"enum": [1, 3]}}},
            "annotations": {"readOnlyHint": false}, "icons": [{"src": "a"}], "outputSchema": {"type": "object"},
        });
        insta::assert_snapshot!(changed(was, is), @r#"
        /annotations/readOnlyHint
          - true
          + false
        /description
            Adds.
          - Fast.
          + Slow.
        /inputSchema/properties/a~1b/type
          - "string"
          + [
          +   "string"
          + ]
        /inputSchema/properties/c/enum/1
          - 2
          + 3
        /outputSchema
          + {
          +   "type": "object"
          + }
        "#);
    }

    #[test]
    fn invisible_and_terminal_characters_are_shown_escaped() {
        let text = "Adds.\u{202e}\u{e0041}\u{200b}\u{1b}[2J\r\u{7}";
        let key = json!({"properties": {"a\u{202e}\n": {}}});
        let lines = changed(
            json!({"description": "Adds."}),
            json!({"description": text, "inputSchema": key}),
        );
        insta::assert_snapshot!(lines, @r#"
        /description
          - Adds.
          + Adds.⟨U+202E⟩⟨U+E0041⟩⟨U+200B⟩⟨U+001B⟩[2J⟨U+000D⟩⟨U+0007⟩
        /inputSchema/properties
          + {
          +   "a⟨U+202E⟩\n": {}
          + }
        "#);
    }

    #[test]
    fn a_new_tool_is_shown_whole_and_other_kinds_by_their_heading() {
        let tool =
            json!({"title": "T", "description": "d", "inputSchema": {"type": "object"}, "x": 1});
        let new = shown(&change(ChangeKind::New, None, Some(tool.clone()))).lines.join("\n");
        insta::assert_snapshot!(new, @r#"
        /description
          + d
        /inputSchema
          + {
          +   "type": "object"
          + }
        /name
          + t
        /title
          + T
        /x
          + 1
        "#);
        for kind in [ChangeKind::Renamed, ChangeKind::Removed] {
            let change = change(kind, Some(tool.clone()), Some(tool.clone()));
            assert_eq!(shown(&change), Shown::default());
        }
    }

    #[test]
    fn a_member_without_content_is_shown_by_its_name() {
        let was = json!({"inputSchema": {"properties": {"a": {"type": "string"}}, "x-old": ""}});
        let is = json!({
            "inputSchema": {"properties": {"a": {"type": "string"}, "the user's password": {}}, "x-send it": ""},
            "title": "",
        });
        insta::assert_snapshot!(changed(was, is), @r#"
        /inputSchema/properties/the user's password
          + {}
        /inputSchema/x-old
          - ""
        /inputSchema/x-send it
          + ""
        /title
          + ""
        "#);
    }

    #[test]
    fn a_long_name_is_shown_whole_and_one_that_is_too_long_is_a_hidden_line() {
        let whole = added_member(&format!("{} AND SEND THE KEY", "a ".repeat(200)));
        assert_eq!(whole.hidden, 0);
        assert!(whole.lines.iter().any(|line| line.contains("AND SEND THE KEY")), "{whole:?}");
        assert!(whole.lines.iter().all(|line| line.chars().count() < MAX_WIDTH + 10), "{whole:?}");
        let forged = added_member("a\n  + b");
        assert_eq!(forged.lines[0], "/inputSchema/properties/a⟨U+000A⟩  + b");
        assert_eq!(added_member(&"a".repeat(MAX_PLACE_BYTES)).hidden, 1);
    }

    /// Shows a new member of the arguments of a tool.
    fn added_member(name: &str) -> Shown {
        let was = json!({"inputSchema": {"properties": {"b": {}}}});
        let is = json!({"inputSchema": {"properties": {"b": {}, name: {"type": "string"}}}});
        shown(&change(ChangeKind::Changed, Some(was), Some(is)))
    }

    #[test]
    fn a_change_within_a_long_line_is_shown_near_it() {
        let words = "The quick brown fox jumps over the lazy dog. ".repeat(200);
        let other = words
            .replacen("lazy dog. The", "lazy dog. IGNORE. The", 100)
            .replacen("IGNORE. ", "", 99);
        let lines = changed(json!({"description": words}), json!({"description": other}));
        assert!(lines.contains("IGNORE") && lines.len() < 2_000, "{lines}");
    }

    #[test]
    fn lines_are_bounded_and_the_others_counted() {
        // The place and the empty line at the end take two, the name and the schema six.
        let full = shown_text(MAX_DIFF_LINES, 1);
        assert_eq!(full.lines.len(), MAX_DIFF_LINES);
        assert!(full.hidden > 0);
        assert_eq!(shown_text(MAX_DIFF_LINES / 2, 1).hidden, 0);
        let wide = shown_text(1, 1_000_000);
        assert!(wide.lines.iter().all(|line| line.chars().count() < MAX_WIDTH + 10));
        assert_eq!(wide.lines.len(), MAX_DIFF_LINES);
    }

    /// Shows a new tool with so many lines.
    fn shown_text(lines: usize, width: usize) -> Shown {
        let text = ("x".repeat(width) + "\n").repeat(lines);
        shown(&change(ChangeKind::New, None, Some(json!({"description": text}))))
    }

    #[test]
    fn a_change_behind_thousands_of_lines_is_shown_with_its_context_alone() {
        insta::assert_snapshot!(changed(with_line("old"), with_line("new")), @r"
        /description
            line 9998
            line 9999
          - old
          + new
            line 10001
            line 10002
        ");
    }

    /// Returns a definition with thousands of lines around this one.
    fn with_line(line: &str) -> Value {
        let lines = (0..20_000).map(|number| match number {
            10_000 => format!("{line}\n"),
            _ => format!("line {number}\n"),
        });
        json!({"description": lines.collect::<String>()})
    }

    #[test]
    fn texts_that_are_made_to_be_compared_take_as_long_as_others() {
        // Each is shown as eight characters, on one line; 4 MiB of them took minutes.
        let long = "\u{200b}".repeat(300_000);
        let shown = shown(&change(ChangeKind::New, None, Some(json!({"description": long}))));
        assert_eq!(shown.lines.len(), MAX_DIFF_LINES);
        // They are on 15,000 lines.
        assert!(shown.hidden > 14_000, "{}", shown.hidden);

        // Each of these lines would begin with 100 levels of indentation.
        let elements = Value::from(vec![1; 50_000]);
        let deep = (0..100).fold(elements, |inner, _| Value::from(vec![inner]));
        let deep = json!({"inputSchema": {"enum": deep}});
        assert!(changed(json!({}), deep).len() < 200 * MAX_DIFF_LINES);

        // Each of these members would have a copy of the name.
        let lines = changed(with_long_name(1), with_long_name(2));
        assert!(lines.len() < 200 * MAX_DIFF_LINES, "{}", lines.len());
    }

    /// Returns a schema with many members, of this value, below one with a long name.
    fn with_long_name(value: u64) -> Value {
        let members = (0..5_000).map(|number| (number.to_string(), json!(value)));
        let members = Value::Object(members.collect());
        json!({"inputSchema": {"x".repeat(500_000): members}})
    }

    #[test]
    fn after_the_deadline_all_of_both_texts_is_shown() {
        let was = json!({"description": "a\nb\nc"});
        let is = json!({"description": "x\nb\nz"});
        let change = change(ChangeKind::Changed, Some(was), Some(is));
        let late = shown_by(&change, Instant::now());
        for line in ["  - a", "  + x", "  - c", "  + z"] {
            assert!(late.lines.iter().any(|shown| shown == line), "{line} in {late:?}");
        }
    }

    #[test]
    fn a_text_that_looks_like_another_value_is_quoted() {
        let was = json!({"inputSchema": {"default": "7"}});
        let is = json!({"inputSchema": {"default": 7}});
        let lines = changed(was, is);
        assert!(lines.contains("- \"7\"") && lines.contains("+ 7"), "{lines}");
    }
}
