//! Checks of certificates by the authorities of the operating system, which may have none: in a small container, for
//! example. Connections without TLS do not need them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rustls::{
    Error, OtherError, client::danger::ServerCertVerifier, crypto::CryptoProvider,
    pki_types::CertificateDer,
};
use rustls_platform_verifier::Verifier;

use super::check::{CertificateCheck, CheckedCertificate};

/// Reason that no certificate of a server is accepted.
#[derive(Debug, thiserror::Error)]
#[error(
    "the system has no certificates of authorities: install the package `ca-certificates`, or set SSL_CERT_FILE to a PEM file of them"
)]
struct NoAuthority;

/// Refuses the certificate of every server.
struct Refusing;

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
    Arc::new(CheckedCertificate::new(Refusing, provider))
}

impl CertificateCheck for Refusing {
    fn check(&self, _: &CertificateDer<'_>) -> Result<(), Error> {
        Err(OtherError(Arc::new(NoAuthority)).into())
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};

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
