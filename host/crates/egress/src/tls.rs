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

/// Returns a builder of HTTP clients that follow no redirects: a request may have a secret in its URL.
pub fn client_without_redirects() -> reqwest::ClientBuilder {
    client().redirect(reqwest::redirect::Policy::none())
}

/// Returns a builder of HTTP clients with these settings of TLS. They name HTTP/1.1, the only version that
/// the clients speak, to servers that choose by ALPN.
pub fn client_with(config: ClientConfig) -> reqwest::ClientBuilder {
    client().tls_backend_preconfigured(over_http1(config))
}

fn over_http1(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_reqwest_name_http_1_1_and_can_be_built() {
        let config = pinned_config(CertificateDer::from(vec![0])).expect("good settings");
        assert!(config.alpn_protocols.is_empty(), "the connector of hyper-rustls needs none");
        assert_eq!(over_http1(config.clone()).alpn_protocols, [b"http/1.1"]);
        assert!(client_with(config).build().is_ok());
    }
}
