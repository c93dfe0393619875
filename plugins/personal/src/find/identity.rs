//! Numbers of identity of Spain, Italy, Poland, Switzerland and Brazil. Each function returns the end of the one at a place.

use airlock_digits::words::{ends_word, is_whole, starts_word};

use super::groups::{digits, grouped, number};

/// Check letters of Spain, by the remainder of the number by 23.
pub(crate) const DNI: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";
/// Values of the characters of a tax code of Italy at odd places, from `0` and from `A` on.
const ODD: [u32; 26] =
    [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
/// Form of a tax code of Italy: `A` for a letter, `0` for a digit.
const TAX_CODE: &[u8; 16] = b"AAAAAA00A00A000A";

/// Finds a number of identity: eight digits and a letter, or `X`, `Y` or `Z`, seven digits and a letter.
pub(super) fn es_dni(text: &[u8], at: usize) -> Option<usize> {
    if !starts_word(text, at) {
        return None;
    }
    let (lead, body, length) = match text[at] {
        letter @ b'X'..=b'Z' => (u64::from(letter - b'X'), at + 1 + dash(text, at + 1), 7),
        _ => (0, at, 8),
    };
    let values: Vec<u8> = digits(text, body, length)?.collect();
    let letter = body + length + dash(text, body + length);
    let rest = (lead * 10_000_000 + number(&values)) % 23;
    let is_checked = usize::try_from(rest).is_ok_and(|rest| text.get(letter) == Some(&DNI[rest]));
    (is_checked && ends_word(text, letter + 1)).then_some(letter + 1)
}

/// Returns the length of the `-` at a place.
fn dash(text: &[u8], at: usize) -> usize {
    usize::from(text.get(at) == Some(&b'-'))
}

/// Finds a tax code: letters of the names, the day of birth, the place, and a check letter.
pub(super) fn it_tax_code(text: &[u8], at: usize) -> Option<usize> {
    let code = text.get(at..at + 16)?;
    let has_form = code.iter().zip(TAX_CODE).all(|(byte, form)| match form {
        b'A' => byte.is_ascii_uppercase(),
        _ => byte.is_ascii_digit(),
    });
    let end = at + 16;
    let is_code = has_form && starts_word(text, at) && ends_word(text, end);
    (is_code && check_letter(&code[..15]) == code[15]).then_some(end)
}

/// Returns the check letter of a tax code of Italy.
pub(crate) fn check_letter(body: &[u8]) -> u8 {
    let values = body.iter().enumerate().map(|(place, byte)| {
        let value = byte - if byte.is_ascii_digit() { b'0' } else { b'A' };
        // Places count from one.
        if place.is_multiple_of(2) { ODD[usize::from(value)] } else { u32::from(value) }
    });
    let rest = values.sum::<u32>() % 26;
    b'A' + u8::try_from(rest).expect("it is below 26")
}

/// Finds a number of identity: the day of birth with the century in its month, a number, and a check digit.
pub(super) fn pl_pesel(text: &[u8], at: usize) -> Option<usize> {
    let (values, end) = grouped(text, at, &[11], b"")?;
    let (check, body) = values.split_last()?;
    let is_day =
        matches!(number(&body[2..4]) % 20, 1..=12) && matches!(number(&body[4..6]), 1..=31);
    (is_day && weighted(body, &[1, 3, 7, 9]) == *check).then_some(end)
}

/// Finds a number of social security: 13 digits from `756` on, as on a bar code.
pub(super) fn ch_ahv(text: &[u8], at: usize) -> Option<usize> {
    let (values, end) = grouped(text, at, &[3, 4, 4, 2], b".")?;
    let (check, body) = values.split_last()?;
    (values.starts_with(&[7, 5, 6]) && weighted(body, &[1, 3]) == *check).then_some(end)
}

/// Returns the digit that makes the sum of digits, with their weights in turn, a multiple of 10.
pub(crate) fn weighted(body: &[u8], weights: &[u32]) -> u8 {
    let weighted = body.iter().zip(weights.iter().cycle());
    let sum: u32 = weighted.map(|(digit, weight)| u32::from(*digit) * weight).sum();
    u8::try_from((10 - sum % 10) % 10).expect("it is a digit")
}

/// Finds a number of taxpayers, as it is printed: `123.456.789-09`.
pub(super) fn br_cpf(text: &[u8], at: usize) -> Option<usize> {
    let printed = text.get(at..at + 14)?;
    let has_form = printed.iter().enumerate().all(|(place, byte)| match place {
        3 | 7 => *byte == b'.',
        11 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    let end = at + 14;
    if !has_form || !starts_word(text, at) || !is_whole(text, at, end) {
        return None;
    }
    let values = printed.iter().filter(|byte| byte.is_ascii_digit()).map(|digit| digit - b'0');
    let values: Vec<u8> = values.collect();
    let is_one_digit = values.iter().all(|digit| *digit == values[0]);
    let is_checked = mod11(&values[..9]) == values[9] && mod11(&values[..10]) == values[10];
    (!is_one_digit && is_checked).then_some(end)
}

/// Returns the check digit of digits of a number of taxpayers: the last weighs 2, the one before 3.
pub(crate) fn mod11(body: &[u8]) -> u8 {
    let weighted = body.iter().rev().zip(2..);
    let sum: u32 = weighted.map(|(digit, weight)| u32::from(*digit) * weight).sum();
    match sum % 11 {
        0 | 1 => 0,
        rest => u8::try_from(11 - rest).expect("it is a digit"),
    }
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
        use PersonalKind::{BrCpf, ChAhv, EsDni, ItTaxCode, PlPesel};
        for (kind, good, bad) in [
            (EsDni, "12345678Z", "12345678A"),
            (EsDni, "12345678-Z", "12345678 Z"),
            (EsDni, "X1234567L", "X1234567M"),
            (EsDni, "Y-1234567-X", "Y1234567L"),
            (ItTaxCode, "RSSMRA85T10A562S", "RSSMRA85T10A562T"),
            (PlPesel, "44051401359", "44051401358"),
            (PlPesel, "02070803628", "02130803628"),
            (ChAhv, "756.9217.0769.85", "756.9217.0769.84"),
            (ChAhv, "7569217076985", "7579217076985"),
            (BrCpf, "123.456.789-09", "123.456.789-08"),
            (BrCpf, "529.982.247-25", "111.111.111-11"),
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
