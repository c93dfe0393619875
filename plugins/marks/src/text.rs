//! Replaces the marks in texts, as the settings say.

use crate::{
    find::{PASSES, is_plain},
    mark::{FoundMark, MarkKind, MarkSearch},
    settings::{MarkDecision, MarkSettings},
};

/// Maximum number of notes in a document. Marks beyond it are removed without one: a note is longer than many marks, and
/// the document must not grow beyond the limit of the result.
const MAX_NOTES: usize = 100;

/// Replaces the marks in the texts of one document.
#[derive(Debug)]
pub struct TextCleaner<'s> {
    settings: &'s MarkSettings,
    search: MarkSearch,
    notes: usize,
    found: Vec<MarkKind>,
}

impl<'s> TextCleaner<'s> {
    /// Creates a cleaner. URLs of `hosts` may carry data, beside those of the settings.
    pub fn new(settings: &'s MarkSettings, mut hosts: Vec<String>) -> Self {
        hosts.extend(settings.hosts.iter().cloned());
        let search = MarkSearch::new(|kind| settings.decision(kind) != MarkDecision::Allow, hosts);
        Self { settings, search, notes: 0, found: Vec::new() }
    }

    /// Returns the kinds that were found, each once.
    pub fn found(&self) -> &[MarkKind] {
        &self.found
    }

    /// Returns those that were found and are denied.
    pub fn denied(&self) -> Vec<MarkKind> {
        let denied = self.found.iter().copied();
        denied.filter(|kind| self.settings.decision(*kind) == MarkDecision::Deny).collect()
    }

    /// Returns a text without its marks; `None` if it has none.
    pub fn clean(&mut self, text: &str) -> Option<String> {
        if is_plain(text) && !self.search.has(MarkKind::Orders) {
            return None;
        }
        let mut cleaned: Option<String> = None;
        for pass in PASSES {
            let current = cleaned.as_deref().unwrap_or(text);
            let found = pass(current, &self.search);
            if !found.is_empty() {
                cleaned = Some(self.replaced(current, &found));
            }
        }
        cleaned
    }

    fn replaced(&mut self, text: &str, found: &[FoundMark]) -> String {
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for mark in found {
            out.push_str(&text[copied..mark.start]);
            self.replace(*mark, text, &mut out);
            copied = mark.end;
        }
        out.push_str(&text[copied..]);
        out
    }

    /// Writes what takes the place of a mark.
    fn replace(&mut self, mark: FoundMark, text: &str, out: &mut String) {
        let kind = mark.kind;
        if !self.found.contains(&kind) {
            self.found.push(kind);
        }
        if self.settings.decision(kind) == MarkDecision::Mark && self.notes < MAX_NOTES {
            self.notes += 1;
            out.push_str(&note(kind, &text[mark.start..mark.end]));
            // A bracket after it would make a link of the note.
            if text[mark.end..].starts_with(['(', '[', ':']) {
                out.push(' ');
            }
        } else if !kind.is_inside_words() && !out.is_empty() && !out.ends_with(char::is_whitespace)
        {
            // The texts on both sides must not become one word or one mark.
            out.push(' ');
        }
    }
}

/// Returns the note in the place of a mark.
fn note(kind: MarkKind, removed: &str) -> String {
    let characters = removed.chars().count();
    let plural = if characters == 1 { "" } else { "s" };
    format!("[{} removed: {characters} character{plural}]", kind.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(settings: &MarkSettings, text: &str) -> Option<String> {
        TextCleaner::new(settings, Vec::new()).clean(text)
    }

    #[test]
    fn a_note_says_how_much_was_removed() {
        let settings = MarkSettings::default();
        for (text, expected) in [
            ("a<!-- é -->b", "a[hidden text removed: 10 characters]b"),
            ("a\u{202e}b", "a[hidden text removed: 1 character]b"),
            ("[INST] a", "[forged mark removed: 6 characters] a"),
            ("![x](https://e.example/?q=)", "![x]([URL with data removed: 21 characters])"),
            ("!<!-- a -->(b)", "![hidden text removed: 10 characters] (b)"),
        ] {
            assert_eq!(cleaned(&settings, text).as_deref(), Some(expected));
            assert_eq!(cleaned(&settings, expected), None);
        }
    }

    #[test]
    fn what_is_removed_leaves_no_mark_behind() {
        let settings = MarkSettings {
            comments: MarkDecision::Remove,
            forged_marks: MarkDecision::Remove,
            tags: MarkDecision::Remove,
            ..MarkSettings::default()
        };
        for (text, expected) in [
            ("a<!-- b -->c", "a c"),
            ("a <!-- b -->c", "a c"),
            ("<!-- b -->c", "c"),
            ("<|im_<|im_start|>start|>", "<|im_ start|>"),
            ("<!<!-- a -->-- b -->", "<! -- b -->"),
            ("<!-\u{e0041}- a -->b", "b"),
        ] {
            assert_eq!(cleaned(&settings, text).as_deref(), Some(expected));
            assert_eq!(cleaned(&settings, expected), None, "{expected}");
        }
    }

    #[test]
    fn beyond_the_limit_marks_are_removed_without_a_note() {
        let text = "[INST]".repeat(MAX_NOTES + 2);
        let note = "[forged mark removed: 600 characters]";
        assert_eq!(cleaned(&MarkSettings::default(), &text[..600]).as_deref(), Some(note));
        let text = "[INST]a".repeat(MAX_NOTES + 2);
        let found = cleaned(&MarkSettings::default(), &text).expect("it has marks");
        assert_eq!(found.matches("removed").count(), MAX_NOTES);
        assert!(found.ends_with("a a a"), "{found}");
    }

    #[test]
    fn kinds_that_are_allowed_stay_and_the_others_are_reported() {
        let settings = MarkSettings {
            comments: MarkDecision::Allow,
            bidi: MarkDecision::Deny,
            ..MarkSettings::default()
        };
        let mut cleaner = TextCleaner::new(&settings, Vec::new());
        assert_eq!(cleaner.clean("a<!-- b -->"), None);
        assert_eq!(cleaner.clean("plain"), None);
        assert!(cleaner.clean("a\u{202e}b[INST]").is_some());
        assert_eq!(cleaner.found(), [MarkKind::Bidi, MarkKind::ForgedMarks]);
        assert_eq!(cleaner.denied(), [MarkKind::Bidi]);
    }
}
