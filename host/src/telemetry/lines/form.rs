//! The form of lines: the line end is the only control character of a line.
//!
//! Fields that are displayed are written as they are, and their texts may come from servers, providers and guests. Such a
//! text could end the line and begin another one that looks like the gateway's own, or control the terminal.

use std::borrow::Cow;

use airlock_strings::{has_hidden, visible_json, visible_line};

/// Beginning of the escape sequences of colours.
const COLOUR: &str = "\u{1b}[";

/// Form of the lines of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LineForm {
    /// For people.
    #[default]
    Plain,
    /// For people, with colours.
    Coloured,
    /// One JSON object a line.
    Json,
}

impl LineForm {
    /// Returns a line with its hidden characters written out, except its line end and its colours. The values of JSON stay
    /// the same.
    pub(super) fn visible(self, line: &[u8]) -> Cow<'_, [u8]> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        // Most lines stay as they are, also those with characters beyond ASCII, such as the sign of microseconds.
        if str::from_utf8(text).is_ok_and(|text| !has_hidden(text)) {
            return Cow::Borrowed(line);
        }
        let text = String::from_utf8_lossy(text);
        let mut visible = match self {
            Self::Plain => visible_line(&text),
            Self::Coloured => visible_between_colours(&text),
            Self::Json => visible_json(&text),
        };
        if line.ends_with(b"\n") {
            visible.push('\n');
        }
        Cow::Owned(visible.into_bytes())
    }
}

/// Writes hidden characters out, except the escape sequences of colours.
fn visible_between_colours(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(COLOUR) {
        visible.push_str(&visible_line(&rest[..start]));
        let sequence = &rest[start..];
        let colour_end = colour_end(sequence);
        // Of another sequence, the escape character is written out.
        let end = colour_end.unwrap_or(1);
        match colour_end {
            Some(_) => visible.push_str(&sequence[..end]),
            None => visible.push_str(&visible_line(&sequence[..end])),
        }
        rest = &sequence[end..];
    }
    visible.push_str(&visible_line(rest));
    visible
}

/// Returns the length of the escape sequence of a colour at the beginning of a text; `None` for another sequence.
fn colour_end(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix(COLOUR)?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some(COLOUR.len() + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(form: LineForm, line: &str) -> String {
        String::from_utf8(form.visible(line.as_bytes()).into_owned()).expect("text")
    }

    #[test]
    fn the_line_end_is_the_only_control_character_of_a_line() {
        let hostile = "cause=a\nb\r\u{1b}[2J\u{9b}8m\u{202e}c\n";
        let plain = visible(LineForm::Plain, hostile);
        assert_eq!(
            plain,
            "cause=a\u{27e8}U+000A\u{27e9}b\u{27e8}U+000D\u{27e9}\u{27e8}U+001B\u{27e9}[2J\u{27e8}U+009B\u{27e9}8m\u{27e8}U+202E\u{27e9}c\n"
        );
        assert_eq!(visible(LineForm::Coloured, hostile), plain);
        for form in [LineForm::Plain, LineForm::Coloured, LineForm::Json] {
            let kept = "a \u{e9} 54.3\u{b5}s\n";
            assert!(
                matches!(form.visible(kept.as_bytes()), Cow::Borrowed(line) if line == kept.as_bytes())
            );
            assert!(matches!(form.visible(b"a=1\n"), Cow::Borrowed(b"a=1\n")));
            assert_eq!(visible(form, ""), "");
        }
    }

    #[test]
    fn colours_stay_in_the_lines_that_have_them() {
        let coloured = "\u{1b}[2mtime\u{1b}[0m \u{1b}[1;31mERROR\u{1b}[0m a\n";
        assert_eq!(visible(LineForm::Coloured, coloured), coloured);
        assert!(!visible(LineForm::Plain, coloured).contains('\u{1b}'));
        for unfinished in ["\u{1b}[", "\u{1b}[3", "\u{1b}[3;"] {
            assert!(!visible(LineForm::Coloured, unfinished).contains('\u{1b}'));
        }
    }

    #[test]
    fn a_json_line_keeps_its_value() {
        let line = "{\"a\":\"\u{9b}\u{202e}\u{7f}\"}\n";
        let shown = visible(LineForm::Json, line);
        assert!(shown.trim_end().bytes().all(|byte| matches!(byte, b' '..=b'~')), "{shown}");
        let values = [line, shown.as_str()]
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        assert_eq!(values[0], values[1]);
    }
}
