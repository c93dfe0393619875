//! The endpoints of an issuer, from its metadata (OIDC Discovery 1.0, section 3; RFC 8414).

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{self, Instant};
use url::Url;

use super::{LoginError, unavailable};
use crate::{
    fetch::{FetchError, IssuerDocuments, TIMEOUT, named_url},
    json::Object,
};

/// Time for which metadata is kept.
const LIFETIME: Duration = Duration::from_mins(10);
/// Time after a failed fetch in which no other one begins: logins fail at once meanwhile. Anyone can begin
/// a login.
const PAUSE: Duration = Duration::from_secs(5);
/// Parameters of an authorization request that an issuer may not have set in the URL of its endpoint.
const OWN_PARAMETERS: [&str; 13] = [
    "response_type",
    "response_mode",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "request",
    "request_uri",
    "prompt",
    "claims",
];

/// The parts of an issuer's metadata that are about logins.
#[derive(Debug)]
pub(super) struct LoginMetadata {
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) authentication: ClientAuthentication,
    /// True if every redirect of the issuer has `iss` (RFC 9207).
    pub(super) names_itself: bool,
}

/// Way in which a client with a secret authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuthentication {
    /// In the header, which every issuer supports unless it says otherwise.
    Basic,
    /// In the body.
    Post,
}

/// Keeps the metadata of an issuer for some time.
pub(super) struct ProviderCache {
    documents: IssuerDocuments,
    state: Mutex<ProviderState>,
}

#[derive(Default)]
struct ProviderState {
    fetched: Option<(Arc<LoginMetadata>, Instant)>,
    /// The newest failure, until a fetch succeeds.
    failure: Option<(String, Instant)>,
}

impl ProviderCache {
    pub(super) fn new(documents: IssuerDocuments) -> Self {
        Self { documents, state: Mutex::default() }
    }

    /// Returns the metadata. Fetches it if there is none, or if it is too old. The caller bounds the number
    /// of calls at the same time, each of which may fetch.
    pub(super) async fn current(&self) -> Result<Arc<LoginMetadata>, LoginError> {
        if let Some(known) = self.state.lock().known(Instant::now()) {
            return known;
        }
        let fetching = time::timeout(TIMEOUT, self.documents.metadata(read));
        let fetched = fetching.await.unwrap_or(Err(FetchError::Timeout)).map(Arc::new);
        let now = Instant::now();
        let mut state = self.state.lock();
        match fetched {
            Ok(provider) => {
                state.fetched = Some((provider.clone(), now));
                state.failure = None;
                Ok(provider)
            }
            Err(error) => {
                state.failure = Some((airlock_strings::with_causes(&error), now));
                Err(unavailable(&error))
            }
        }
    }
}

impl ProviderState {
    /// Returns the kept metadata, or a failure of a moment ago; `None` if a fetch is due.
    fn known(&self, now: Instant) -> Option<Result<Arc<LoginMetadata>, LoginError>> {
        let fetched = self.fetched.as_ref().filter(|(_, at)| now < *at + LIFETIME);
        if let Some((provider, _)) = fetched {
            return Some(Ok(provider.clone()));
        }
        let failure = self.failure.as_ref().filter(|(_, at)| now < *at + PAUSE);
        failure.map(|(reason, _)| Err(LoginError::Unavailable(reason.clone())))
    }
}

/// Reads metadata.
fn read(issuer: &Url, metadata: &Object) -> Result<LoginMetadata, FetchError> {
    let authorization_endpoint = endpoint(issuer, metadata, "authorization_endpoint")?;
    if authorization_endpoint.query_pairs().any(|(name, _)| OWN_PARAMETERS.contains(&&*name)) {
        return Err(FetchError::Endpoint("authorization_endpoint"));
    }
    Ok(LoginMetadata {
        authorization_endpoint,
        token_endpoint: endpoint(issuer, metadata, "token_endpoint")?,
        authentication: authentication(metadata),
        names_itself: metadata.get("authorization_response_iss_parameter_supported")
            == Some(&Value::Bool(true)),
    })
}

fn endpoint(issuer: &Url, metadata: &Object, name: &'static str) -> Result<Url, FetchError> {
    let url = metadata.get(name).and_then(|url| named_url(issuer, url));
    url.ok_or(FetchError::Endpoint(name))
}

fn authentication(metadata: &Object) -> ClientAuthentication {
    if supports(metadata, "client_secret_post") && !supports(metadata, "client_secret_basic") {
        ClientAuthentication::Post
    } else {
        ClientAuthentication::Basic
    }
}

/// Returns whether the issuer lists a method of authentication at its token endpoint.
fn supports(metadata: &Object, method: &str) -> bool {
    let methods = metadata.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    methods.is_some_and(|methods| methods.iter().any(|known| known == method))
}
