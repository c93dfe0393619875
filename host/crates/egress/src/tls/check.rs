//! Checks of certificates without authorities.

use std::{fmt, sync::Arc};

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Decides about the certificate of a server.
pub(super) trait CertificateCheck: Send + Sync {
    /// Fails if the server is refused.
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error>;
}

/// Verifies servers by a check of their certificates alone. The server has to sign the handshake with the key
/// of its certificate, as with every one.
pub(super) struct CheckedCertificate<C> {
    check: C,
    provider: Arc<CryptoProvider>,
}

impl<C> CheckedCertificate<C> {
    pub(super) fn new(check: C, provider: Arc<CryptoProvider>) -> Self {
        Self { check, provider }
    }
}

impl<C: CertificateCheck> ServerCertVerifier for CheckedCertificate<C> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check.check(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<C> fmt::Debug for CheckedCertificate<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedCertificate").finish_non_exhaustive()
    }
}
