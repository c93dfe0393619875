//! A changed script, and its places in the original.

use std::borrow::Cow;
use std::cmp::Reverse;

use monty_types::CodeLoc;
use ruff_text_size::{Ranged, TextRange, TextSize};

/// A change at one place. It removes as many line breaks as it inserts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The part of the original that is removed, or the empty range where text is inserted.
    range: TextRange,
    /// Text that is inserted there.
    pub(crate) insert: Cow<'static, str>,
    /// The other end of what this and another change enclose; the start of the range if they enclose
    /// nothing. Of several at one place, the outer opens first and closes last.
    other: TextSize,
}

impl Edit {
    pub(crate) fn insert(at: TextSize, text: impl Into<Cow<'static, str>>) -> Self {
        Self::replace(TextRange::empty(at), text)
    }

    pub(crate) fn replace(range: TextRange, text: impl Into<Cow<'static, str>>) -> Self {
        Self { range, insert: text.into(), other: range.start() }
    }

    /// Inserts the start of something that reaches over `range`.
    pub(crate) fn open(range: TextRange, text: impl Into<Cow<'static, str>>) -> Self {
        Self { range: TextRange::empty(range.start()), insert: text.into(), other: range.end() }
    }

    /// Inserts the end of something that reaches over `range`.
    pub(crate) fn close(range: TextRange, text: impl Into<Cow<'static, str>>) -> Self {
        Self { range: TextRange::empty(range.end()), insert: text.into(), other: range.start() }
    }

    /// Encloses an expression.
    pub(crate) fn enclose(
        expression: &impl Ranged,
        open: impl Into<Cow<'static, str>>,
        close: &'static str,
    ) -> [Self; 2] {
        [Self::open(expression.range(), open), Self::close(expression.range(), close)]
    }

    /// Puts an expression into a call, which begins with `open`.
    pub(crate) fn wrap(expression: &impl Ranged, open: impl Into<Cow<'static, str>>) -> [Self; 2] {
        Self::enclose(expression, open, ")")
    }

    /// Returns the order of changes: at one place, first what ends there, the inner before the
    /// outer, then what begins there, the outer before the inner, and then what is replaced.
    fn order(&self) -> (TextSize, bool, bool, Reverse<TextSize>) {
        let at = self.range.start();
        (at, !self.range.is_empty(), self.other >= at, Reverse(self.other))
    }
}

/// A script with its changes.
#[expect(clippy::struct_field_names, reason = "`source` and `text` are the texts before and after")]
pub(crate) struct Text<'a> {
    /// The original.
    pub(crate) source: &'a str,
    /// Whole lines before the script.
    prelude: String,
    /// The changed text.
    pub(crate) text: Cow<'a, str>,
    /// The changes, in order.
    edits: Vec<Edit>,
}

impl<'a> Text<'a> {
    /// Applies changes. They do not overlap; of those that do, the first is applied.
    pub(crate) fn new(source: &'a str, prelude: String, mut edits: Vec<Edit>) -> Self {
        // Stable: of two at the same place, the one that was found first comes first.
        edits.sort_by_key(Edit::order);
        let mut end = TextSize::default();
        edits.retain(|edit| {
            let is_free = edit.range.start() >= end;
            if is_free {
                end = edit.range.end();
            }
            is_free
        });
        if edits.is_empty() {
            return Self { source, prelude, text: source.into(), edits };
        }
        let mut text = String::with_capacity(source.len() + 16 * edits.len());
        let mut done = 0;
        for edit in &edits {
            text.push_str(&source[done..edit.range.start().to_usize()]);
            text.push_str(&edit.insert);
            done = edit.range.end().to_usize();
        }
        text.push_str(&source[done..]);
        Self { source, prelude, text: text.into(), edits }
    }

    /// Returns the program: the prelude, the changed script, and an end.
    pub(crate) fn program(&self, end: &str) -> String {
        [&self.prelude, &*self.text, end].concat()
    }

    /// Returns the place in the original of a place in the program; `None` if it is in the prelude.
    /// A place behind the end, as of a script that stops in the middle of a statement, is moved to
    /// the end.
    pub(crate) fn original(&self, place: CodeLoc) -> Option<CodeLoc> {
        let lead = u32::try_from(self.prelude.lines().count()).unwrap_or(u32::MAX);
        let line = place.line.checked_sub(lead).filter(|line| *line > 0)?;
        Some(self.unchanged(CodeLoc { line, ..place }))
    }

    /// Returns the place in the original of a place in the changed text.
    fn unchanged(&self, place: CodeLoc) -> CodeLoc {
        let lines = u32::try_from(self.source.lines().count().max(1)).unwrap_or(u32::MAX);
        if place.line > lines {
            let last = self.source.lines().last().unwrap_or_default();
            return CodeLoc { line: lines, column: after(last.chars()) };
        }
        let (start, line) = line(&self.text, place.line);
        let column = place.column.saturating_sub(1) as usize;
        let within = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        let byte = self.original_byte(start + within);
        let (start, line) = self::line(self.source, place.line);
        let byte = byte.clamp(start, start + line.len());
        CodeLoc { line: place.line, column: after(self.source[start..byte].chars()) }
    }

    /// Returns the text of a line of the original, from 1.
    pub(crate) fn line(&self, number: u32) -> &'a str {
        line(self.source, number).1
    }

    fn original_byte(&self, byte: usize) -> usize {
        let mut removed = 0;
        let mut inserted = 0;
        for edit in &self.edits {
            let at = edit.range.start().to_usize();
            let start = at + inserted - removed;
            if byte < start {
                break;
            }
            if byte < start + edit.insert.len() {
                return at;
            }
            removed += edit.range.len().to_usize();
            inserted += edit.insert.len();
        }
        byte + removed - inserted
    }
}

/// Returns the column behind these characters.
fn after(characters: std::str::Chars<'_>) -> u32 {
    u32::try_from(characters.count()).map_or(u32::MAX, |count| count.saturating_add(1))
}

/// Returns the first byte and the text of a line, from 1.
fn line(text: &str, number: u32) -> (usize, &str) {
    let mut start = 0;
    for line in text.split_inclusive('\n').take(number.saturating_sub(1) as usize) {
        start += line.len();
    }
    (start, text[start..].lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_original() {
        let source = "é = 1\nab(c)\n";
        let name = TextRange::at(TextSize::new(7), TextSize::new(2));
        let edits = vec![Edit::insert(TextSize::new(10), "..., "), Edit::replace(name, "xyz")];
        let text = Text::new(source, "# lead\n".to_owned(), edits);
        assert_eq!(text.program("!"), "# lead\né = 1\nxyz(..., c)\n!");
        assert_eq!(text.original(CodeLoc { line: 1, column: 1 }), None);
        for (changed, original) in [
            ((1, 3), (1, 3)),
            ((2, 1), (2, 1)),
            ((2, 3), (2, 1)),
            ((2, 4), (2, 3)),
            ((2, 5), (2, 4)),
            ((2, 10), (2, 4)),
            ((2, 11), (2, 5)),
            ((2, 99), (2, 6)),
            ((9, 1), (2, 6)),
        ] {
            let (line, column) = changed;
            let place = text.original(CodeLoc { line: line + 1, column });
            let place = place.map(|place| (place.line, place.column));
            assert_eq!(place, Some(original), "{changed:?}");
        }
    }
}
