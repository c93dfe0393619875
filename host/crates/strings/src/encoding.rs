//! Hexadecimal digits and percent-encoding (RFC 3986, section 2.1).

/// Hexadecimal digits by their value.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Renders bytes in lower-case hexadecimal, with two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            text.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    text
}

/// Returns the value of one hexadecimal digit of either case; `None` if it is not one.
pub fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Reads bytes in hexadecimal digits of either case; `None` if these are not the digits of `N` bytes.
pub fn from_hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
    }
    Some(bytes)
}

/// Decodes every `%XX` of a text once. Returns `None` if a `%` is not followed by two hexadecimal
/// digits.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let (byte, after) = match (first, others) {
            (b'%', [high, low, after @ ..]) => (hex_digit(*high)? << 4 | hex_digit(*low)?, after),
            (b'%', _) => return None,
            (byte, _) => (*byte, others),
        };
        decoded.push(byte);
        rest = after;
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_has_two_digits_a_byte() {
        assert_eq!(hex(&[0x00, 0x0a, 0xff]), "000aff");
        assert_eq!((hex_digit(b'F'), hex_digit(b'g')), (Some(15), None));
        assert_eq!(from_hex(b"000aFf"), Some([0x00, 0x0a, 0xff]));
        for other in ["", "000a", "000aff0", "000aff00", "000afg"] {
            assert_eq!(from_hex::<3>(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn escapes_are_decoded_once_and_broken_ones_refused() {
        assert_eq!(percent_decoded("a%2Fb%c3%A9%2525").as_deref(), Some("a/bé%25".as_bytes()));
        for broken in ["%", "a%2", "%zz", "%2g"] {
            assert_eq!(percent_decoded(broken), None, "{broken}");
        }
    }
}
