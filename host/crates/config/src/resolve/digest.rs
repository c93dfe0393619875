//! Digests of credentials, as text.

/// Parses a SHA-256 of 64 hexadecimal digits. The error does not quote it: it may be the credential.
pub(super) fn sha256(text: &str) -> Result<[u8; 32], &'static str> {
    const EXPECTED: &str = "expected a SHA-256 of 64 hexadecimal digits";
    let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| EXPECTED)?;
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16).ok_or(EXPECTED)?;
        let low = char::from(pair[1]).to_digit(16).ok_or(EXPECTED)?;
        *byte = u8::try_from(high << 4 | low).map_err(|_| EXPECTED)?;
    }
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::sha256;

    #[test]
    fn a_digest_has_64_hexadecimal_digits_in_either_case() {
        let digest = sha256(&"0fA9".repeat(16)).expect("a digest");
        assert_eq!(digest, *[0x0f, 0xa9].repeat(16).as_slice());
        let multibyte = format!("{}é", "a".repeat(62));
        for bad in ["", &"a".repeat(63), &"a".repeat(65), &"g".repeat(64), &multibyte] {
            assert!(sha256(bad).is_err(), "{bad}");
        }
    }
}
