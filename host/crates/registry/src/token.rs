//! Sign-in at a registry: a token of the service that it names, or user and password.

use reqwest::{
    Method, StatusCode,
    header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE},
};
use serde::Deserialize;
use url::Url;

use crate::{
    challenge::{self, Challenge},
    credential::Credential,
    error::{RegistryError, shown},
    http::{HttpClient, OutgoingRequest, host, read_bounded, refusal},
    reference::is_loopback,
};

/// Maximum size of a response with a token, in bytes: it is read into memory before it is parsed, and the registry
/// chooses its length. The token is sent in a header, for which most servers take 8 KiB.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// A registry that asks for credentials.
pub(crate) struct SignIn<'r> {
    pub(crate) http: &'r HttpClient,
    pub(crate) registry: &'r Url,
    pub(crate) credential: Option<&'r Credential>,
    /// The rights that a token is to have, such as `repository:acme/weather:pull`.
    pub(crate) scope: &'r str,
}

/// Response of a token service.
#[derive(Deserialize)]
struct TokenDocument {
    token: Option<String>,
    access_token: Option<String>,
}

impl SignIn<'_> {
    /// Returns the header `Authorization` that the challenges of a response ask for. Only the scope of this
    /// request is asked for, whatever the challenge names.
    pub(crate) async fn authorization(
        &self,
        headers: &HeaderMap,
    ) -> Result<HeaderValue, RegistryError> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenges = values.filter_map(|value| value.to_str().ok()).flat_map(challenge::parse);
        let mut is_basic = false;
        for challenge in challenges {
            match challenge {
                Challenge::Bearer { realm, service } => {
                    return self.token(&realm, service.as_deref()).await;
                }
                Challenge::Basic => is_basic = true,
            }
        }
        if !is_basic {
            return Err(self.failed("it asks for credentials of no known kind"));
        }
        let header = self.basic(self.registry)?;
        header.ok_or_else(|| {
            self.failed("it needs a user and a password: sign in with `docker login`")
        })
    }

    /// Returns user and password for a server; `None` without a credential. Fails if they would cross a
    /// network over plain HTTP, or go to a service that was named over plain HTTP: an attacker can replace that name.
    fn basic(&self, to: &Url) -> Result<Option<HeaderValue>, RegistryError> {
        let Some(credential) = self.credential else { return Ok(None) };
        if !is_protected(to) {
            return Err(self.failed("a password is not sent over plain HTTP"));
        }
        if !is_protected(self.registry) {
            return Err(self.failed(
                "a password is not sent to a token service that was named over plain HTTP",
            ));
        }
        let header = credential.header();
        header.map(Some).ok_or_else(|| self.failed("user or password cannot be sent"))
    }

    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
    ) -> Result<HeaderValue, RegistryError> {
        let mut url = Url::parse(realm)
            .map_err(|_| self.failed("the address of its token service is not a URL"))?;
        self.http.check_named(self.registry, &url)?;
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", service);
        }
        url.query_pairs_mut().append_pair("scope", self.scope);
        let basic = self.basic(&url)?;
        let request = OutgoingRequest::new(Method::GET, url.clone());
        let response = self.http.send(request, basic.as_ref()).await?;
        if response.status() != StatusCode::OK {
            let refusal = refusal(&url, response, "token").await;
            return Err(self.failed(&format!("{} refuses a {refusal}", host(&url))));
        }
        let body = read_bounded(&url, response, "the token", MAX_TOKEN_BYTES).await?;
        let document: Option<TokenDocument> = serde_json::from_slice(&body).ok();
        let token = document.and_then(|document| document.token.or(document.access_token));
        let header = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
        let mut header =
            header.ok_or_else(|| self.failed(&format!("{} returned no token", host(&url))))?;
        header.set_sensitive(true);
        Ok(header)
    }

    fn failed(&self, reason: &str) -> RegistryError {
        RegistryError::SignIn { host: host(self.registry), reason: shown(reason) }
    }
}

/// Returns whether an exchange with a server cannot be read or changed on a network.
fn is_protected(url: &Url) -> bool {
    url.scheme() == "https" || url.host().is_some_and(|host| is_loopback(&host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::PlainHttp;

    #[test]
    fn a_password_goes_neither_over_plain_http_nor_to_a_service_that_was_named_over_it() {
        let credential = Credential::new("ann", "hush");
        for (registry, service, is_sent) in [
            ("https://r.example/", "https://auth.example/token", true),
            ("http://localhost:5000/", "http://localhost:5001/token", true),
            ("http://localhost:5000/", "https://auth.example/token", true),
            ("http://r.example/", "https://auth.example/token", false),
            ("http://r.example/", "http://localhost:5001/token", false),
            ("http://localhost:5000/", "http://auth.example/token", false),
        ] {
            let registry = Url::parse(registry).expect("a URL");
            let service = Url::parse(service).expect("a URL");
            let http = HttpClient::new(&registry, PlainHttp::Anywhere).expect("a client");
            let mut sign_in = SignIn {
                http: &http,
                registry: &registry,
                credential: Some(&credential),
                scope: "",
            };
            let found = sign_in.basic(&service);
            assert_eq!(found.is_ok_and(|header| header.is_some()), is_sent, "{registry} {service}");
            sign_in.credential = None;
            assert!(sign_in.basic(&service).is_ok_and(|header| header.is_none()));
        }
    }
}
