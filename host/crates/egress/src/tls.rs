//! TLS of outbound connections.

mod check;
mod pinned;
mod system;

use std::sync::Arc;

use rustls::{ClientConfig, client::danger::ServerCertVerifier, pki_types::CertificateDer};

pub use self::pinned::pinned_config;
use airlock_tls::Identity;

/// Returns a builder of HTTP clients. Without certificates of authorities in the operating system, they make no
/// connections with TLS. Every client of this process is made from it, or by
/// [`HttpsClient`](crate::https::HttpsClient): `reqwest::Client::new` alone panics with the features
/// that Airlock selects, unless a provider is installed.
pub fn client() -> reqwest::ClientBuilder {
    let provider = airlock_tls::provider();
    let builder = reqwest::Client::builder();
    if system::has_authorities() {
        return builder;
    }
    // `build` of the plain builder fails then, also for connections without TLS.
    match with_verifier(system::refusing(provider)) {
        Ok(config) => builder.tls_backend_preconfigured(over_http1(config)),
        Err(_) => builder,
    }
}

/// Returns a builder of HTTP clients that follow no redirects: a request may have a secret in its URL.
pub fn client_without_redirects() -> reqwest::ClientBuilder {
    client().redirect(reqwest::redirect::Policy::none())
}

/// Returns a builder of HTTP clients with these settings of TLS. They name HTTP/1.1, the only version that
/// the clients speak, to servers that choose by ALPN.
pub fn client_with(config: ClientConfig) -> reqwest::ClientBuilder {
    airlock_tls::provider();
    reqwest::Client::builder().tls_backend_preconfigured(over_http1(config))
}

fn over_http1(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// Returns the settings of connections to servers whose certificates are signed by an authority of the
/// operating system or by one of `authorities`. If there are neither, connections fail. A server that asks for a
/// certificate gets none. Fails if one of `authorities` cannot be used.
pub fn client_config(
    authorities: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, rustls::Error> {
    with_verifier(system::verifier(authorities, airlock_tls::provider())?)
}

/// Returns the settings of connections to servers whose certificates `verifier` accepts.
fn with_verifier(verifier: Arc<dyn ServerCertVerifier>) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(airlock_tls::provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
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
