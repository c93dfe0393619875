//! Shows a change to an operator: one line per difference, bounded, without invisible characters.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::{Change, ChangeKind};
use airlock_mcp_client::MAX_QUOTE_BYTES;
use airlock_strings::{cut, visible_line};

/// Maximum lines about one tool. A person compares them; of the others, the number is shown.
const MAX_LINES: usize = 400;
/// Characters after which a line is continued on the next one: a hidden instruction at the end of
/// a long line would not be seen.
const MAX_WIDTH: usize = 160;
/// Maximum time to find the shortest diff of one text; after it, a longer one is shown.
const PATIENCE: Duration = Duration::from_millis(500);
/// Marks the continuation of a line that was too long.
const CONTINUED: &str = "… ";

/// Lines about a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The lines: a place, such as `/inputSchema/properties/a`, then the lines that were removed
    /// there, with `-`, and added, with `+`. Invisible characters are shown as ⟨U+200B⟩.
    pub lines: Vec<String>,
    /// Number of further lines that are not shown.
    pub hidden: usize,
}

/// Describes a change field by field. A new tool is shown with all its members.
pub fn shown(change: &Change) -> Shown {
    let mut shown = Shown::default();
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
    shown
}

impl Shown {
    fn members(&mut self, was: &Value, is: &Value) {
        self.value("", Some(was), Some(is));
    }

    /// Adds the differences of two values at a JSON pointer.
    fn value(&mut self, at: &str, was: Option<&Value>, is: Option<&Value>) {
        if was == is || is_absence(was, is) {
            return;
        }
        match (was, is) {
            (Some(Value::Object(was)), Some(Value::Object(is))) => {
                let keys: BTreeSet<_> = was.keys().chain(is.keys()).collect();
                for key in keys {
                    let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
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
        self.add(|| cut(visible_line(at), MAX_QUOTE_BYTES));
        let was_kind = was.map(Value::is_string);
        let is_kind = is.map(Value::is_string);
        // A text and another value may look the same.
        let is_quoted = was_kind.is_some() && is_kind.is_some() && was_kind != is_kind;
        let was = pieces(&text_of(was, is_quoted));
        let is = pieces(&text_of(is, is_quoted));
        let old: Vec<&str> = was.iter().map(String::as_str).collect();
        let new: Vec<&str> = is.iter().map(String::as_str).collect();
        let diff = TextDiff::configure().timeout(PATIENCE).diff_slices(&old, &new);
        for op in diff.grouped_ops(2).iter().flatten() {
            for change in diff.iter_changes(op) {
                let mark = match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                self.add(|| format!("  {mark} {}", change.value()));
            }
        }
    }

    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(line());
        } else {
            self.hidden += 1;
        }
    }
}

/// Returns whether two values differ only in that one is absent and the other is a member that every
/// definition has, without content.
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

/// Returns a value as text: a text without quotes unless `is_quoted`, and nothing for an absent one.
fn text_of(value: Option<&Value>, is_quoted: bool) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) if !is_quoted => text.clone(),
        Some(value) => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

/// Splits a text into lines with visible characters only. A line that is too long is continued on
/// the next ones, which begin after a sentence or a word if possible, so that a change within it moves
/// few others.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    for line in text.split('\n').filter(|_| !text.is_empty()) {
        let mut rest = visible_line(line);
        let mut mark = "";
        while rest.chars().count() > MAX_WIDTH {
            let at = break_of(&rest);
            let next = rest.split_off(at);
            pieces.push(format!("{mark}{rest}"));
            rest = next;
            mark = CONTINUED;
        }
        pieces.push(format!("{mark}{rest}"));
    }
    pieces
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
        Definition::of(&tool).expect("not deep")
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
        let full = shown_text(MAX_LINES, 1);
        assert_eq!(full.lines.len(), MAX_LINES);
        assert!(full.hidden > 0);
        assert_eq!(shown_text(MAX_LINES / 2, 1).hidden, 0);
        let wide = shown_text(1, 1_000_000);
        assert!(wide.lines.iter().all(|line| line.chars().count() < MAX_WIDTH + 10));
        assert_eq!(wide.lines.len(), MAX_LINES);
    }

    /// Shows a new tool with so many lines.
    fn shown_text(lines: usize, width: usize) -> Shown {
        let text = ("x".repeat(width) + "\n").repeat(lines);
        shown(&change(ChangeKind::New, None, Some(json!({"description": text}))))
    }

    #[test]
    fn a_text_that_looks_like_another_value_is_quoted() {
        let was = json!({"inputSchema": {"default": "7"}});
        let is = json!({"inputSchema": {"default": 7}});
        let lines = changed(was, is);
        assert!(lines.contains("- \"7\"") && lines.contains("+ 7"), "{lines}");
    }
}
