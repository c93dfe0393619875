//! Certificates and private keys of TLS, for the listener and for outbound connections: read from PEM
//! files, bounded, and checked against each other. Knows no connections.
//!
//! ```text
//! PEM file ──pem──▶ certificates ┐
//!                                ├─identity─▶ Identity ──▶ settings of a listener or a client
//! PEM file, text ─▶ private key ─┘
//! PEM file ──revocation──▶ lists of revoked certificates ──▶ settings of a listener
//! ```

mod authorities;
mod error;
mod identity;
mod pem;
mod revocation;

use std::sync::{Arc, Once};

use rustls::crypto::{CryptoProvider, ring};

pub use self::{
    authorities::Authorities,
    error::{BadIdentity, BadPem},
    identity::{Identity, IdentitySource, KeySource, Validity, validity},
    pem::{MAX_BYTES, is_content, read_certificates},
    revocation::{
        CertificateNumber, IssuerDigest, RevocationList, SerialDigest, read_revocation_lists,
    },
};

/// Returns the cryptography of this process: that of an embedding program if it has installed one before,
/// else `ring`, which this installs for the whole process.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails if the embedding program has installed one, which then stays.
        let _ = ring::default_provider().install_default();
    });
    let installed = CryptoProvider::get_default().cloned();
    installed.unwrap_or_else(|| Arc::new(ring::default_provider()))
}
