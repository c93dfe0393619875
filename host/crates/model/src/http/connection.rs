//! Connections to a service: TLS, its authority, and a proxy.

use std::{path::Path, time::Duration};

use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::{BadProvider, Service};
use airlock_core::secret::Secret;
use airlock_egress::https::{HttpProxy, HttpsClient, HttpsSettings};

/// Maximum size of a file of certificates, in bytes, so that a path to another file by mistake does
/// not fill the memory. The system's whole store has a quarter of a megabyte.
const MAX_CA_BYTES: u64 = 4 << 20;

/// Creates a client for a service, or for another address that belongs to it.
pub(crate) fn https_client(
    provider: &str,
    service: &Service,
    is_tls: bool,
    connect_timeout: Duration,
) -> Result<HttpsClient, BadProvider> {
    let settings = HttpsSettings {
        is_tls,
        connect_timeout,
        proxy: service.proxy.as_ref().map(|url| proxy(provider, url)).transpose()?,
        authorities: certificates(provider, service)?,
    };
    let http = HttpsClient::new(settings);
    http.map_err(|cause| BadProvider::Client { provider: provider.to_owned(), cause })
}

/// Returns the proxy of a URL.
fn proxy(provider: &str, url: &Secret) -> Result<HttpProxy, BadProvider> {
    HttpProxy::parse(url.expose()).map_err(|_| BadProvider::Proxy { provider: provider.to_owned() })
}

/// Reads the certificates of a service's authority.
fn certificates(
    provider: &str,
    service: &Service,
) -> Result<Vec<CertificateDer<'static>>, BadProvider> {
    let Some(path) = &service.ca else { return Ok(Vec::new()) };
    read_certificates(path).map_err(|problem| BadProvider::Ca {
        provider: provider.to_owned(),
        path: path.clone(),
        problem,
    })
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.len() > MAX_CA_BYTES {
        return Err(format!("is larger than {} MiB", MAX_CA_BYTES >> 20));
    }
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err("has no certificate in PEM format".to_owned()),
    }
}
