//! Words and runs of bytes in a text.

/// Returns whether a word starts at a place: no letter or digit is before it, or one that belongs to an escape, as in
/// `%20` and in `\n` of JSON in a text.
pub fn starts_word(text: &[u8], at: usize) -> bool {
    match &text[..at] {
        [.., b'%', one, two] if one.is_ascii_hexdigit() && two.is_ascii_hexdigit() => true,
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., before] => !before.is_ascii_alphanumeric(),
    }
}

/// Returns whether no letter or digit is at a place.
pub fn ends_word(text: &[u8], end: usize) -> bool {
    text.get(end).is_none_or(|after| !after.is_ascii_alphanumeric())
}

/// Returns whether a number is not a part of a longer one: it is a word, and neither a decimal nor in a chain of digits
/// with `.`, `-` or `_`.
pub fn is_whole(text: &[u8], start: usize, end: usize) -> bool {
    let continues =
        matches!(&text[..start], [.., digit, b'.' | b'-' | b'_'] if digit.is_ascii_digit());
    let is_continued =
        matches!(&text[end..], [b'.' | b'-' | b'_', digit, ..] if digit.is_ascii_digit());
    !continues && !is_continued && ends_word(text, end)
}

/// Returns the number of bytes from a place on that are of a class, at most `most`.
pub fn run(text: &[u8], at: usize, most: usize, is_in: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().take(most).take_while(|byte| is_in(**byte)).count()
}
