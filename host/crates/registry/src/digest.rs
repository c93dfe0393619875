//! Digests of manifests and blobs.

use std::{fmt, str::FromStr};

use airlock_strings::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Name of the only algorithm that is supported, which every registry has.
const ALGORITHM: &str = "sha256:";
/// Length of a digest in hexadecimal.
const HEX_DIGITS: usize = 64;

/// A digest: `sha256:` and hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// Reason that a text is no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a digest of `sha256:` and 64 hexadecimal digits")]
pub struct BadDigest;

impl Digest {
    /// Computes the digest of these bytes.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(format!("{ALGORITHM}{}", hex(&Sha256::digest(bytes))))
    }

    /// Returns the digest as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = BadDigest;

    fn try_from(text: String) -> Result<Self, BadDigest> {
        let digits = text.strip_prefix(ALGORITHM).ok_or(BadDigest)?;
        let is_valid = digits.len() == HEX_DIGITS
            && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if is_valid { Ok(Self(text)) } else { Err(BadDigest) }
    }
}

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        Self::try_from(text.to_owned())
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha256_in_lower_case_hexadecimal() {
        let digest = Digest::compute(b"");
        insta::assert_snapshot!(digest.to_string(), @"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(digest.as_str().parse(), Ok(digest.clone()));
        let upper = digest.as_str().to_ascii_uppercase();
        let longer = format!("{digest}0");
        for text in ["", "sha256:", "sha512:00", &upper, &longer, "sha256:../../x"] {
            assert_eq!(text.parse::<Digest>(), Err(BadDigest), "{text}");
        }
    }
}
