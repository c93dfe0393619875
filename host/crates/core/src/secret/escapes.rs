//! Escapes that can hide a secret: percent-encoding, form-encoding and the escapes of JSON strings.
//! A text is decoded piece by piece and without a copy. Secrets are searched for in the decoded
//! bytes, so it does not matter which characters are escaped, or in which case the digits are.
//! Decoding starts at the beginning of the text. A lone `\` directly before an escape therefore
//! joins with the `\` of the escape into one piece.

use airlock_strings::hex_digit;

/// A set of escapes that a text can be decoded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Percent-encoding: `%2F`.
    Percent,
    /// Form-encoding: `%2F`, and `+` for a space.
    Form,
    /// Escapes of JSON strings, such as `\n`, `\"` and `\u00e9`.
    Json,
}

/// One escape or one plain byte of a text, with the bytes that it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Offset of its first byte in the text.
    pub(super) start: usize,
    /// Offset after its last byte.
    pub(super) end: usize,
    meaning: [u8; 4],
    len: usize,
}

impl Piece {
    /// The decoded bytes.
    pub(super) fn meaning(&self) -> &[u8] {
        &self.meaning[..self.len]
    }
}

impl Escapes {
    pub(super) const ALL: [Self; 3] = [Self::Percent, Self::Form, Self::Json];

    /// Returns whether a text may have escapes of this kind.
    pub(super) fn occur_in(self, text: &[u8]) -> bool {
        text.contains(match self {
            Self::Percent => &b'%',
            // A text without `+` decodes as percent-encoding does, which is searched too.
            Self::Form => &b'+',
            Self::Json => &b'\\',
        })
    }

    /// Decodes a text piece by piece.
    pub(super) fn read(self, text: &[u8]) -> impl Iterator<Item = Piece> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = &text[at..];
            let (meaning, len, taken) =
                self.piece(rest).or_else(|| Some(([*rest.first()?, 0, 0, 0], 1, 1)))?;
            let start = at;
            at += taken;
            Some(Piece { start, end: at, meaning, len })
        })
    }

    /// Decodes the escape at the start of `rest`. Returns the decoded bytes, their number, and the
    /// length of the escape; `None` if there is no escape.
    fn piece(self, rest: &[u8]) -> Option<([u8; 4], usize, usize)> {
        match (self, rest) {
            (Self::Form, [b'+', ..]) => Some(([b' ', 0, 0, 0], 1, 1)),
            (Self::Percent | Self::Form, [b'%', digits @ ..]) => {
                let byte = u8::try_from(number(digits.get(..2)?)?).ok()?;
                Some(([byte, 0, 0, 0], 1, 3))
            }
            (Self::Json, [b'\\', b'u', digits @ ..]) => unicode(digits),
            (Self::Json, [b'\\', escape, ..]) => {
                let byte = match escape {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'"' | b'\\' | b'/' => *escape,
                    _ => return None,
                };
                Some(([byte, 0, 0, 0], 1, 2))
            }
            _ => None,
        }
    }
}

/// Decodes the digits after `\u`. A surrogate pair, for code points above U+FFFF, is two escapes.
fn unicode(digits: &[u8]) -> Option<([u8; 4], usize, usize)> {
    let unit = number(digits.get(..4)?)?;
    let (code, taken) = match (unit, digits.get(4..10)) {
        (0xd800..0xdc00, Some([b'\\', b'u', low @ ..])) => {
            let low = number(low)?.checked_sub(0xdc00)?;
            (0x1_0000 + ((unit - 0xd800) << 10) + low, 12)
        }
        _ => (unit, 6),
    };
    let mut meaning = [0; 4];
    let len = char::from_u32(code)?.encode_utf8(&mut meaning).len();
    Some((meaning, len, taken))
}

/// Parses a hexadecimal number of at most eight digits; `None` if a digit is not hexadecimal.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| Some(number << 4 | u32::from(hex_digit(*digit)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(escapes: Escapes, text: &str) -> String {
        let bytes: Vec<u8> =
            escapes.read(text.as_bytes()).flat_map(|piece| piece.meaning().to_vec()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn percent_and_form_encoding_are_decoded_in_any_case() {
        assert_eq!(meaning(Escapes::Percent, "a%2Fb%2fc%C3%a9+%"), "a/b/cé+%");
        assert_eq!(meaning(Escapes::Form, "a%2Fb+c%2B"), "a/b c+");
        assert_eq!(
            meaning(Escapes::Percent, "100%, %zz %2"),
            "100%, %zz %2",
            "what is no escape stays"
        );
    }

    #[test]
    fn escapes_of_json_are_decoded() {
        assert_eq!(meaning(Escapes::Json, r#"a\n\r\t\b\f\"\\\/"#), "a\n\r\t\u{8}\u{c}\"\\/");
        assert_eq!(meaning(Escapes::Json, r"\u003c\u00E9\ud83d\uDE00"), "<é😀");
        assert_eq!(
            meaning(Escapes::Json, r"\x \ud83d \u12 \ud83d\u0041 \"),
            r"\x \ud83d \u12 \ud83dA \",
            "what is no escape stays"
        );
    }

    #[test]
    fn the_pieces_of_a_text_join_without_gaps() {
        let text = r"%41+\u0041\ud83d\ude00%\";
        for escapes in Escapes::ALL {
            let mut end = 0;
            for piece in escapes.read(text.as_bytes()) {
                assert_eq!(piece.start, end);
                end = piece.end;
            }
            assert_eq!(end, text.len());
            assert!(escapes.occur_in(text.as_bytes()) && !escapes.occur_in(b"plain"));
        }
    }
}
