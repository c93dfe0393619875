//! Settings of a server that is reached over HTTP.

use std::collections::BTreeMap;

use super::{
    super::{oauth::Oauth, secrets::Secrets},
    authorities::Authorities,
    extra::ExtraHeaders,
};
use airlock_core::secret::Secret;

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

    /// Returns the secrets of the requests.
    pub(crate) fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::in_requests(&self.url, &self.headers);
        let secret = self.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        secrets.add("oauth_config.client_secret", secret.map_or("", Secret::expose));
        secrets
    }
}
