//! The settings of TLS.

use std::{io, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::location::{ServerTls, ServerUrl};

/// Returns what makes TLS of a connection; `None` for connections in plain text. Fails if the
/// certificates cannot be read.
pub(super) fn connector(url: &ServerUrl) -> io::Result<Option<MakeRustlsConnect>> {
    let authorities = match url.tls() {
        ServerTls::Off => return Ok(None),
        ServerTls::Verified { authorities } => authorities.as_deref(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let config = match authorities {
        Some(path) => builder.with_root_certificates(read(path)?).with_no_client_auth(),
        None => builder
            .with_platform_verifier()
            .map_err(|cause| without_authorities(&cause))?
            .with_no_client_auth(),
    };
    Ok(Some(MakeRustlsConnect::new(config)))
}

/// Returns the error of a system that has no certificates of authorities.
fn without_authorities(cause: &rustls::Error) -> io::Error {
    io::Error::other(format!(
        "{cause}: install the package `ca-certificates`, or name a file of authorities with sslrootcert"
    ))
}

/// Reads the certificates of authorities.
fn read(path: &Path) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| named(path, &error.to_string()))?;
    let (added, _) = store.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(named(path, "it has no certificate of an authority"));
    }
    Ok(store)
}

fn named(path: &Path, reason: &str) -> io::Error {
    io::Error::other(format!("sslrootcert {} cannot be used: {reason}", path.display()))
}
