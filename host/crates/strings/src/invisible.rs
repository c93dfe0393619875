//! Characters that a model reads and a person cannot see.

use std::fmt::Write as _;

/// Number of bytes that are looked at together: the compiler vectorises the search.
const GROUP_BYTES: usize = 32;

/// Replaces every character that a terminal or an editor hides by its code point, as `⟨U+200B⟩`:
/// control characters, marks without width, changes of direction, tags and look-alikes of the space
/// (Trojan Source, CVE-2021-42574; instructions in Unicode tags). Line breaks are kept.
pub fn visible(text: &str) -> String {
    written_out(text, |c| c != '\n' && is_hidden(c))
}

/// Replaces the characters that [`visible`] replaces, and line breaks too. Text from outside can
/// then not imitate a line that the gateway itself writes.
pub fn visible_line(text: &str) -> String {
    written_out(text, is_hidden)
}

/// Returns whether a text has a character that [`visible_line`] replaces.
pub fn has_hidden(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = &rest[printable_length(rest.as_bytes())..];
        match rest.chars().next() {
            None => return false,
            Some(c) if is_hidden(c) => return true,
            Some(c) => rest = &rest[c.len_utf8()..],
        }
    }
}

/// Returns the number of bytes before the first one that is no printable character of ASCII.
fn printable_length(bytes: &[u8]) -> usize {
    let groups = bytes.as_chunks::<GROUP_BYTES>().0;
    let length = groups.iter().take_while(|group| are_printable(group)).count() * GROUP_BYTES;
    length + bytes[length..].iter().take_while(|byte| is_printable(**byte)).count()
}

/// Returns whether all bytes of a group are printable. All are compared: that takes less time than a branch for each byte.
fn are_printable(group: &[u8; GROUP_BYTES]) -> bool {
    group.iter().fold(0, |found, byte| found | u8::from(!is_printable(*byte))) == 0
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn written_out(text: &str, is_hidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut kept = 0;
    for (start, c) in text.char_indices().filter(|(_, c)| is_hidden(*c)) {
        out.push_str(&text[kept..start]);
        // Writing to a String cannot fail.
        let _ = write!(out, "\u{27e8}U+{:04X}\u{27e9}", u32::from(c));
        kept = start + c.len_utf8();
    }
    out.push_str(&text[kept..]);
    out
}

/// Escapes the invisible characters of a JSON text as JSON does. They occur in its strings only, so
/// the value stays the same. Line breaks are kept.
pub fn visible_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

fn is_hidden(c: char) -> bool {
    // Most of the characters of a log line, which has more than the characters of ASCII if it has microseconds.
    if matches!(c, ' '..='~') {
        return false;
    }
    c.is_control() || (c.is_whitespace() && c != ' ') || is_invisible(c)
}

/// Returns whether a character is invisible and neither whitespace nor a control character. The
/// ranges are from Unicode's `Cf` and `Default_Ignorable_Code_Point`; U+2800, the empty Braille
/// pattern, is added. They include the two joiners (U+200C, U+200D), which some languages need.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_written_out_and_all_others_are_kept() {
        assert_eq!(visible("Größe – 大小 ☂\nnext"), "Größe – 大小 ☂\nnext");
        assert_eq!(visible("a\u{200b}b\u{202e}c\u{1b}[2J"), "a⟨U+200B⟩b⟨U+202E⟩c⟨U+001B⟩[2J");
        assert_eq!(visible("\u{e0068}\u{e0069}\r\t"), "⟨U+E0068⟩⟨U+E0069⟩⟨U+000D⟩⟨U+0009⟩");
        assert_eq!(visible_line("a\nb\u{200b}\u{2028}"), "a⟨U+000A⟩b⟨U+200B⟩⟨U+2028⟩");
    }

    #[test]
    fn a_hidden_character_is_found_at_every_place() {
        for length in 0..3 * GROUP_BYTES {
            let text = "x".repeat(length);
            assert!(!has_hidden(&text) && !has_hidden(&format!("{text}\u{b5}大{text}")));
            for hidden in ['\n', '\u{7f}', '\u{a0}', '\u{200b}', '\u{e0041}'] {
                for at in 0..=length {
                    let (before, after) = text.split_at(at);
                    for line in
                        [format!("{before}{hidden}{after}"), format!("é{before}{hidden}é{after}")]
                    {
                        assert!(has_hidden(&line), "{line:?}");
                        assert_ne!(visible_line(&line), line);
                    }
                }
            }
        }
    }

    #[test]
    fn invisible_characters_of_json_are_escaped_and_the_value_stays() {
        let value = serde_json::json!({"a": "x\u{202e}\u{e0041}\u{7f}\u{a0}é\n", "b": [1, "大"]});
        let json = serde_json::to_string_pretty(&value).expect("JSON");
        let shown = visible_json(&json);
        assert!(shown.contains(r"x\u202e\udb40\udc41\u007f\u00a0é\n"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
    }

    #[test]
    fn look_alikes_of_the_space_are_written_out() {
        for space in [
            '\u{a0}', '\u{1680}', '\u{2003}', '\u{202f}', '\u{205f}', '\u{3000}', '\u{2800}',
            '\u{3164}',
        ] {
            assert_eq!(visible(&space.to_string()), format!("⟨U+{:04X}⟩", u32::from(space)));
        }
    }
}
