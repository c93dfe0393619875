//! A key of secrets at rest.

use std::fmt;

use airlock_strings::{from_hex, hex};
use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use sha2::{Digest as _, Sha256};

/// Bytes of an identifier.
pub(super) const KEY_ID_BYTES: usize = 8;
/// Begins what the identifier of a key is the digest of.
const DOMAIN: &[u8] = b"airlock seal key 1";
/// As `openssl rand -base64 32` writes it, with or without the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key that seals secrets: 32 random bytes. `Debug` shows its identifier alone.
#[derive(Clone)]
pub struct SealKey {
    id: SealKeyId,
    cipher: LessSafeKey,
}

/// Identifier of a key, which says nothing about the key. It is part of each value that is sealed
/// with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealKeyId([u8; KEY_ID_BYTES]);

/// A text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is 32 bytes, as 64 hexadecimal digits or in base64")]
pub struct SealKeyError;

impl SealKey {
    /// Creates a key of these bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self { id: SealKeyId::compute(bytes), cipher: cipher(bytes) }
    }

    /// Parses a key: 64 hexadecimal digits, or the base64 of 32 bytes. White space around it is
    /// ignored. The error does not show the text.
    pub fn parse(text: &str) -> Result<Self, SealKeyError> {
        let text = text.trim();
        let bytes: Option<[u8; 32]> = from_hex(text.as_bytes());
        let bytes = bytes.or_else(|| BASE64.decode(text).ok()?.try_into().ok());
        bytes.map(|bytes| Self::new(&bytes)).ok_or(SealKeyError)
    }

    /// Returns the identifier.
    pub fn id(&self) -> SealKeyId {
        self.id
    }

    pub(super) fn cipher(&self) -> &LessSafeKey {
        &self.cipher
    }
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("its keys have 32 bytes"))
}

impl SealKeyId {
    pub(super) fn new(bytes: [u8; KEY_ID_BYTES]) -> Self {
        Self(bytes)
    }

    fn compute(key: &[u8; 32]) -> Self {
        let digest = Sha256::new().chain_update(DOMAIN).chain_update(key).finalize();
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest[..KEY_ID_BYTES]);
        Self(id)
    }

    pub(super) fn bytes(self) -> [u8; KEY_ID_BYTES] {
        self.0
    }
}

impl fmt::Display for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKey").field("id", &format_args!("{}", self.id)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";
    const BASE64: &str = "ABEiM0RVZneImaq7zN3u///u3cy7qpmId2ZVRDMiEQA=";

    #[test]
    fn a_key_is_read_from_hexadecimal_and_from_base64() {
        let key = SealKey::parse(HEX).expect("a key");
        for text in [BASE64, BASE64.trim_end_matches('='), &format!(" {HEX}\n")] {
            assert_eq!(SealKey::parse(text).expect("a key").id(), key.id(), "{text}");
        }
        assert_ne!(SealKey::new(&[1; 32]).id(), SealKey::new(&[2; 32]).id());
    }

    #[test]
    fn a_text_of_another_length_or_alphabet_is_no_key() {
        let longer = format!("{HEX}0");
        let other = HEX.replace('0', "g");
        for text in ["", &HEX[1..], &HEX[2..], &longer, &other, &BASE64[4..], "é"] {
            assert_eq!(SealKey::parse(text).map(|key| key.id()), Err(SealKeyError), "{text}");
        }
    }

    #[test]
    fn debug_shows_the_identifier_and_not_the_key() {
        let key = SealKey::parse(HEX).expect("a key");
        assert_eq!(format!("{key:?}"), format!("SealKey {{ id: {}, .. }}", key.id()));
        // In the values of all versions.
        assert_eq!(key.id().to_string(), "6d5564587445c0e1");
    }
}
