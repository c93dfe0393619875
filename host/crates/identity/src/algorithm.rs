//! Signature algorithms of RFC 7518 and RFC 8037. All are asymmetric: with a symmetric one, every
//! holder of the public key set could sign.

use ring::signature::{self as ring_signature, EcdsaVerificationAlgorithm, RsaParameters};

/// An accepted signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    /// With Ed25519, the only curve of it that `ring` has.
    EdDsa,
}

/// Type of key that an algorithm needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyType {
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl Algorithm {
    /// Finds an algorithm by its name in a header or a key. `Ed25519` is the name of RFC 9864 for
    /// `EdDSA` with that curve.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }

    /// Type of key that it needs.
    pub(crate) fn key_type(self) -> KeyType {
        match self {
            Self::Es256 => KeyType::P256,
            Self::Es384 => KeyType::P384,
            Self::EdDsa => KeyType::Ed25519,
            _ => KeyType::Rsa,
        }
    }

    /// Parameters for an RSA key; `None` for other algorithms. They refuse keys of less than 2048
    /// and more than 8192 bits.
    pub(crate) fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &ring_signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &ring_signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &ring_signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &ring_signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &ring_signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &ring_signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }

    /// Parameters for a key on a NIST curve; `None` for other algorithms.
    pub(crate) fn ecdsa(self) -> Option<&'static EcdsaVerificationAlgorithm> {
        match self {
            Self::Es256 => Some(&ring_signature::ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Some(&ring_signature::ECDSA_P384_SHA384_FIXED),
            _ => None,
        }
    }
}
