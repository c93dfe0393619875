//! Checksums of numbers.

/// Returns the sum of Luhn of digits, the last of which is the check digit: a multiple of 10 if it fits.
pub fn luhn(digits: &[u8]) -> u32 {
    let doubled = digits.iter().rev().enumerate().map(|(place, digit)| match u32::from(*digit) {
        digit if place.is_multiple_of(2) => digit,
        digit if digit > 4 => digit * 2 - 9,
        digit => digit * 2,
    });
    doubled.sum()
}

/// Returns the remainder by 97 of an IBAN without spaces: 1 if its check digits fit.
pub fn mod97(iban: &[u8]) -> u32 {
    let (head, rest) = iban.split_at(4.min(iban.len()));
    rest.iter().chain(head).fold(0, |remainder, byte| match byte {
        b'0'..=b'9' => (remainder * 10 + u32::from(byte - b'0')) % 97,
        letter => {
            (remainder * 100 + u32::from(letter.to_ascii_uppercase().wrapping_sub(b'A')) + 10) % 97
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_digits_are_those_of_published_examples() {
        assert_eq!(luhn(&[4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]) % 10, 0);
        assert_ne!(luhn(&[4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]) % 10, 0);
        assert_eq!(mod97(b"GB82WEST12345698765432"), 1);
        assert_ne!(mod97(b"GB82WEST12345698765423"), 1);
    }
}
