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
}
