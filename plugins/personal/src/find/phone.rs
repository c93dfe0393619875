//! Telephone numbers, as people write them.

use airlock_digits::words::{ends_word, is_whole, run, starts_word};

/// The most digits of a number with its country.
const MOST: usize = 15;
/// The fewest digits of a number with its country that is found.
const FEWEST: usize = 8;

/// Finds a number with `+` and its country.
pub(super) fn international(text: &[u8], at: usize) -> Option<usize> {
    let is_begun = starts_word(text, at) && !text[..at].ends_with(b"+");
    if !is_begun || !text.get(at + 1)?.is_ascii_digit() || text[at + 1] == b'0' {
        return None;
    }
    let (count, end) = spaced(text, at + 1);
    let is_number = (FEWEST..=MOST).contains(&count) && ends_word(text, end);
    is_number.then_some(end)
}

/// Finds a number without its country, or with `00` and its country.
pub(super) fn national(text: &[u8], at: usize) -> Option<usize> {
    // A group of a longer number, such as a card.
    let is_group =
        matches!(&text[..at], [.., digit, b' ' | b'-' | b'.' | b'/'] if digit.is_ascii_digit());
    if is_group || !starts_word(text, at) {
        return None;
    }
    let end = american(text, at).or_else(|| pairs(text, at)).or_else(|| with_area(text, at))?;
    is_whole(text, at, end).then_some(end)
}

/// Finds a number of North America: `(415) 555-2671`, `415-555-2671`, `415.555.2671`.
fn american(text: &[u8], at: usize) -> Option<usize> {
    let is_in_brackets = text[at] == b'(';
    let area = at + usize::from(is_in_brackets);
    if !is_area(text, area) {
        return None;
    }
    let mut place = area + 3;
    if is_in_brackets {
        place += usize::from(text.get(place) == Some(&b')'));
        place += run(text, place, 1, |byte| byte == b' ');
    } else {
        place += run(text, place, 1, |byte| matches!(byte, b'-' | b'.'));
    }
    let is_separated = matches!(text[place - 1], b')' | b' ' | b'-' | b'.');
    let line = place + 3;
    let has_line = matches!(text.get(line)?, b'-' | b'.' | b' ')
        && run(text, line + 1, 5, |byte| byte.is_ascii_digit()) == 4;
    (is_separated && is_area(text, place) && has_line).then_some(line + 5)
}

/// Returns whether an area or an exchange of North America is at a place: three digits, the first from 2 to 9.
fn is_area(text: &[u8], at: usize) -> bool {
    let Some([b'2'..=b'9', rest @ ..]) = text.get(at..at + 3) else { return false };
    rest.iter().all(u8::is_ascii_digit)
}

/// Finds five pairs of digits, of which the first is an area: `06 12 34 56 78`.
fn pairs(text: &[u8], at: usize) -> Option<usize> {
    let number = text.get(at..at + 14)?;
    let separator = number[2];
    let is_number = matches!(separator, b' ' | b'.')
        && number[0] == b'0'
        && number[1] != b'0'
        && number.iter().enumerate().all(|(place, byte)| {
            if place % 3 == 2 { *byte == separator } else { byte.is_ascii_digit() }
        });
    is_number.then_some(at + 14)
}

/// Finds an area with its `0`, or a country with `00`, and what is after it: `030 1234567`, `(0171) 123 45 67`.
fn with_area(text: &[u8], at: usize) -> Option<usize> {
    let is_in_brackets = text[at] == b'(';
    let area = at + usize::from(is_in_brackets);
    let head = run(text, area, 6, |byte| byte.is_ascii_digit());
    let has_country = text[area..].starts_with(b"00");
    let is_head = (3..=5).contains(&head)
        && text[area] == b'0'
        && !text[area..].starts_with(b"000")
        && matches!(text.get(area + head)?, b' ' | b'-' | b'/' | b')');
    if !is_head || is_in_brackets && text[area + head] != b')' {
        return None;
    }
    let (count, end) = spaced(text, area);
    let counts = if has_country { FEWEST + 2..=MOST + 2 } else { 9..=12 };
    counts.contains(&count).then_some(end)
}

/// Reads digits with at most two separators between any two. Returns their number, up to three more than the longest has,
/// and the place after the last.
fn spaced(text: &[u8], at: usize) -> (usize, usize) {
    let mut count = 0;
    let mut end = at;
    let mut gap = 0;
    for (place, byte) in text.iter().enumerate().skip(at) {
        if byte.is_ascii_digit() {
            count += 1;
            gap = 0;
            end = place + 1;
        } else {
            gap += 1;
        }
        let is_over = gap > 2 || count > MOST + 2;
        if is_over || gap > 0 && !matches!(byte, b' ' | b'-' | b'.' | b'(' | b')' | b'/') {
            break;
        }
    }
    (count, end)
}

#[cfg(test)]
mod tests {
    use super::super::{PersonalKind, personal};

    fn found(text: &str) -> Option<&str> {
        let found = personal(text, &[PersonalKind::PhoneNumber]);
        found.first().map(|found| &text[found.start..found.end])
    }

    #[test]
    fn numbers_are_found_as_people_write_them() {
        for number in [
            "+493012345678",
            "+49 30 1234567",
            "+49 (0) 30 123-4567",
            "+1 (415) 555-2671",
            "+44 20 7946 0018",
            "0049 30 1234567",
            "(415) 555-2671",
            "415-555-2671",
            "415.555.2671",
            "030 1234567",
            "030/1234567",
            "(030) 1234567",
            "0171 123 45 67",
            "07700 900123",
            "06 12 34 56 78",
        ] {
            for text in [
                number.to_owned(),
                format!("Call {number}."),
                format!("<{number}>"),
                format!(r"a\n{number}\n"),
                format!("tel={number}&x"),
            ] {
                assert_eq!(found(&text), Some(number), "{text}");
            }
        }
        for other in [
            "+49",
            "+0 30 1234567",
            "1+23456789",
            "+1234567890123456",
            "2024-11-29",
            "01.02.2024",
            "0.1234567",
            "000 1234567",
            "415-155-2671",
            "4155552671",
            "10:30",
            "030 12",
            "1111 0171 1234567",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
