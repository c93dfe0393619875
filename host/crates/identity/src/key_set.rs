//! The key set of an issuer.

use parking_lot::Mutex;

use serde_json::Value;
use tracing::warn;

use crate::{
    algorithm::Algorithm,
    json::{self, DOCUMENT_MEMORY},
    jws::Jws,
    key::{IssuerKey, UnusableKey},
    refusal::InvalidToken,
    verified::{Digest, VerifiedTokens},
};

/// Maximum number of keys of a set, the unusable ones included. Each token is compared with all of
/// them, and each unusable one is logged. Issuers publish two to ten.
pub(crate) const MAX_KEYS: usize = 100;

/// Public keys of an issuer, as they were at one time.
#[derive(Debug)]
pub(crate) struct KeySet {
    keys: Vec<IssuerKey>,
    /// Tokens that these keys have verified. It goes with the set, so a key that the issuer removes
    /// takes its tokens with it.
    verified: Mutex<VerifiedTokens>,
}

/// Reason that a document is not a key set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadKeySet {
    #[error("the key set is not a JSON object with an array `keys`, or has duplicate members")]
    Malformed,
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooManyKeys,
}

impl KeySet {
    /// Reads a set. Keys that cannot be used are left out. A set without usable keys is valid: it
    /// verifies nothing.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, BadKeySet> {
        let document = json::object(text, DOCUMENT_MEMORY).ok_or(BadKeySet::Malformed)?;
        let Some(Value::Array(jwks)) = document.get("keys") else {
            return Err(BadKeySet::Malformed);
        };
        if jwks.len() > MAX_KEYS {
            return Err(BadKeySet::TooManyKeys);
        }
        let keys = jwks
            .iter()
            .filter_map(|jwk| IssuerKey::parse(jwk).inspect_err(|reason| report(*reason)).ok())
            .collect();
        Ok(Self { keys, verified: Mutex::default() })
    }

    /// Number of usable keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Checks the signature of a token.
    pub(crate) fn verify(&self, jws: &Jws<'_>, digest: &Digest) -> Result<(), InvalidToken> {
        if self.verified.lock().contains(digest) {
            return Ok(());
        }
        let key = self.find(jws.header.kid.as_deref(), jws.header.algorithm)?;
        if !key.verifies(jws.header.algorithm, jws.signed, &jws.signature) {
            return Err(InvalidToken::Signature);
        }
        self.verified.lock().insert(*digest);
        Ok(())
    }

    /// Finds the only key that fits. If there are several, none is used: which one the token means
    /// would be a guess.
    fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<&IssuerKey, InvalidToken> {
        let mut fitting = self
            .keys
            .iter()
            .filter(|key| kid.is_none() || key.kid.as_deref() == kid)
            .filter(|key| key.fits(algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            _ => Err(InvalidToken::Key),
        }
    }
}

/// Logs a key that is not used. Keys of other types and purposes are common, and no news.
fn report(reason: UnusableKey) {
    if !matches!(reason, UnusableKey::Type | UnusableKey::Purpose) {
        warn!(%reason, "key of the issuer refused");
    }
}
