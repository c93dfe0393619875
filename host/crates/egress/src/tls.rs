//! TLS of outbound connections.

mod pinned;

use std::sync::Arc;

use rustls::{ClientConfig, pki_types::CertificateDer};
use rustls_platform_verifier::Verifier;

pub use self::pinned::pinned_config;
use airlock_tls::Identity;

/// Returns a builder of HTTP clients. Every client of this process is made from it, or by
/// [`HttpsClient`](crate::https::HttpsClient): `reqwest::Client::new` alone panics with the features
/// that Airlock selects, unless a provider is installed.
pub fn client() -> reqwest::ClientBuilder {
    airlock_tls::provider();
    reqwest::Client::builder()
}

/// Returns the settings of connections to servers whose certificates are signed by an authority of the
/// operating system or by one of `authorities`. A server that asks for a certificate gets none. Fails if
/// the certificates of the operating system or of `authorities` cannot be used.
pub fn client_config(
    authorities: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, rustls::Error> {
    let provider = airlock_tls::provider();
    let verifier = Verifier::new_with_extra_roots(authorities, provider.clone())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

/// Returns the same settings, except that a server that asks for a certificate gets that of `identity`.
pub fn identified(config: &ClientConfig, identity: &Identity) -> ClientConfig {
    let mut config = config.clone();
    config.client_auth_cert_resolver = identity.resolver();
    config
}
