//! Spellings of a value in a URL or a form. They differ in the characters that are escaped, in the
//! case of the escapes, and in the number of rounds of escaping. Pure.

use std::collections::BTreeSet;

use airlock_strings::hex_digit;

/// Characters that an encoder leaves unescaped, besides letters and digits; one entry per encoder.
/// If a space is among them, it is written as `+`.
const PLAIN: [&str; 9] = [
    // Forms, with `+` and with `%20` for a space.
    "*-._ ",
    "*-._",
    // RFC 3986, section 2.3, and Python's `quote`, which does not escape slashes.
    "-._~",
    "-._~/",
    // `encodeURIComponent` and `encodeURI`.
    "-_.!~*'()",
    "-_.!~*'();,/?:@&=+$#",
    // The URL standard: queries, as in the URLs of this crate, and paths.
    "!$%&()*+,-./:;=?@[\\]^_`{|}~",
    "!$%&'()*+,-./:;=@[\\]^_|~",
    // The paths of this crate.
    "!$&'()*+,-./:;=@_~",
];

/// Returns all spellings of a value, the unescaped value included.
pub(super) fn spellings(value: &str) -> BTreeSet<String> {
    let escaped = PLAIN.iter().flat_map(|plain| {
        [b"0123456789ABCDEF", b"0123456789abcdef"].map(|digits| escape(value, plain, digits))
    });
    escaped.chain([value.to_owned()]).collect()
}

fn escape(value: &str, plain: &str, digits: &[u8; 16]) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match char::from(byte) {
            ' ' if plain.contains(' ') => text.push('+'),
            character if character.is_ascii_alphanumeric() || plain.contains(character) => {
                text.push(character);
            }
            _ => text.extend([
                '%',
                char::from(digits[usize::from(byte >> 4)]),
                char::from(digits[usize::from(byte & 0xf)]),
            ]),
        }
    }
    text
}

/// Decodes the escapes of a text once, and in a form `+` as a space; `None` if there is nothing to
/// decode. Invalid escapes are kept.
pub(super) fn undo(text: &[u8], is_form: bool) -> Option<Vec<u8>> {
    let mut undone = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, others)) = rest.split_first() {
        let escaped =
            others.first_chunk::<2>().and_then(|digits| number(*digits)).filter(|_| *first == b'%');
        rest = if escaped.is_some() { &others[2..] } else { others };
        undone.push(match (escaped, first) {
            (Some(byte), _) => byte,
            (None, b'+') if is_form => b' ',
            (None, byte) => *byte,
        });
    }
    (undone != text).then_some(undone)
}

fn number([high, low]: [u8; 2]) -> Option<u8> {
    Some(hex_digit(high)? << 4 | hex_digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spellings_cover_common_url_encoders() {
        let found = spellings("a/b c'\"");
        for spelling in [
            "a/b c'\"",
            "a%2Fb+c%27%22",
            "a%2fb+c%27%22",
            "a%2Fb%20c%27%22",
            "a%2fb%20c%27%22",
            "a/b%20c%27%22",
            "a%2Fb%20c'%22",
            "a%2fb%20c'%22",
            "a/b%20c'%22",
        ] {
            assert!(found.contains(spelling), "{spelling} {found:?}");
        }
        assert_eq!(spellings("ghp_abc123").len(), 1, "most values have one");
    }

    #[test]
    fn the_spellings_cover_the_urls_of_this_crate() {
        let value: String = (' '..='~').filter(|character| !"#?\\".contains(*character)).collect();
        let url = url::Url::parse(&format!("https://x.com/?a{value}z")).unwrap();
        let written = url.query().and_then(|query| query.strip_prefix('a')?.strip_suffix('z'));
        assert!(written.is_some_and(|written| spellings(&value).contains(written)), "{url}");
        let value = value.replace('%', "");
        let path = format!("/{}", crate::path::normalized(&value).unwrap());
        assert!(spellings(&value).contains(&path[1..]), "{path}");
    }

    #[test]
    fn escapes_are_decoded_once_and_in_any_case() {
        assert_eq!(undone("a%2Fb%2fc%252f+", false).as_deref(), Some("a/b/c%2f+"));
        assert_eq!(undone("a%2Bb+c", true).as_deref(), Some("a+b c"));
        for plain in ["", "a+b", "100%", "%zz%2", "%%"] {
            assert_eq!(undone(plain, false), None, "{plain}");
        }
    }

    fn undone(text: &str, is_form: bool) -> Option<String> {
        undo(text.as_bytes(), is_form).map(|bytes| String::from_utf8(bytes).unwrap())
    }
}
