//! Signing in to a service: its headers with a credential, or the step that adds one to a finished request.
//!
//! It knows nothing of the API. The step runs for every attempt, because some credentials depend on the
//! request or on the time.

#[cfg(feature = "vertex")]
mod access_token;
#[cfg(feature = "vertex")]
mod service_account;
#[cfg(feature = "bedrock")]
mod sigv4;

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};

#[cfg(any(feature = "bedrock", feature = "vertex"))]
use super::settings::Hosting;
use super::{
    BadProvider,
    hosting::key_header,
    http::{SignIn, service_headers},
    settings::{CloudCredential, Key, Service},
};

/// The headers of every request to a service, with a credential that is the same for all.
struct SignedHeaders(HeaderMap);

impl SignedHeaders {
    /// Adds the credential to the headers of a service. Fails if one of them cannot be sent.
    fn new(
        provider: &str,
        service: &Service,
        key: &str,
        credential: (HeaderName, &str),
    ) -> Result<Self, BadProvider> {
        let (name, value) = credential;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| BadProvider::Key { provider: provider.to_owned(), key: key.to_owned() })?;
        value.set_sensitive(true);
        let mut headers = service_headers(provider, service)?;
        headers.insert(name, value);
        Ok(Self(headers))
    }
}

impl fmt::Debug for SignedHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl SignIn for SignedHeaders {
    fn headers(&self) -> Option<&HeaderMap> {
        Some(&self.0)
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
    let bearer = format!("Bearer {value}");
    let name = HeaderName::from_static(key_header(&service.hosting, service.api));
    let value = if name == header::AUTHORIZATION { bearer.as_str() } else { value };
    let signed = SignedHeaders::new(provider, service, &key.name, (name, value))?;
    Ok(Some(Box::new(signed)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Api;
    use airlock_core::secret::Secret;

    #[test]
    fn a_credential_that_never_changes_is_among_the_headers_of_every_request() {
        let service = Service::new(Api::Anthropic, "https://api.example");
        let key = Key::new("k", Secret::new("secret-key"));
        let signed = sign_in("p", &service, &key).expect("a good key").expect("a credential");
        let headers = signed.headers().expect("they never change");
        assert_eq!(headers["x-api-key"], "secret-key");
        assert_eq!(headers["host"], "api.example");
        assert!(!format!("{signed:?}").contains("secret-key"));
        let bad = Key::new("k", Secret::new("a\nb"));
        assert!(matches!(sign_in("p", &service, &bad), Err(BadProvider::Key { .. })));
    }
}
