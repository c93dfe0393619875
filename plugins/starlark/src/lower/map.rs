//! Positions in the lowered text, and where they come from in the script.

use std::ops::Range;

use ruff_text_size::TextRange;

/// Parts of the lowered text with their origin, in the order in which they were finished: a part
/// follows the parts in it.
#[derive(Default)]
pub(crate) struct Map {
    parts: Vec<(Range<u32>, Range<u32>)>,
}

impl Map {
    /// Records that `lowered` comes from `origin`.
    pub(super) fn add(&mut self, lowered: Range<usize>, origin: TextRange) {
        let origin = origin.start().to_u32()..origin.end().to_u32();
        if let (Ok(from), Ok(to)) = (u32::try_from(lowered.start), u32::try_from(lowered.end)) {
            self.parts.push((from..to, origin));
        }
    }

    /// Returns the origin of the smallest part around `span`; `None` if there is none.
    pub(crate) fn origin(&self, span: Range<u32>) -> Option<Range<usize>> {
        let parts = self.parts.iter();
        let parts =
            parts.filter(|(lowered, _)| lowered.start <= span.start && span.end <= lowered.end);
        let (_, origin) = parts.min_by_key(|(lowered, _)| lowered.end - lowered.start)?;
        Some(origin.start as usize..origin.end as usize)
    }
}

/// Line and column of a place in a text, both from 1, and that line without its end.
pub(crate) struct ScriptPlace<'a> {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) text: &'a str,
}

impl<'a> ScriptPlace<'a> {
    /// Returns the place of the byte `at`. Columns count characters.
    pub(crate) fn find(source: &'a str, at: usize) -> Self {
        let at = (0..=at.min(source.len())).rev().find(|at| source.is_char_boundary(*at));
        let before = &source[..at.unwrap_or_default()];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let text = source[start..].lines().next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            text,
        }
    }

    /// Returns the line from the place on.
    pub(crate) fn rest(&self) -> &'a str {
        let at =
            self.text.char_indices().nth(self.column - 1).map_or(self.text.len(), |(at, _)| at);
        &self.text[at..]
    }

    /// Renders the place in the manner of a compiler: its line, with carets below `length` bytes
    /// of it.
    pub(crate) fn snippet(&self, file: &str, length: usize) -> String {
        let Self { line, column, text } = self;
        let margin = " ".repeat(line.to_string().len());
        let rest = text.chars().count().saturating_sub(column - 1);
        let carets = "^".repeat(length.min(rest).max(1));
        // Tabs keep their width in the line of carets.
        let blank: String =
            text.chars().take(column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
        format!("{margin}--> {file}:{line}:{column}\n{line} | {text}\n{margin} | {blank}{carets}\n")
    }
}
