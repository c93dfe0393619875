//! Invisible characters that carry text: tag characters, sequences without width, and variation selectors after a
//! character that has no variants. Those that visible text needs stay, and so does a single one without width.

use std::{iter::Peekable, str::CharIndices};

use super::words::is_invisible;
use crate::mark::{FoundMark, MarkKind, MarkSearch, push};

/// Least number of characters without width, each at most [`MAX_GAP`] visible characters after the one before, that
/// are a sequence. Fewer carry a few bits at most, and occur as separators of lines and words.
const LEAST: usize = 3;
/// Maximum number of visible characters between two of a sequence. Thai and Khmer have spaces without width between words,
/// which seldom have one letter.
const MAX_GAP: usize = 1;
/// The tags of the flags of England, Scotland and Wales, after U+1F3F4.
const FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];
const FLAG: char = '\u{1f3f4}';
const END_OF_FLAG: char = '\u{e007f}';

/// Finds marks of the kinds `tags`, `zero_width` and `variation_selectors`.
pub(super) fn marks(text: &str, search: &MarkSearch) -> Vec<FoundMark> {
    if text.is_ascii() {
        return Vec::new();
    }
    let mut scan = UnseenScan {
        search,
        characters: text.char_indices().peekable(),
        found: Vec::new(),
        before: None,
        gap: 0,
        sequence: 0,
        waiting: Vec::new(),
    };
    while let Some((at, c)) = scan.characters.next() {
        scan.read(text, at, c);
    }
    scan.found
}

struct UnseenScan<'t> {
    search: &'t MarkSearch,
    characters: Peekable<CharIndices<'t>>,
    found: Vec<FoundMark>,
    /// The character directly before, if it is visible or stays for a visible one.
    before: Option<char>,
    /// Visible characters since the last one without width.
    gap: usize,
    /// Characters without width in the present sequence.
    sequence: usize,
    /// Places of those that are not marked yet, because the sequence is short.
    waiting: Vec<(usize, usize)>,
}

impl UnseenScan<'_> {
    fn read(&mut self, text: &str, at: usize, c: char) {
        if !is_invisible(c) || is_bidi(c) {
            self.before = Some(c);
            self.gap = self.gap.saturating_add(1);
        } else if is_selector(c) {
            let end = self.run(at + c.len_utf8(), is_selector);
            let is_single = end == at + c.len_utf8();
            let selects = is_single && self.before.is_some_and(|before| has_variants(before, c));
            self.keep_or_mark(selects.then_some(c), MarkKind::VariationSelectors, at, end);
        } else if is_tag(c) {
            let end = self.run(at + c.len_utf8(), is_tag);
            let is_flag = self.before == Some(FLAG) && is_flag(&text[at..end]);
            self.keep_or_mark(is_flag.then_some(END_OF_FLAG), MarkKind::Tags, at, end);
        } else if self.joins(c) {
            self.before = Some(c);
            self.gap = self.gap.saturating_add(1);
        } else {
            self.before = None;
            self.continue_sequence(at, at + c.len_utf8());
        }
    }

    /// Reads on while characters are of a class. Returns the place after them.
    fn run(&mut self, end: usize, is_in: fn(char) -> bool) -> usize {
        let mut end = end;
        while let Some((at, c)) = self.characters.next_if(|(_, c)| is_in(*c)) {
            end = at + c.len_utf8();
        }
        end
    }

    fn keep_or_mark(&mut self, kept: Option<char>, kind: MarkKind, start: usize, end: usize) {
        self.before = kept;
        if kept.is_none() && self.search.has(kind) {
            self.sequence = 0;
            self.waiting.clear();
            push(&mut self.found, kind, start, end);
        }
    }

    /// Returns whether a joiner stands between two characters of scripts or emoji that need it.
    fn joins(&mut self, c: char) -> bool {
        matches!(c, '\u{200c}' | '\u{200d}')
            && self.before.is_some_and(needs_joiners)
            && self.characters.peek().is_some_and(|(_, next)| needs_joiners(*next))
    }

    fn continue_sequence(&mut self, start: usize, end: usize) {
        if !self.search.has(MarkKind::ZeroWidth) {
            return;
        }
        if self.gap > MAX_GAP {
            self.sequence = 0;
            self.waiting.clear();
        }
        self.gap = 0;
        self.sequence += 1;
        if self.sequence < LEAST {
            self.waiting.push((start, end));
            return;
        }
        for (start, end) in self.waiting.drain(..) {
            push(&mut self.found, MarkKind::ZeroWidth, start, end);
        }
        push(&mut self.found, MarkKind::ZeroWidth, start, end);
    }
}

/// Returns whether a character begins or ends a change of direction, which has a kind of its own.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}')
}

fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
}

/// Returns whether tags spell a flag.
fn is_flag(tags: &str) -> bool {
    let Some(region) = tags.strip_suffix(END_OF_FLAG) else { return false };
    FLAGS.iter().any(|flag| {
        let spelt = flag.chars().map(|letter| char::from_u32(0xe0000 + u32::from(letter)));
        region.chars().map(Some).eq(spelt)
    })
}

/// Returns whether a variation selector selects something after a character: the form of a symbol or an ideograph.
fn has_variants(before: char, selector: char) -> bool {
    match selector {
        '\u{fe0e}' | '\u{fe0f}' => {
            before >= '\u{2000}'
                || before.is_ascii_digit()
                || matches!(before, '#' | '*' | '\u{a9}' | '\u{ae}')
        }
        '\u{fe00}' if before == '0' => true,
        '\u{fe00}'..='\u{fe0d}' => before >= '\u{1000}',
        '\u{180b}'..='\u{180f}' => matches!(before, '\u{1800}'..='\u{18af}'),
        _ => {
            matches!(before, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        }
    }
}

/// Returns whether a character is of a script that joins its letters, or an emoji.
fn needs_joiners(c: char) -> bool {
    c >= '\u{600}' && (!is_invisible(c) || matches!(c, '\u{fe0e}' | '\u{fe0f}' | END_OF_FLAG))
}
