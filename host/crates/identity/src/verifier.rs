//! Verifies access tokens.

use std::{sync::Arc, time::SystemTime};

use http::HeaderValue;
use reqwest::ClientBuilder;
use serde_json::Value;
use url::Url;

use crate::{
    challenge,
    claims::{self, Principal},
    fetch::{IssuerDocuments, KeySource},
    jws::Jws,
    key_cache::{KeyCache, KeysUnavailable},
    metadata,
    part::ResourcePart,
    refusal::TokenRefusal,
    settings::{BadSettings, TokenApis, VerifierSettings},
    verified,
};

/// Verifies access tokens of one issuer, and describes this gateway to OAuth clients.
///
/// The issuer's keys are fetched with the first token and kept for the time that the issuer's
/// `Cache-Control` gives, but at least a minute and at most a day (10 minutes if it gives none).
/// A token that no key fits causes a new fetch, at most every 30 seconds. If a fetch fails, the old
/// keys stay in use for up to 24 hours beyond their time, and the fetch is repeated every 30
/// seconds. Without usable keys, tokens are refused and the fetch is repeated every 5 seconds.
///
/// So a key that the issuer removes stops working after `max-age`, or at most 24 hours later if the
/// issuer is not reachable.
pub struct Verifier {
    settings: VerifierSettings,
    resource: Url,
    keys: Arc<KeyCache>,
}

/// Reason that there is no verifier.
#[derive(Debug, thiserror::Error)]
pub enum VerifierError {
    /// The settings are incomplete or unsafe.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// The HTTP client cannot be built.
    #[error("the HTTP client for the issuer cannot be created")]
    Client(#[source] reqwest::Error),
}

impl Verifier {
    /// Creates a verifier. `client` has the certificates and proxies for requests to the issuer;
    /// the verifier limits its redirects, size and time. Nothing is fetched yet.
    pub fn new(settings: VerifierSettings, client: ClientBuilder) -> Result<Self, VerifierError> {
        settings.check()?;
        let endpoints = settings.endpoints()?;
        let documents = IssuerDocuments::new(&settings.issuer, endpoints.issuer, client);
        let source = KeySource::new(documents.map_err(VerifierError::Client)?, endpoints.jwks);
        let keys = Arc::new(KeyCache::new(source));
        Ok(Self { settings, resource: endpoints.resource, keys })
    }

    /// Creates a verifier with other settings. It has the keys that were fetched already if they are those
    /// of the same issuer, so that an issuer that is away at the moment does not matter. Fails as
    /// [`Self::new`] does.
    pub fn with_settings(
        &self,
        settings: VerifierSettings,
        client: ClientBuilder,
    ) -> Result<Self, VerifierError> {
        let has_same_keys = (&settings.issuer, &settings.jwks_uri)
            == (&self.settings.issuer, &self.settings.jwks_uri);
        let new = Self::new(settings, client)?;
        Ok(if has_same_keys { Self { keys: self.keys.clone(), ..new } } else { new })
    }

    /// The settings.
    pub fn settings(&self) -> &VerifierSettings {
        &self.settings
    }

    /// Verifies a token, without the prefix `Bearer`. With a part, a token that is for this part alone is
    /// good too. Waits up to 5 seconds for the issuer's keys. Must be called in a runtime of tokio.
    /// Cancelling it does not cancel the fetch of keys.
    pub async fn verify(
        &self,
        token: &str,
        part: Option<&ResourcePart>,
    ) -> Result<Principal, TokenRefusal> {
        self.verify_at(token, part, SystemTime::now()).await
    }

    /// Verifies a token as of a given time.
    pub(crate) async fn verify_at(
        &self,
        token: &str,
        part: Option<&ResourcePart>,
        now: SystemTime,
    ) -> Result<Principal, TokenRefusal> {
        // The signature comes before the claims, so that only the issuer's tokens learn about them.
        let jws = Jws::parse(token)?;
        self.keys.verify(&jws, &verified::digest(token)).await?;
        claims::principal(&jws, &self.settings, self.known(part), now)
    }

    /// Returns the value of `WWW-Authenticate` for a refused request to the gateway or a part of it, or
    /// for one without a token if there is no refusal. `None` if another token would not help: a status
    /// of 503, or a 403 because of the table of views.
    pub fn challenge(
        &self,
        part: Option<&ResourcePart>,
        refusal: Option<&TokenRefusal>,
    ) -> Option<HeaderValue> {
        if refusal.is_some_and(|refusal| refusal.error().is_none()) {
            return None;
        }
        // The URL follows from the setting `resource`, so that no header of a request changes it.
        let url = metadata::url(&self.resource, self.known(part));
        Some(challenge::challenge(&url, refusal, &self.settings.scopes))
    }

    /// Returns the metadata at a path (RFC 9728), a JSON document for everyone; `None` if there is none.
    pub fn metadata(&self, path: &str) -> Option<Value> {
        metadata::find(&self.settings, &self.resource, path)
    }

    /// APIs that accept tokens.
    pub fn apis(&self) -> TokenApis {
        self.settings.apis
    }

    /// Returns the part, if the resource has any.
    fn known<'p>(&self, part: Option<&'p ResourcePart>) -> Option<&'p ResourcePart> {
        part.filter(|_| metadata::has_parts(&self.settings, &self.resource))
    }
}

airlock_strings::debug_fields!(Verifier { settings });

impl From<KeysUnavailable> for TokenRefusal {
    fn from(unavailable: KeysUnavailable) -> Self {
        Self::Unavailable { retry_after: unavailable.retry_after }
    }
}
