//! Secrets at rest: they are sealed by AES-256-GCM with a key that the database does not have.
//!
//! A sealed value is bound to its place: it opens in the same table, column and row, and in no other.
//! An earlier value of the same place opens too. Its bytes are
//!
//! ```text
//! format (1)  key (8)  nonce (12)  ciphertext  tag (16)
//! ```
//!
//! The first byte of a text in UTF-8 is never that of a format, so a value without one is plain: from
//! the time before there was a key. Nonces are random, so one key is for at most 2^32 values.

mod key;

pub use self::key::{SealKey, SealKeyError, SealKeyId};

use std::sync::Arc;

use ring::{
    aead::{Aad, NONCE_LEN, Nonce},
    rand::{SecureRandom as _, SystemRandom},
};

use self::key::KEY_ID_BYTES;

/// Least first byte of a sealed value, of any version. UTF-8 has no such byte.
const FORMATS: u8 = 0xf8;
/// The format of this version.
const FORMAT: u8 = 0xf9;
/// Begins what a sealed value is bound to.
const DOMAIN: &[u8] = b"airlock sealed value 1";

/// The keys of the secrets at rest. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Seals(Arc<SealKeys>);

#[derive(Debug)]
struct SealKeys {
    current: SealKey,
    older: Vec<SealKey>,
}

impl Seals {
    /// Creates the keys: the one that seals, and older ones whose values can still be opened.
    pub fn new(current: SealKey, older: Vec<SealKey>) -> Self {
        Self(Arc::new(SealKeys { current, older }))
    }

    /// Returns the identifier of the key that seals.
    pub fn current_id(&self) -> SealKeyId {
        self.0.current.id()
    }

    fn find(&self, id: SealKeyId) -> Option<&SealKey> {
        std::iter::once(&self.0.current).chain(&self.0.older).find(|key| key.id() == id)
    }
}

/// Reason that a secret cannot be sealed or opened. Names a key by its identifier, and no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The value is sealed with a key that the settings do not have.
    #[error("a secret is sealed with the key {0}, which is not configured")]
    UnknownKey(SealKeyId),
    /// The value was changed, or is one of another place.
    #[error("a secret that is sealed with the key {0} was altered, or moved from another row")]
    Altered(SealKeyId),
    /// The value is not in a format of this version.
    #[error("a secret is sealed in a format that this version of Airlock does not know")]
    UnknownFormat,
    /// The system has no random numbers, or the value is too long.
    #[error("a secret cannot be sealed")]
    Failed,
    /// The record of a change does not have the value: it could not be opened when it was replaced, or it was
    /// removed because the record has a bound.
    #[error(
        "the content is not kept: it could not be opened when it was replaced, or it was removed as one of the oldest"
    )]
    NotKept,
}

/// The place of a secret, as the bytes that its value is bound to. No other place has the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretPlace(Vec<u8>);

impl SecretPlace {
    /// Returns the place in a column, and in the row with this key.
    pub fn new(table: &str, column: &str, row: &[&[u8]]) -> Self {
        let names = [DOMAIN, table.as_bytes(), column.as_bytes()];
        let mut bound = Vec::new();
        for part in names.iter().chain(row) {
            bound.extend((part.len() as u64).to_be_bytes());
            bound.extend(*part);
        }
        Self(bound)
    }
}

/// Seals and opens the secrets of a database; without keys, it stores new ones as they are.
#[derive(Debug, Clone)]
pub struct Sealer(Option<Seals>);

impl Sealer {
    /// Creates the means for the secrets of a database with these keys.
    pub fn new(seals: Option<Seals>) -> Self {
        Self(seals)
    }

    /// Returns the value to store for a secret.
    pub fn seal(&self, place: &SecretPlace, secret: &str) -> Result<Vec<u8>, SealError> {
        let Some(seals) = &self.0 else { return Ok(secret.as_bytes().to_vec()) };
        let key = &seals.0.current;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::Failed)?;
        let mut sealed = secret.as_bytes().to_vec();
        key.cipher()
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(&place.0),
                &mut sealed,
            )
            .map_err(|_| SealError::Failed)?;
        Ok([&[FORMAT], &key.id().bytes()[..], &nonce, &sealed].concat())
    }

    /// Returns the secret of a stored value.
    pub fn open(&self, place: &SecretPlace, stored: &[u8]) -> Result<String, SealError> {
        match SealedValue::parse(stored)? {
            Some(sealed) => self.unseal(place, &sealed),
            None => Ok(str::from_utf8(stored).map_err(|_| SealError::UnknownFormat)?.to_owned()),
        }
    }

    fn unseal(&self, place: &SecretPlace, sealed: &SealedValue<'_>) -> Result<String, SealError> {
        let id = sealed.key;
        let key = self.0.as_ref().and_then(|seals| seals.find(id));
        let key = key.ok_or(SealError::UnknownKey(id))?;
        let mut bytes = sealed.ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let opened = key.cipher().open_in_place(nonce, Aad::from(&place.0), &mut bytes);
        let length = opened.map_err(|_| SealError::Altered(id))?.len();
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(|_| SealError::Altered(id))
    }

    /// Returns whether a stored value is sealed with the current key.
    pub fn is_current(&self, stored: &[u8]) -> Result<bool, SealError> {
        let current = self.0.as_ref().map(Seals::current_id);
        Ok(SealedValue::parse(stored)?.map(|sealed| sealed.key) == current)
    }
}

/// A sealed value, taken apart.
struct SealedValue<'v> {
    key: SealKeyId,
    nonce: [u8; NONCE_LEN],
    /// With the tag.
    ciphertext: &'v [u8],
}

impl<'v> SealedValue<'v> {
    /// Takes a stored value apart; `None` if it is plain.
    fn parse(stored: &'v [u8]) -> Result<Option<Self>, SealError> {
        let Some((format, rest)) = stored.split_first().filter(|(format, _)| **format >= FORMATS)
        else {
            return Ok(None);
        };
        let parts = rest.split_first_chunk::<KEY_ID_BYTES>().and_then(|(key, rest)| {
            let (nonce, ciphertext) = rest.split_first_chunk()?;
            Some(Self { key: SealKeyId::new(*key), nonce: *nonce, ciphertext })
        });
        parts.filter(|_| *format == FORMAT).map(Some).ok_or(SealError::UnknownFormat)
    }
}

#[cfg(test)]
mod tests;
