//! Checksums of formats.

/// Digits of base 62, as GitHub and npm write checksums.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Digits of a checksum in base 62.
const CHECKSUM_DIGITS: usize = 6;

/// Returns whether the last six bytes are the CRC-32 of those before them, in base 62.
pub(super) fn is_signed(token: &[u8]) -> bool {
    let Some(body) = token.len().checked_sub(CHECKSUM_DIGITS) else { return false };
    let (body, checksum) = token.split_at(body);
    base62(crc32(body)) == *checksum
}

/// Returns a text with its checksum.
#[cfg(test)]
pub(crate) fn signed(body: &str) -> String {
    let checksum = base62(crc32(body.as_bytes()));
    format!("{body}{}", String::from_utf8_lossy(&checksum))
}

fn base62(mut number: u32) -> [u8; CHECKSUM_DIGITS] {
    let mut digits = [b'0'; CHECKSUM_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(number % 62) as usize];
        number /= 62;
    }
    digits
}

/// Returns the CRC-32 of a short text, as zlib computes it.
fn crc32(text: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in text {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Returns the sum of Luhn of digits, the last of which is the check digit: a multiple of 10 if it fits.
pub(crate) fn luhn(digits: &[u8]) -> u32 {
    let doubled = digits.iter().rev().enumerate().map(|(place, digit)| match u32::from(*digit) {
        digit if place.is_multiple_of(2) => digit,
        digit if digit > 4 => digit * 2 - 9,
        digit => digit * 2,
    });
    doubled.sum()
}

/// Returns the remainder by 97 of an IBAN without spaces: 1 if its check digits fit.
pub(crate) fn mod97(iban: &[u8]) -> u32 {
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
    fn the_checksum_is_that_of_published_tokens() {
        // Of a token that its owner has revoked and published.
        assert_eq!(
            signed("zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ"),
            "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17"
        );
        assert!(is_signed(b"zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17"));
        assert!(!is_signed(b"zQWBuTSOoRi4A9spHcVY5ncnsDkxkK0mLq17") && !is_signed(b"0mLq1"));
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn check_digits_are_those_of_published_examples() {
        assert_eq!(luhn(&[4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]) % 10, 0);
        assert_ne!(luhn(&[4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]) % 10, 0);
        assert_eq!(mod97(b"GB82WEST12345698765432"), 1);
        assert_ne!(mod97(b"GB82WEST12345698765423"), 1);
    }
}
