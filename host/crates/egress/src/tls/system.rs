//! Checks of certificates by the authorities of the operating system, which may have none: in a small container, for
//! example. Connections without TLS do not need them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustls::{
    DigitallySignedStruct, Error, OtherError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use rustls_platform_verifier::Verifier;

/// Reason that no certificate of a server is accepted.
#[derive(Debug, thiserror::Error)]
#[error(
    "the system has no certificates of authorities: install the package `ca-certificates`, or set SSL_CERT_FILE to a PEM file of them"
)]
struct NoAuthority;

/// Refuses the certificate of every server.
struct Refusing {
    provider: Arc<CryptoProvider>,
}

/// Returns whether the operating system has certificates of authorities.
pub(super) fn has_authorities() -> bool {
    static FOUND: AtomicBool = AtomicBool::new(false);
    if !FOUND.load(Ordering::Relaxed) && Verifier::new(airlock_tls::provider()).is_ok() {
        FOUND.store(true, Ordering::Relaxed);
    }
    FOUND.load(Ordering::Relaxed)
}

/// Returns what checks certificates by the authorities of the operating system and by `authorities`. It refuses all
/// if there are neither. Fails if one of `authorities` cannot be used.
pub(super) fn verifier(
    authorities: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let has_more = !authorities.is_empty();
    match Verifier::new_with_extra_roots(authorities, provider.clone()) {
        Ok(verifier) => Ok(Arc::new(verifier)),
        Err(error) if has_more => Err(error),
        Err(_) => Ok(refusing(provider)),
    }
}

/// Returns what refuses the certificate of every server, because the operating system has no authorities.
pub(super) fn refusing(provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Refusing { provider })
}

impl ServerCertVerifier for Refusing {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Err(OtherError(Arc::new(NoAuthority)).into())
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

impl fmt::Debug for Refusing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusing").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_authorities_each_certificate_is_refused_with_what_to_install() {
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let certificate = CertificateDer::from(vec![0]);
        let verifier = refusing(airlock_tls::provider());
        let refused = verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now());
        let reason = refused.expect_err("it is refused").to_string();
        assert!(reason.contains("install the package `ca-certificates`"), "{reason}");
    }

    #[test]
    fn a_bad_authority_is_an_error_whatever_the_system_has() {
        let bad = vec![CertificateDer::from(vec![0])];
        assert!(verifier(bad, airlock_tls::provider()).is_err());
    }
}
