//! Connections to the server that has one certain certificate.

use std::sync::Arc;

use rustls::{CertificateError, ClientConfig, Error, pki_types::CertificateDer};

use super::check::{CertificateCheck, CheckedCertificate};

/// Accepts one certificate, whatever its names, its authority and its times.
struct Pinned(CertificateDer<'static>);

/// Returns the settings of connections to the server whose own certificate is this one, by whichever name
/// it is reached.
pub fn pinned_config(certificate: CertificateDer<'static>) -> Result<ClientConfig, Error> {
    let provider = airlock_tls::provider();
    let verifier = CheckedCertificate::new(Pinned(certificate), provider.clone());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

impl CertificateCheck for Pinned {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        if *certificate == self.0 {
            Ok(())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }
}
