//! Numbers of identity of the United States, Germany, the United Kingdom and France. Each function returns the end of the
//! one at a place.

use airlock_digits::words::{ends_word, starts_word};

use super::groups::{grouped, number};

/// Finds a social security number, as it is printed: `123-45-6789`.
pub(super) fn us_ssn(text: &[u8], at: usize) -> Option<usize> {
    let (values, end) = grouped(text, at, &[3, 2, 4], b"-")?;
    let area = number(&values[..3]);
    let is_issued =
        !matches!(area, 0 | 666 | 900..) && number(&values[3..5]) != 0 && number(&values[5..]) != 0;
    // Nine digits in one group are anything.
    (is_issued && end - at == 11).then_some(end)
}

/// Finds a tax identification number: 11 digits, of which one of the first ten is there twice or three times.
pub(super) fn de_tax_id(text: &[u8], at: usize) -> Option<usize> {
    let (values, end) = grouped(text, at, &[2, 3, 3, 3], b" ")?;
    let (check, body) = values.split_last()?;
    let mut counts = [0_u8; 10];
    for digit in body {
        counts[usize::from(*digit)] += 1;
    }
    let repeated = counts.iter().filter(|count| **count > 1);
    let is_form = body[0] != 0
        && repeated.clone().count() == 1
        && repeated.max().is_some_and(|count| *count <= 3);
    (is_form && iso7064(body) == *check).then_some(end)
}

/// Returns the check digit of digits by ISO 7064, MOD 11,10.
pub(crate) fn iso7064(body: &[u8]) -> u8 {
    let product = body.iter().fold(10, |product, digit| match (digit + product) % 10 {
        // 10, of which the double is taken too.
        0 => 20 % 11,
        sum => sum * 2 % 11,
    });
    (11 - product) % 10
}

/// Finds a number of national insurance: two letters, six digits, and a letter from A to D.
pub(super) fn uk_nino(text: &[u8], at: usize) -> Option<usize> {
    let prefix = text.get(at..at + 2)?;
    let is_prefix = prefix.iter().all(u8::is_ascii_uppercase)
        && !prefix.iter().any(|letter| b"DFIQUV".contains(letter))
        && prefix[1] != b'O'
        && !matches!(prefix, b"BG" | b"GB" | b"KN" | b"NK" | b"NT" | b"TN" | b"ZZ");
    if !is_prefix || !starts_word(text, at) {
        return None;
    }
    let is_printed = text.get(at + 2) == Some(&b' ');
    let mut place = at + 2;
    for _ in 0..3 {
        place += usize::from(is_printed && text.get(place) == Some(&b' '));
        if !text.get(place..place + 2)?.iter().all(u8::is_ascii_digit) {
            return None;
        }
        place += 2;
    }
    place += usize::from(is_printed && text.get(place) == Some(&b' '));
    let has_suffix = matches!(text.get(place)?, b'A'..=b'D');
    (has_suffix && ends_word(text, place + 1)).then_some(place + 1)
}

/// Finds a number of social security: sex, year, month, place, and two check digits.
pub(super) fn fr_nir(text: &[u8], at: usize) -> Option<usize> {
    let (values, end) = grouped(text, at, &[1, 2, 2, 2, 3, 3, 2], b" ")?;
    let (body, key) = values.split_at(13);
    // Above 12 if the month is not known.
    let is_form =
        matches!(body[0], 1 | 2) && matches!(number(&body[3..5]), 1..=12 | 20..=42 | 50..);
    (is_form && 97 - number(body) % 97 == number(key)).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::super::{PersonalKind, personal};

    /// Returns the numbers of a kind in a text.
    fn found(text: &str, kind: PersonalKind) -> Vec<&str> {
        let found = personal(text, &[kind]);
        found.iter().map(|found| &text[found.start..found.end]).collect()
    }

    #[test]
    fn numbers_are_found_with_their_check_digits() {
        use PersonalKind::{DeTaxId, FrNir, UkNino, UsSsn};
        for (kind, good, bad) in [
            (UsSsn, "123-45-6789", "666-45-6789"),
            (UsSsn, "899-01-0001", "900-01-0001"),
            (UsSsn, "001-01-0001", "001-00-0001"),
            (UsSsn, "001-01-0001", "001010001"),
            (DeTaxId, "86095742719", "86095742718"),
            (DeTaxId, "47 036 892 816", "47 036 892 817"),
            (DeTaxId, "65929970489", "12345678903"),
            (UkNino, "AB123456C", "AB123456E"),
            (UkNino, "AB 12 34 56 C", "DB 12 34 56 C"),
            (UkNino, "JG103759A", "GB103759A"),
            (FrNir, "255081416802538", "255081416802539"),
            (FrNir, "2 55 08 14 168 025 38", "3 55 08 14 168 025 38"),
        ] {
            for text in [good.to_owned(), format!("no. {good}, "), format!(r"a\n{good}\n")] {
                assert_eq!(found(&text, kind), [good], "{text}");
            }
            let longer = format!("{good}0");
            for text in [bad, longer.as_str()] {
                assert!(found(text, kind).is_empty(), "{text}");
            }
        }
    }
}
