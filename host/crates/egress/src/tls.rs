//! Installs the TLS cryptography of outbound connections.

use std::sync::Once;

/// Returns a builder of HTTP clients. Every client of this process is made from it, or by
/// [`HttpsClient`](crate::https::HttpsClient): `reqwest::Client::new` alone panics with the features
/// that Airlock selects, unless a provider is installed.
pub fn client() -> reqwest::ClientBuilder {
    install_provider();
    reqwest::Client::builder()
}

/// Installs the cryptography of rustls, which takes it from a process-wide provider. It is `ring`,
/// unless an embedding program has installed another one before.
pub(crate) fn install_provider() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // It fails if the embedding program has installed one, which then stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
