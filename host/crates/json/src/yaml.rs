//! Renders JSON values as YAML for models, which read it in fewer tokens than JSON.
//!
//! The result is deterministic: members keep their order, texts of several lines are literal
//! blocks, and every text that any version of YAML could read as another type is in quotes. It is
//! written by hand because the serializers of the ecosystem leave `yes`, `1e3` or dates bare, or
//! do not bound their output.

use std::fmt::Write as _;

use serde_json::Value;

use crate as json;
use airlock_strings::is_invisible;

/// Levels of arrays and objects that are indented. Deeper values are on one line, as JSON, which is
/// also YAML. The indentation of a line is thereby at most 16 spaces.
const INDENTED_LEVELS: usize = 8;
/// Spaces of one level.
const STEP: usize = 2;
/// Maximum length of a key before a colon, in bytes. YAML 1.2 permits 1,024 characters, quotes
/// included; a longer key is written after a question mark.
const MAX_IMPLICIT_KEY: usize = 512;
/// Bytes that the YAML may take beyond [`MAX_GROWTH`] times the bytes of the JSON.
const SLACK_BYTES: usize = 4 << 10;
/// Maximum size of the YAML, as a multiple of the size of the JSON. A list of small numbers
/// takes twice (`- 1` and a line break for `1,`), and three times inside another list; a deeper one
/// would be mostly indentation.
const MAX_GROWTH: usize = 3;
/// Words that some version of YAML reads as a boolean, a null or a number, in lower case.
const WORDS: [&str; 11] =
    ["y", "n", "yes", "no", "true", "false", "on", "off", "null", "nan", "inf"];

/// Renders a value as YAML. An array or object ends with a line break, a scalar does not. A value
/// whose YAML would be more than three times as long as its JSON is rendered as JSON, which is also
/// YAML.
pub fn to_yaml(value: &Value) -> String {
    let limit = json::text_len(value).saturating_mul(MAX_GROWTH).saturating_add(SLACK_BYTES);
    let mut writer = YamlWriter { out: String::new(), limit };
    match writer.node(value, 0, 0, LineStart::Start) {
        Ok(()) => {
            if !value.is_object() && !value.is_array() {
                writer.out.pop();
            }
            writer.out
        }
        Err(TooLong) => value.to_string(),
    }
}

/// The YAML would be longer than its bound.
struct TooLong;

/// Text on the line before a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineStart {
    /// Nothing.
    Start,
    /// A key and its colon.
    Colon,
    /// The dash of an item.
    Dash,
}

struct YamlWriter {
    out: String,
    limit: usize,
}

impl YamlWriter {
    /// Writes a value and the end of its line. Lines after the first are indented by `indent`.
    fn node(
        &mut self,
        value: &Value,
        level: usize,
        indent: usize,
        lead: LineStart,
    ) -> Result<(), TooLong> {
        match value {
            Value::Object(members) if !members.is_empty() && level < INDENTED_LEVELS => {
                self.lead_collection(lead);
                for (position, (key, member)) in members.iter().enumerate() {
                    self.indent(indent, position == 0 && lead != LineStart::Colon)?;
                    self.key(key, indent);
                    self.node(member, level + 1, indent + STEP, LineStart::Colon)?;
                }
                Ok(())
            }
            Value::Array(items) if !items.is_empty() && level < INDENTED_LEVELS => {
                self.lead_collection(lead);
                for (position, item) in items.iter().enumerate() {
                    self.indent(indent, position == 0 && lead != LineStart::Colon)?;
                    self.out.push('-');
                    self.node(item, level + 1, indent + STEP, LineStart::Dash)?;
                }
                Ok(())
            }
            Value::String(text) if lead != LineStart::Start && is_block(text) => {
                self.block(text, indent)
            }
            other => {
                if lead != LineStart::Start {
                    self.out.push(' ');
                }
                self.scalar(other);
                self.out.push('\n');
                self.check()
            }
        }
    }

    fn lead_collection(&mut self, lead: LineStart) {
        match lead {
            LineStart::Start => {}
            LineStart::Colon => self.out.push('\n'),
            LineStart::Dash => self.out.push(' '),
        }
    }

    /// Begins a line, except if the text continues the one before.
    fn indent(&mut self, indent: usize, is_continued: bool) -> Result<(), TooLong> {
        if !is_continued {
            self.out.extend(std::iter::repeat_n(' ', indent));
        }
        self.check()
    }

    fn key(&mut self, key: &str, indent: usize) {
        if key.len() <= MAX_IMPLICIT_KEY {
            self.text(key);
        } else {
            self.out.push_str("? ");
            self.text(key);
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent));
        }
        self.out.push(':');
    }

    /// Writes a text of several lines as it is, each line indented.
    fn block(&mut self, text: &str, indent: usize) -> Result<(), TooLong> {
        let (body, chomping) = match text.strip_suffix('\n') {
            None => (text, "-"),
            Some(body) if body.ends_with('\n') => (body, "+"),
            Some(body) => (body, ""),
        };
        let _ = writeln!(self.out, " |{chomping}");
        for line in body.split('\n') {
            if !line.is_empty() {
                self.indent(indent, false)?;
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
        self.check()
    }

    fn scalar(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text(text),
            // Numbers, booleans, null and empty collections are the same in YAML. So is a
            // collection below the last level, except for characters that only JSON permits.
            other => escaped(&other.to_string(), &mut self.out),
        }
    }

    fn text(&mut self, text: &str) {
        if is_plain(text) {
            self.out.push_str(text);
        } else {
            self.out.push('"');
            quoted(text, &mut self.out);
            self.out.push('"');
        }
    }

    fn check(&self) -> Result<(), TooLong> {
        if self.out.len() > self.limit { Err(TooLong) } else { Ok(()) }
    }
}

/// Returns whether a text is written as a literal block.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with(char::is_whitespace)
        && text.chars().all(|c| matches!(c, '\n' | '\t') || is_shown(c))
        // Readers disagree about lines of blanks alone, and about tabs in the indentation.
        && text
            .split('\n')
            .all(|line| line.is_empty() || (!line.starts_with('\t') && !line.trim().is_empty()))
}

/// Returns whether a text needs no quotes in any version of YAML.
fn is_plain(text: &str) -> bool {
    let starts_well =
        text.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '/' | '(' | '$'));
    starts_well
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(|c| is_shown(c) && (c == ' ' || !c.is_whitespace()))
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Returns whether a character may be in YAML as it is, and is visible to a person. The two joiners
/// and the selectors of emoji are needed to write some languages and symbols.
fn is_shown(c: char) -> bool {
    let is_selector = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
    let is_break = matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}');
    !c.is_control() && !is_break && (is_selector || !is_invisible(c))
}

/// Writes a text as it is between double quotes.
fn quoted(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => escape(c, out),
        }
    }
}

/// Writes JSON text with the escapes that YAML needs in addition. Characters that need one are in
/// strings only.
fn escaped(json: &str, out: &mut String) {
    for c in json.chars() {
        escape(c, out);
    }
}

fn escape(c: char, out: &mut String) {
    let code = u32::from(c);
    if is_shown(c) {
        out.push(c);
    } else {
        // Writing to a String cannot fail.
        let _ = match code {
            0..=0xff => write!(out, "\\x{code:02X}"),
            0x100..=0xffff => write!(out, "\\u{code:04X}"),
            _ => write!(out, "\\U{code:08X}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Number, json};
    use yaml_rust2::{Yaml, YamlLoader};

    use super::*;

    #[test]
    fn members_keep_their_order_and_texts_of_several_lines_are_blocks() {
        let value = json!({
            "title": "A report: all of it",
            "name": "report",
            "rows": [{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": []}],
            "grid": [[1, 2], [3]],
            "log": "first\n  second\nthird\n",
            "note": "one\ntwo",
            "tail": "one\n\n\n",
            "none": {},
            "missing": null,
        });
        insta::assert_snapshot!(to_yaml(&value), @r#"
        title: "A report: all of it"
        name: report
        rows:
          - id: 1
            tags:
              - a
              - b
          - id: 2
            tags: []
        grid:
          - - 1
            - 2
          - - 3
        log: |
          first
            second
          third
        note: |-
          one
          two
        tail: |+
          one


        none: {}
        missing: null
        "#);
    }

    #[test]
    fn a_text_that_could_be_read_as_another_type_is_quoted() {
        for text in [
            "",
            " ",
            "yes",
            "No",
            "ON",
            "y",
            "null",
            "~",
            "True",
            "1e3",
            "007",
            "0x1F",
            "12:30",
            "2001-01-01",
            "1_000",
            ".inf",
            "-1",
            "+1",
            "- a",
            "a: b",
            "a #b",
            "a:",
            "?",
            "*a",
            "&a",
            "!a",
            "@a",
            "`a",
            "%a",
            "|",
            ">",
            "<<",
            "=",
            "'a'",
            "\"a\"",
            "[a]",
            "{a}",
            "#a",
            "a ",
            "---",
            "a\tb",
            "a\u{85}b",
            "a\u{feff}",
            "NaN",
        ] {
            let yaml = to_yaml(&json!(text));
            assert!(yaml.starts_with('"') && yaml.ends_with('"'), "{text:?} became {yaml}");
        }
        for text in ["word", "two words", "a,b [c] {d}", "http://x/y?z=1#f", "/etc/passwd", "größe"]
        {
            assert_eq!(to_yaml(&json!(text)), text);
        }
    }

    #[test]
    fn characters_that_nobody_sees_are_escaped() {
        assert_eq!(to_yaml(&json!("a\u{200b}\u{1b}b\u{e0041}")), r#""a\u200B\x1Bb\U000E0041""#);
        let deep = (0..INDENTED_LEVELS).fold(json!(["a\u{200b}\u{7f}"]), |inner, _| json!([inner]));
        assert!(to_yaml(&deep).ends_with("[\"a\\u200B\\x7F\"]\n"), "{}", to_yaml(&deep));
    }

    #[test]
    fn a_long_key_follows_a_question_mark() {
        let key = "k".repeat(MAX_IMPLICIT_KEY + 1);
        assert_eq!(to_yaml(&json!({&key: {"a": 1}})), format!("? {key}\n:\n  a: 1\n"));
        assert_eq!(read(&to_yaml(&json!([{&key: 1}]))), json!([{&key: 1}]));
    }

    #[test]
    fn the_output_is_bounded_by_the_size_of_the_json() {
        for value in [deep(10_000), json!(vec![json!([]); 10_000]), json!("\u{1}".repeat(10_000))] {
            let json = value.to_string().len();
            let yaml = to_yaml(&value);
            assert!(yaml.len() <= MAX_GROWTH * json + SLACK_BYTES, "{} of {json}", yaml.len());
        }
        assert_eq!(to_yaml(&deep(10_000)), deep(10_000).to_string());
        assert!(to_yaml(&deep(10)).starts_with("- - - - "));
    }

    fn deep(items: usize) -> Value {
        (1..INDENTED_LEVELS).fold(json!(vec![1; items]), |inner, _| json!([inner]))
    }

    fn read(yaml: &str) -> Value {
        let documents =
            YamlLoader::load_from_str(yaml).unwrap_or_else(|error| panic!("{error}:\n{yaml}"));
        assert_eq!(documents.len(), 1, "{yaml}");
        to_json(&documents[0])
    }

    fn to_json(yaml: &Yaml) -> Value {
        match yaml {
            Yaml::Real(text) => text.parse::<f64>().ok().and_then(Number::from_f64).into(),
            Yaml::Integer(number) => json!(number),
            Yaml::String(text) => json!(text),
            Yaml::Boolean(flag) => json!(flag),
            Yaml::Array(items) => items.iter().map(to_json).collect(),
            Yaml::Hash(members) => {
                let members = members.iter().map(|(key, value)| {
                    let Yaml::String(key) = key else { panic!("{key:?} is no text") };
                    (key.clone(), to_json(value))
                });
                Value::Object(members.collect::<Map<_, _>>())
            }
            Yaml::Null => Value::Null,
            other => panic!("unexpected {other:?}"),
        }
    }

    /// Texts with much of what has a meaning in YAML.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z0-9:#,\\[\\]{}&*!|>'\"%@`?~=<. \n\t\r-]{0,12}",
            "[ -~]{0,8}(\n{1,3}[ -~]{0,8}){0,4}\n{0,3}",
            "\\PC{0,8}",
            any::<String>(),
            proptest::sample::select(vec![
                "yes", "1e3", "null", "---", "...", "0o7", "- -", "a:\n"
            ])
            .prop_map(str::to_owned),
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(10, 48, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((text(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_reader_of_yaml_reads_the_same_value(value in value()) {
            let yaml = to_yaml(&value);
            let found = read(&yaml).to_string();
            let expected = value.to_string();
            prop_assert_eq!(found, expected, "{}", yaml);
        }
    }
}
