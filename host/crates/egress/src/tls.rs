//! Installs the TLS cryptography of outbound connections.

use std::sync::Once;

/// Returns a builder of HTTP clients. Every client of this process is made from it:
/// `reqwest::Client::new` alone panics with the features that Airlock selects, unless a provider is
/// installed.
///
/// rustls takes its cryptography from a process-wide provider. It is `ring`, unless an embedding
/// program has installed another one before.
pub fn client() -> reqwest::ClientBuilder {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // It fails if the embedding program has installed one, which then stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
}
