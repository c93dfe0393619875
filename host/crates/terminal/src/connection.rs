//! Connections of commands to a running gateway.

use std::path::Path;

use anyhow::Context as _;
use reqwest::{ClientBuilder, Url};

use airlock_config::environment;
use airlock_egress::tls;
use airlock_tls::{BadIdentity, IdentitySource, KeySource, read_certificates};

/// Environment variable with the PEM file of the certificate that commands show to a gateway that asks for
/// one.
const CERTIFICATE_VARIABLE: &str = "AIRLOCK_CLIENT_CERTIFICATE";
/// Environment variable with the PEM file of its private key.
const KEY_VARIABLE: &str = "AIRLOCK_CLIENT_KEY";

/// Certificate by which a gateway over HTTPS is trusted.
#[derive(Debug, Clone, Copy)]
pub enum GatewayTrust<'c> {
    /// Any for its name that an authority of the operating system has signed.
    Authorities,
    /// The one in this file, which the configuration names: the gateway is reached by an address, which need
    /// not be in the certificate.
    Certificate(&'c Path),
}

/// Returns a builder of the client for a gateway at `url`. A gateway that asks for a certificate gets that of
/// the environment. With one, the client takes no proxy from the environment, which could get it too. Fails
/// if a certificate cannot be used.
pub fn http(url: &Url, trust: GatewayTrust<'_>) -> anyhow::Result<ClientBuilder> {
    if url.scheme() != "https" {
        return Ok(tls::client());
    }
    let config = match trust {
        GatewayTrust::Authorities => tls::client_config(Vec::new()),
        GatewayTrust::Certificate(path) => {
            let mut certificates =
                read_certificates(path).context("the certificate of the gateway is unknown")?;
            tls::pinned_config(certificates.swap_remove(0))
        }
    };
    let config = config.context("no certificate can be checked")?;
    let Some(source) = identity()? else { return Ok(tls::client_with(config)) };
    let identity = source.read().map_err(|error| {
        let variable = match &error {
            BadIdentity::Certificate(_) => CERTIFICATE_VARIABLE,
            BadIdentity::Key(_) => KEY_VARIABLE,
        };
        anyhow::Error::from(error).context(format!("{variable} cannot be used"))
    })?;
    Ok(tls::client_with(tls::identified(&config, &identity)).no_proxy())
}

/// Returns the certificate that the environment names; `None` if it names none.
fn identity() -> anyhow::Result<Option<IdentitySource>> {
    let [certificate, key] = [CERTIFICATE_VARIABLE, KEY_VARIABLE]
        .map(|name| environment(name).filter(|path| !path.is_empty()));
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let key = KeySource::File(key.into());
            Ok(Some(IdentitySource { certificate: certificate.into(), key }))
        }
        _ => anyhow::bail!(
            "set both {CERTIFICATE_VARIABLE} and {KEY_VARIABLE}, the PEM files of a certificate and of its private key, or neither"
        ),
    }
}
