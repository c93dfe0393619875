//! Words and runs of bytes in a text.

/// Returns whether a word starts at a place: no letter or digit is before it, or one that belongs to an escape, as in
/// `%20` and in `\n` of JSON in a text.
pub(super) fn starts_word(text: &[u8], at: usize) -> bool {
    match &text[..at] {
        [.., b'%', one, two] if one.is_ascii_hexdigit() && two.is_ascii_hexdigit() => true,
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., before] => !before.is_ascii_alphanumeric(),
    }
}

/// Returns whether no letter or digit is at a place.
pub(super) fn ends_word(text: &[u8], end: usize) -> bool {
    text.get(end).is_none_or(|after| !after.is_ascii_alphanumeric())
}

/// Returns the number of bytes from a place on that are of a class, at most `most`.
pub(super) fn run(text: &[u8], at: usize, most: usize, is_in: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().take(most).take_while(|byte| is_in(**byte)).count()
}

/// Returns whether a text has so many different bytes. One that stands for a secret in an example repeats one byte.
pub(super) fn has_variety(text: &[u8], least: usize) -> bool {
    let mut seen = [false; 256];
    for byte in text {
        seen[usize::from(*byte)] = true;
    }
    seen.iter().filter(|is_there| **is_there).count() >= least
}
