//! Text from strangers, for people to read before they trust it.

use std::fmt::Write as _;

/// Makes visible what a terminal or an editor hides: control characters, marks without width, changes of direction, tags and
/// other invisible characters (Trojan Source, CVE-2021-42574; instructions in Unicode tags). A line break stays one.
pub fn visible(text: &str) -> String {
    shown(text, |c| c != '\n' && is_hidden(c))
}

/// The same in one line: a line break is made visible too, so that no text passes for a line of ours.
pub fn visible_line(text: &str) -> String {
    shown(text, is_hidden)
}

fn shown(text: &str, is_hidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\u{27e8}U+{:04X}\u{27e9}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character leaves no mark of its own. From Unicode's `Cc`, `Cf`, `Zl`, `Zp` and `Default_Ignorable_Code_Point`, and
/// the spaces that look like others.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{1680}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_be_seen_is_written_out_and_the_rest_stays() {
        assert_eq!(visible("Größe – 大小 ☂\nnext"), "Größe – 大小 ☂\nnext");
        assert_eq!(visible("a\u{200b}b\u{202e}c\u{1b}[2J"), "a⟨U+200B⟩b⟨U+202E⟩c⟨U+001B⟩[2J");
        assert_eq!(visible("\u{e0068}\u{e0069}\r\t"), "⟨U+E0068⟩⟨U+E0069⟩⟨U+000D⟩⟨U+0009⟩");
        assert_eq!(visible_line("a\nb\u{200b}"), "a⟨U+000A⟩b⟨U+200B⟩");
    }
}
