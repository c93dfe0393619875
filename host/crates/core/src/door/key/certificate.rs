//! Certificates of callers, which virtual keys may be bound to.

use sha2::{Digest, Sha256};

/// SHA-256 of a certificate in DER format, which identifies the certificate. It is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateDigest([u8; 32]);

impl CertificateDigest {
    /// Digests a certificate in DER format. Whether its holder has the key of it, and which authority
    /// signed it, is checked before.
    pub fn from_der(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }

    /// Wraps a digest that was made before.
    pub fn from_bytes(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}
