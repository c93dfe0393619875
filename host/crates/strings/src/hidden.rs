//! Removes characters that a model reads and a person cannot see.

use std::{borrow::Cow, iter};

use super::is_invisible;

/// Character of a keycap, the last one of `1\u{fe0f}\u{20e3}`.
const KEYCAP: char = '\u{20e3}';

/// Removes hidden characters: control characters, marks without width, changes of direction, tags
/// and variation selectors. Line breaks of every kind become `\n`; tabs and visible blanks stay.
///
/// Some of these characters are a part of visible text, and stay where they are that: one joiner
/// between two visible characters outside ASCII, as languages of Asia and emoji need it, and one
/// emoji selector after a symbol. The result has no more to remove.
pub fn stripped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_suspect) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    // The character before this one, if it was kept.
    let mut before = None;
    let following = text.chars().skip(1).map(Some).chain(iter::once(None));
    for (c, next) in text.chars().zip(following) {
        let kept = kept(c, before, next);
        out.extend(kept);
        before = kept;
    }
    Cow::Owned(out)
}

fn is_suspect(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || is_invisible(c)
        || matches!(c, '\u{2028}' | '\u{2029}')
}

fn kept(c: char, before: Option<char>, next: Option<char>) -> Option<char> {
    match c {
        '\r' if next == Some('\n') => None,
        '\r' | '\x0b' | '\x0c' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some('\n'),
        '\u{200c}' | '\u{200d}' => {
            let joins = before.is_some_and(|c| is_wide(c) || is_selector(c));
            (joins && next.is_some_and(is_wide)).then_some(c)
        }
        _ if is_selector(c) => {
            let is_symbol = before.is_some_and(|c| is_wide(c) && !c.is_alphanumeric());
            let is_keycap = next == Some(KEYCAP) && before.is_some_and(|c| c.is_ascii_graphic());
            (is_symbol || is_keycap).then_some(c)
        }
        _ => (!is_suspect(c)).then_some(c),
    }
}

/// Returns whether a character selects the form of a symbol: text or emoji.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Returns whether a character is visible and outside ASCII.
fn is_wide(c: char) -> bool {
    !c.is_ascii() && !c.is_whitespace() && !is_suspect(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_characters_are_removed_and_visible_text_is_kept() {
        for text in ["Größe – 大小 ☂\nnext\t.", "a\u{a0}b\u{3000}c", ""] {
            assert!(matches!(stripped(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        for (text, shown) in [
            ("a\u{200b}b\u{202e}c\u{1b}[2J\0", "abc[2J"),
            ("x\u{e0068}\u{e0069}\u{e007f}", "x"),
            ("x\u{e0100}\u{e01ef}\u{fe00}\u{feff}", "x"),
            ("a\r\nb\rc\u{2028}d\u{85}e", "a\nb\nc\nd\ne"),
            ("\u{ad}soft\u{2060}\u{3164}", "soft"),
        ] {
            assert_eq!(stripped(text), shown, "{text:?}");
        }
    }

    #[test]
    fn joiners_and_selectors_stay_where_visible_text_needs_them() {
        for text in
            ["می\u{200c}خواهم", "👩\u{200d}💻", "❤\u{fe0f}\u{200d}🔥 ok", "1\u{fe0f}\u{20e3}"]
        {
            assert_eq!(stripped(text), text);
        }
        for (text, shown) in [
            ("a\u{200d}b", "ab"),
            ("م\u{200c}\u{200d}\u{200c}خ", "مخ"),
            ("é\u{200d}", "é"),
            ("é\u{fe0f}x\u{fe0f}", "éx"),
            ("❤\u{fe0f}\u{fe0e}\u{fe0f}", "❤\u{fe0f}"),
            ("é\u{1b}\u{200d}é\u{200d}\u{1b}é", "ééé"),
        ] {
            assert_eq!(stripped(text), shown, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_stripped_text_has_nothing_more_to_strip(
            text in "[aé❤م1\u{200b}\u{200c}\u{200d}\u{fe0e}\u{fe0f}\u{20e3}\u{e0041}\u{1b}\r\n]{0,12}|\\PC*|[\\s\\S]*"
        ) {
            let once = stripped(&text).into_owned();
            prop_assert_eq!(&stripped(&once), &once);
            let mut suspects = once.chars().filter(|c| is_suspect(*c));
            prop_assert!(
                suspects.all(|c| matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')),
                "{once:?}"
            );
            prop_assert_eq!(seen(&once), seen(&text));
        }
    }

    fn seen(text: &str) -> String {
        text.chars().filter(|c| !is_suspect(*c) && *c != '\n').collect::<String>()
    }
}
