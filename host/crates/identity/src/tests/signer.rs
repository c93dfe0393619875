//! Signs tokens as an issuer does.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _,
    },
};
use serde_json::{Value, json};

use super::merged;

/// A private key.
pub(super) struct Signer {
    kid: String,
    key: Key,
}

enum Key {
    Ecdsa { name: &'static str, curve: &'static str, pair: EcdsaKeyPair },
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub(super) fn es256(kid: &str) -> Self {
        Self::ecdsa(kid, "ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    pub(super) fn es384(kid: &str) -> Self {
        Self::ecdsa(kid, "ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING)
    }

    pub(super) fn ed25519(kid: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key");
        Self { kid: kid.to_owned(), key: Key::Ed25519(pair) }
    }

    fn ecdsa(
        kid: &str,
        name: &'static str,
        curve: &'static str,
        algorithm: &'static EcdsaSigningAlgorithm,
    ) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key");
        Self { kid: kid.to_owned(), key: Key::Ecdsa { name, curve, pair } }
    }

    /// Returns the public key as in a key set.
    pub(super) fn jwk(&self) -> Value {
        match &self.key {
            Key::Ecdsa { name, curve, pair } => {
                let point = pair.public_key().as_ref();
                let (x, y) = point[1..].split_at((point.len() - 1) / 2);
                json!({
                    "kty": "EC", "crv": curve, "kid": self.kid, "use": "sig", "alg": name,
                    "x": encode(x), "y": encode(y),
                })
            }
            Key::Ed25519(pair) => json!({
                "kty": "OKP", "crv": "Ed25519", "kid": self.kid, "x": encode(pair.public_key()),
            }),
        }
    }

    /// Returns the public key with other members, or without those that are null.
    pub(super) fn jwk_with(&self, changes: Value) -> Value {
        merged(self.jwk(), changes)
    }

    pub(super) fn header(&self) -> Value {
        let name = match &self.key {
            Key::Ecdsa { name, .. } => name,
            Key::Ed25519(_) => "EdDSA",
        };
        json!({ "alg": name, "kid": self.kid, "typ": "at+jwt" })
    }

    /// Signs an access token.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.sign(&self.header().to_string(), &claims.to_string())
    }

    /// Signs an access token with other members in its header, or without those that are null.
    pub(super) fn token_with(&self, changes: Value, claims: &Value) -> String {
        self.sign(&merged(self.header(), changes).to_string(), &claims.to_string())
    }

    /// Signs any header and any payload.
    pub(super) fn sign(&self, header: &str, payload: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(payload));
        let signature = match &self.key {
            Key::Ecdsa { pair, .. } => pair
                .sign(&SystemRandom::new(), signed.as_bytes())
                .expect("a signature")
                .as_ref()
                .to_vec(),
            Key::Ed25519(pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", encode(signature))
    }
}

/// Encodes bytes as in a token.
pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
