//! Settings of a server that is reached over HTTP.

use std::collections::BTreeMap;

use reqwest::{Url, redirect::Policy};

use super::{
    super::{
        limits::{HTTP_CONNECT_TIMEOUT, HTTP_IDLE_TIMEOUT},
        oauth::Oauth,
        secrets::Secrets,
    },
    authorities::Authorities,
    extra::ExtraHeaders,
};
use airlock_core::secret::Secret;
use airlock_egress::{Guard, tls};
use airlock_strings::with_causes;

/// Reason that the settings of a server over HTTP can never work.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(pub(crate) String);

/// Settings of a server that is reached over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpSettings {
    /// The endpoint.
    pub url: String,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// Headers of callers that are passed on with their calls. They replace `headers` of the same
    /// name.
    pub extra_headers: ExtraHeaders,
    /// Certificates that are trusted in addition to the system's.
    pub authorities: Authorities,
    /// True to permit private addresses although the URL's host is neither one nor `localhost`.
    pub allow_private: bool,
    /// Authorization with OAuth; `None` for a server that needs no more than `headers`.
    pub oauth: Option<Oauth>,
}

impl HttpSettings {
    /// Creates the settings of an endpoint without headers.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Builds the HTTP client for the server at `url`, the parsed one, or for its authorization servers.
    /// It takes no proxy from the environment, and reaches private networks only if the settings
    /// permit it.
    pub(crate) fn client(
        &self,
        url: &Url,
        redirects: Policy,
    ) -> Result<(reqwest::Client, Guard), InvalidSettings> {
        let invalid = InvalidSettings;
        let host = url.host().ok_or_else(|| invalid("the URL has no host".to_owned()))?;
        let guard = Guard::new(&host, self.allow_private)
            .map_err(|error| invalid(format!("the URL cannot be used: {error}")))?;
        let certificates = self.authorities.read();
        let certificates = certificates.map_err(|error| invalid(with_causes(&error)))?;
        let mut builder = tls::client()
            .dns_resolver(guard.clone())
            .no_proxy()
            .connect_timeout(HTTP_CONNECT_TIMEOUT)
            .pool_idle_timeout(HTTP_IDLE_TIMEOUT)
            .tcp_nodelay(true)
            .referer(false)
            .redirect(redirects);
        if !certificates.is_empty() {
            builder = builder.tls_certs_merge(certificates);
        }
        let client = builder.build();
        let client =
            client.map_err(|error| invalid(format!("no HTTP client: {}", with_causes(&error))))?;
        Ok((client, guard))
    }

    /// Returns the secrets of the requests.
    pub(crate) fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::in_requests(&self.url, &self.headers);
        let secret = self.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        secrets.add("oauth_config.client_secret", secret.map_or("", Secret::expose));
        secrets
    }
}
