//! Digits in the groups in which a number is printed.

use airlock_digits::words::{is_whole, starts_word};

/// Reads digits in one group, or in groups with the same separator between all. Returns their values and their end;
/// `None` if they are a part of something longer.
pub(super) fn grouped(
    text: &[u8],
    at: usize,
    groups: &[usize],
    separators: &[u8],
) -> Option<(Vec<u8>, usize)> {
    if !starts_word(text, at) {
        return None;
    }
    let separator = text.get(at + groups[0]).copied().filter(|byte| separators.contains(byte));
    let mut values = Vec::new();
    let mut place = at;
    for (number, length) in groups.iter().enumerate() {
        if number > 0 && separator.is_some() {
            if text.get(place).copied() != separator {
                return None;
            }
            place += 1;
        }
        values.extend(digits(text, place, *length)?);
        place += length;
    }
    is_whole(text, at, place).then_some((values, place))
}

/// Returns the values of so many digits at a place; `None` if something else is there.
pub(super) fn digits(text: &[u8], at: usize, length: usize) -> Option<impl Iterator<Item = u8>> {
    let group = text.get(at..at + length)?;
    let are_digits = group.iter().all(u8::is_ascii_digit);
    are_digits.then(|| group.iter().map(|digit| digit - b'0'))
}

/// Returns the number that digits are.
pub(super) fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(*digit))
}
