//! Phrases in English that order a model: that earlier instructions are void, or that the user must not know something.
//! Each begins with a verb of its own, so that few words of a text are looked at twice.

use super::words::{is_invisible, is_space, read_wanted};
use crate::mark::{FoundMark, MarkKind, MarkSearch, push};

/// Verbs that void instructions.
const VOIDS: [&str; 6] = ["ignore", "disregard", "forget", "override", "bypass", "discard"];
/// Words between the verb and the instructions.
const BETWEEN: [&str; 16] = [
    "all",
    "any",
    "every",
    "the",
    "your",
    "my",
    "of",
    "these",
    "those",
    "and",
    "other",
    "everything",
    "from",
    "in",
    "to",
    "instead",
];
/// Words that say which instructions: one of them is there.
const WHICH: [&str; 11] = [
    "previous",
    "prior",
    "above",
    "earlier",
    "preceding",
    "foregoing",
    "system",
    "original",
    "existing",
    "initial",
    "developer",
];
/// Names of instructions.
const INSTRUCTIONS: [&str; 14] = [
    "instruction",
    "instructions",
    "prompt",
    "prompts",
    "rule",
    "rules",
    "guideline",
    "guidelines",
    "direction",
    "directions",
    "directive",
    "directives",
    "command",
    "commands",
];
/// Whole phrases.
const PHRASES: [&[&str]; 9] = [
    &["do", "not", "tell", "the", "user"],
    &["do", "not", "inform", "the", "user"],
    &["do", "not", "mention", "this", "to"],
    &["don't", "tell", "the", "user"],
    &["don't", "inform", "the", "user"],
    &["without", "telling", "the", "user"],
    &["without", "informing", "the", "user"],
    &["reveal", "your", "system", "prompt"],
    &["new", "system", "prompt"],
];
/// Maximum number of words between the verb and the instructions: `ignore all of your other
/// original developer instructions` has six. A text could repeat them without end.
const MAX_BETWEEN: usize = 6;

/// Finds marks of the kind `orders`.
pub(super) fn marks(text: &str, search: &MarkSearch) -> Vec<FoundMark> {
    let mut found = Vec::new();
    if !search.has(MarkKind::Orders) {
        return found;
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let starts_word = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        let end = if starts_word { order(text, at) } else { None };
        if let Some(end) = end {
            push(&mut found, MarkKind::Orders, at, end);
        }
        at = end.unwrap_or(at + 1);
    }
    found
}

/// Returns the place after the order at a place.
fn order(text: &str, at: usize) -> Option<usize> {
    match text.as_bytes()[at].to_ascii_lowercase() {
        b'i' | b'f' | b'o' | b'b' => voided(text, at),
        b'd' => voided(text, at).or_else(|| phrase(text, at)),
        b'w' | b'r' | b'n' => phrase(text, at),
        _ => None,
    }
}

/// Reads an order that voids instructions: `ignore all previous instructions`.
fn voided(text: &str, at: usize) -> Option<usize> {
    let (_, mut end) = read_wanted(text, at, is_letter, |verb| verb.is_one_of(&VOIDS))?;
    let mut is_which = false;
    for _ in 0..=MAX_BETWEEN {
        let at = after_space(text, end)?;
        let (word, after) = read_wanted(text, at, is_letter, |word| {
            word.is_one_of(&INSTRUCTIONS) || word.is_one_of(&WHICH) || word.is_one_of(&BETWEEN)
        })?;
        end = after;
        if word.is_one_of(&INSTRUCTIONS) {
            return is_which.then_some(end);
        }
        is_which |= word.is_one_of(&WHICH);
    }
    None
}

fn phrase(text: &str, at: usize) -> Option<usize> {
    let (first, end) = read_wanted(text, at, is_letter, |first| {
        PHRASES.iter().any(|words| first.is_one_of(&words[..1]))
    })?;
    let mut begun = PHRASES.iter().filter(|words| first.is_one_of(&words[..1]));
    begun.find_map(|words| {
        words[1..].iter().try_fold(end, |end, wanted| {
            let at = after_space(text, end)?;
            let found = read_wanted(text, at, is_letter, |word| word.is_one_of(&[*wanted]));
            found.map(|(_, after)| after)
        })
    })
}

/// Returns the place of the next word, if only spaces, marks and invisible characters are before it.
fn after_space(text: &str, at: usize) -> Option<usize> {
    let space = text[at..].chars().take_while(|c| is_between_words(*c));
    let length: usize = space.map(char::len_utf8).sum();
    (length > 0).then_some(at + length)
}

fn is_between_words(c: char) -> bool {
    is_space(c) || is_invisible(c) || matches!(c, '*' | '_' | ',' | '-' | ':' | '"' | '`')
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'\''
}
