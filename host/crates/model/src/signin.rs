//! Signing in to a service: the step that adds a credential to a finished request.
//!
//! It knows nothing of the API, and runs for every attempt, because some credentials depend on the
//! request or on the time.

#[cfg(feature = "vertex")]
mod access_token;
#[cfg(feature = "vertex")]
mod service_account;
#[cfg(feature = "bedrock")]
mod sigv4;

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use http::{HeaderName, HeaderValue, header, request::Parts};

use super::{
    BadProvider, ModelError,
    http::{HttpClient, SignIn},
    settings::{Api, CloudCredential, Hosting, Key, Service},
};

/// A header that is the same for all requests.
struct StaticHeader {
    name: HeaderName,
    value: HeaderValue,
}

impl StaticHeader {
    /// `None` if the text cannot be sent.
    fn new(name: HeaderName, value: &str) -> Option<Self> {
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        Some(Self { name, value })
    }
}

airlock_strings::debug_fields!(StaticHeader { name });

impl SignIn for StaticHeader {
    fn sign<'a>(
        &'a self,
        _: &'a HttpClient,
        head: &'a mut Parts,
        _: &'a Bytes,
    ) -> BoxFuture<'a, Result<(), ModelError>> {
        head.headers.insert(&self.name, self.value.clone());
        future::ready(Ok(())).boxed()
    }
}

/// Returns the step that signs requests in with a key; `None` for a key without a credential. Reads the
/// file of a service account. Fails if the key cannot be used.
pub(super) fn sign_in(
    provider: &str,
    service: &Service,
    key: &Key,
) -> Result<Option<Box<dyn SignIn>>, BadProvider> {
    if let Some(cloud) = &key.cloud {
        return with_cloud(provider, service, &key.name, cloud).map(Some);
    }
    let Some(value) = &key.value else { return Ok(None) };
    let value = value.expose();
    let header = match (&service.hosting, service.api) {
        (Hosting::Azure { .. }, _) => StaticHeader::new(HeaderName::from_static("api-key"), value),
        (Hosting::Bedrock { .. } | Hosting::Vertex { .. }, _) | (Hosting::Vendor, Api::OpenAi) => {
            StaticHeader::new(header::AUTHORIZATION, &format!("Bearer {value}"))
        }
        (Hosting::Vendor, Api::Anthropic) => {
            StaticHeader::new(HeaderName::from_static("x-api-key"), value)
        }
        (Hosting::Vendor, Api::Gemini) => {
            StaticHeader::new(HeaderName::from_static("x-goog-api-key"), value)
        }
    };
    match header {
        Some(header) => Ok(Some(Box::new(header))),
        None => Err(BadProvider::Key { provider: provider.to_owned(), key: key.name.clone() }),
    }
}

/// Returns the step of a credential of a cloud. Fails for a credential of another host.
fn with_cloud(
    provider: &str,
    service: &Service,
    key: &str,
    cloud: &CloudCredential,
) -> Result<Box<dyn SignIn>, BadProvider> {
    match (&service.hosting, cloud) {
        #[cfg(feature = "vertex")]
        (Hosting::Vertex { .. }, CloudCredential::ServiceAccount(source)) => {
            let account = service_account::ServiceAccount::new(provider, service, key, source)?;
            Ok(Box::new(account))
        }
        #[cfg(feature = "bedrock")]
        (
            Hosting::Bedrock { region },
            CloudCredential::AccessKey { access_key, secret_key, session_token },
        ) => {
            let token = session_token.as_ref();
            let signing = sigv4::AccessKey::new(region, access_key, secret_key, token);
            let signing = signing.ok_or_else(|| BadProvider::Key {
                provider: provider.to_owned(),
                key: key.to_owned(),
            })?;
            Ok(Box::new(signing))
        }
        // A host that is not part of this build is refused before its keys.
        _ => {
            let provider = provider.to_owned();
            Err(BadProvider::CloudCredential { provider, key: key.to_owned() })
        }
    }
}
