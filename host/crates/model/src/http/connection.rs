//! Connections to a service: TLS, its authority, the gateway's certificate, and a proxy.

use std::time::Duration;

use crate::{BadProvider, Service};
use airlock_core::secret::Secret;
use airlock_egress::https::{HttpProxy, HttpsClient, HttpsSettings};
use airlock_tls::{IdentitySource, read_certificates};

/// Creates a client for a service, or for another address that belongs to it, which gets the certificate
/// of `identity` if it asks for one.
pub(crate) fn https_client(
    provider: &str,
    service: &Service,
    is_tls: bool,
    connect_timeout: Duration,
    identity: Option<&IdentitySource>,
) -> Result<HttpsClient, BadProvider> {
    let authorities = service.ca.as_deref().map(read_certificates).transpose();
    let authorities = authorities
        .map_err(|cause| BadProvider::Authorities { provider: provider.to_owned(), cause })?;
    let identity = identity.map(IdentitySource::read).transpose();
    let identity =
        identity.map_err(|cause| BadProvider::Identity { provider: provider.to_owned(), cause })?;
    let settings = HttpsSettings {
        is_tls,
        connect_timeout,
        proxy: service.proxy.as_ref().map(|url| proxy(provider, url)).transpose()?,
        authorities: authorities.unwrap_or_default(),
        identity,
    };
    let http = HttpsClient::new(settings);
    http.map_err(|cause| BadProvider::Client { provider: provider.to_owned(), cause })
}

/// Returns the proxy of a URL.
fn proxy(provider: &str, url: &Secret) -> Result<HttpProxy, BadProvider> {
    HttpProxy::parse(url.expose()).map_err(|_| BadProvider::Proxy { provider: provider.to_owned() })
}
