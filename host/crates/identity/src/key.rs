//! One public key of a JSON Web Key Set (RFC 7517).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ED25519, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use crate::{
    algorithm::{Algorithm, KeyType},
    json::Object,
};

/// Sizes of RSA keys, in bits. `ring` accepts the same.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// A key that verifies signatures.
#[derive(Debug)]
pub(crate) struct IssuerKey {
    pub(crate) kid: Option<String>,
    /// The only algorithm that it may be used with; `None` for all of its type.
    algorithm: Option<Algorithm>,
    material: KeyMaterial,
}

#[derive(Debug)]
enum KeyMaterial {
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point on P-256, uncompressed.
    P256(Vec<u8>),
    /// A point on P-384, uncompressed.
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Reason that a key of the issuer is not used. The other keys of its set still are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnusableKey {
    #[error("a member is missing or has the wrong form")]
    Malformed,
    #[error("the key is of a type or curve that is not supported")]
    Type,
    #[error("the key is not for signatures, or for another algorithm than its type")]
    Purpose,
    #[error("the RSA key is too small or too large")]
    Size,
    #[error("the key is secret: every reader of the key set can sign tokens with it")]
    Secret,
}

impl IssuerKey {
    /// Reads a key. Fails if it must not or cannot be used.
    pub(crate) fn parse(jwk: &Value) -> Result<Self, UnusableKey> {
        let jwk = jwk.as_object().ok_or(UnusableKey::Malformed)?;
        let kty = required(jwk, "kty")?;
        // `k` of symmetric keys, `d` and the primes of private ones.
        if kty == "oct" || ["k", "d", "p", "q", "oth"].iter().any(|name| jwk.contains_key(*name)) {
            return Err(UnusableKey::Secret);
        }
        check_purpose(jwk)?;
        let material = KeyMaterial::parse(kty, jwk)?;
        let algorithm = match optional(jwk, "alg")? {
            None => None,
            Some(name) => Some(
                Algorithm::from_name(name)
                    .filter(|algorithm| algorithm.key_type() == material.key_type())
                    .ok_or(UnusableKey::Purpose)?,
            ),
        };
        Ok(Self { kid: optional(jwk, "kid")?.map(str::to_owned), algorithm, material })
    }

    /// Returns whether the key may verify signatures of an algorithm.
    pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|own| own == algorithm)
            && self.material.key_type() == algorithm.key_type()
    }

    /// Returns whether `signature` is one of this key over `message`. False for an algorithm that
    /// does not fit the key.
    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        let outcome = match &self.material {
            KeyMaterial::Rsa { n, e } => algorithm
                .rsa()
                .map(|rsa| RsaPublicKeyComponents { n, e }.verify(rsa, message, signature)),
            KeyMaterial::P256(point) | KeyMaterial::P384(point) => algorithm
                .ecdsa()
                .map(|ecdsa| UnparsedPublicKey::new(ecdsa, point).verify(message, signature)),
            KeyMaterial::Ed25519(key) => {
                Some(UnparsedPublicKey::new(&ED25519, key).verify(message, signature))
            }
        };
        matches!(outcome, Some(Ok(())))
    }
}

impl KeyMaterial {
    fn parse(kty: &str, jwk: &Object) -> Result<Self, UnusableKey> {
        match kty {
            "RSA" => rsa(jwk),
            "EC" => match required(jwk, "crv")? {
                "P-256" => Ok(Self::P256(point(jwk, 32)?)),
                "P-384" => Ok(Self::P384(point(jwk, 48)?)),
                _ => Err(UnusableKey::Type),
            },
            "OKP" if required(jwk, "crv")? == "Ed25519" => {
                Ok(Self::Ed25519(bytes(jwk, "x", Some(32))?))
            }
            _ => Err(UnusableKey::Type),
        }
    }

    fn key_type(&self) -> KeyType {
        match self {
            Self::Rsa { .. } => KeyType::Rsa,
            Self::P256(_) => KeyType::P256,
            Self::P384(_) => KeyType::P384,
            Self::Ed25519(_) => KeyType::Ed25519,
        }
    }
}

/// Fails if `use` or `key_ops` exclude the verification of signatures.
fn check_purpose(jwk: &Object) -> Result<(), UnusableKey> {
    if optional(jwk, "use")?.is_some_and(|purpose| purpose != "sig") {
        return Err(UnusableKey::Purpose);
    }
    match jwk.get("key_ops") {
        None => Ok(()),
        Some(Value::Array(operations))
            if operations.iter().any(|operation| operation == "verify") =>
        {
            Ok(())
        }
        Some(Value::Array(_)) => Err(UnusableKey::Purpose),
        Some(_) => Err(UnusableKey::Malformed),
    }
}

fn rsa(jwk: &Object) -> Result<KeyMaterial, UnusableKey> {
    let n = integer(jwk, "n")?;
    let e = integer(jwk, "e")?;
    let bits = n.len() * 8 - n.first().map_or(0, |byte| byte.leading_zeros() as usize);
    if !RSA_BITS.contains(&bits) {
        return Err(UnusableKey::Size);
    }
    // With the exponent 1, every message is its own signature.
    if matches!(e[..], [] | [0..=2]) || e.last().is_some_and(|byte| byte % 2 == 0) {
        return Err(UnusableKey::Malformed);
    }
    Ok(KeyMaterial::Rsa { n, e })
}

/// Reads an unsigned integer. Leading zeros are dropped: RFC 7518 forbids them, some issuers have
/// them, and `ring` refuses them.
fn integer(jwk: &Object, name: &str) -> Result<Vec<u8>, UnusableKey> {
    let mut bytes = bytes(jwk, name, None)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    Ok(bytes)
}

/// Reads a point and returns it in the uncompressed form of SEC 1. `ring` checks that it is on the
/// curve.
fn point(jwk: &Object, coordinate_bytes: usize) -> Result<Vec<u8>, UnusableKey> {
    let x = bytes(jwk, "x", Some(coordinate_bytes))?;
    let y = bytes(jwk, "y", Some(coordinate_bytes))?;
    Ok([&[4], &x[..], &y[..]].concat())
}

fn bytes(jwk: &Object, name: &str, length: Option<usize>) -> Result<Vec<u8>, UnusableKey> {
    let bytes = URL_SAFE_NO_PAD.decode(required(jwk, name)?).map_err(|_| UnusableKey::Malformed)?;
    match length {
        Some(length) if bytes.len() != length => Err(UnusableKey::Malformed),
        _ => Ok(bytes),
    }
}

fn required<'a>(jwk: &'a Object, name: &str) -> Result<&'a str, UnusableKey> {
    optional(jwk, name)?.ok_or(UnusableKey::Malformed)
}

/// Returns a member that must be a string if it exists.
fn optional<'a>(jwk: &'a Object, name: &str) -> Result<Option<&'a str>, UnusableKey> {
    match jwk.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(UnusableKey::Malformed),
    }
}
