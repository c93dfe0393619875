//! Random credentials. Each has 256 bits, is shown once, and is kept as its SHA-256: a slow hash protects
//! weak secrets, which these are not.

use airlock_core::secret::Secret;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

/// SHA-256 of a credential.
pub(crate) type TokenDigest = [u8; 32];

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandomness;

/// Makes a credential of random bytes with this prefix.
pub(crate) fn generate(prefix: &str) -> Result<Secret, NoRandomness> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(Secret::new(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))))
}

/// Returns the digest by which a credential is found.
pub(crate) fn digest(credential: &str) -> TokenDigest {
    Sha256::digest(credential.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn credentials_are_long_can_be_sent_in_a_header_and_never_repeat() {
        let tokens: BTreeSet<_> =
            (0..64).map(|_| generate("alop_").expect("randomness").expose().to_owned()).collect();
        assert_eq!(tokens.len(), 64);
        for token in &tokens {
            let rest = token.strip_prefix("alop_").expect("the prefix");
            assert_eq!(rest.len(), 43, "256 bits");
            assert!(rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'));
        }
    }
}
