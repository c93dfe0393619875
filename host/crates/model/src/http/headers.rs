//! Headers of every request to a service, and the credentials in its settings, which are redacted.

use std::{cmp::Reverse, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::Url;

use super::base_url::base_url;
use crate::{BadProvider, CloudCredential, Service};
use airlock_core::secret::Secret;

/// Minimum length of a key that is redacted in responses, in bytes. Services on the own network have
/// keys such as `x` or `none`, which occur in every response.
const KEY_BYTES: usize = 8;
/// Minimum length of a word of a configured header that is redacted in responses, in bytes. Shorter
/// ones, such as the name of a beta feature, are no credentials.
const SECRET_BYTES: usize = 16;
/// Headers whose values are no credentials. Their words may occur in every response.
const PUBLIC_HEADERS: [&str; 8] = [
    "accept",
    "accept-language",
    "user-agent",
    "referer",
    "http-referer",
    "x-title",
    "anthropic-beta",
    "anthropic-version",
];
/// Headers that every request has, unless the operator configured others.
const COMMON_HEADERS: [(HeaderName, &str); 3] = [
    (header::ACCEPT, "*/*"),
    (header::USER_AGENT, concat!("airlock/", env!("CARGO_PKG_VERSION"))),
    (header::CONTENT_TYPE, "application/json"),
];

/// Returns the headers of every request: `Host` and the common ones, and those that are configured.
pub(crate) fn service_headers(provider: &str, service: &Service) -> Result<HeaderMap, BadProvider> {
    // All addresses of a service are below its base URL.
    let host = host(&base_url(provider, &service.base_url)?);
    let host = host.into_iter().map(|host| (header::HOST, host));
    let common = COMMON_HEADERS.into_iter();
    let common = common.map(|(name, value)| (name, HeaderValue::from_static(value)));
    let mut headers: HeaderMap = host.chain(common).collect();
    for (name, value) in &service.headers {
        let (name, value) = to_header(name, value).ok_or_else(|| BadProvider::Header {
            provider: provider.to_owned(),
            header: name.clone(),
        })?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns the value of `Host`: without the port of the scheme, which a `Url` leaves out.
fn host(base: &Url) -> Option<HeaderValue> {
    let host = base.host_str()?;
    match base.port() {
        Some(port) => HeaderValue::try_from(format!("{host}:{port}")).ok(),
        None => HeaderValue::from_str(host).ok(),
    }
}

fn to_header(name: &str, value: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let name = name.parse().ok()?;
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// Returns the texts that are redacted: keys, and the words of headers that may be credentials. The longest are first: of one
/// that begins with another, the rest would stay.
pub(super) fn secrets(service: &Service) -> Arc<[Secret]> {
    let of_clouds = service.keys.iter().filter_map(|key| key.cloud.as_ref());
    let of_clouds = of_clouds.flat_map(CloudCredential::sent);
    let keys = service.keys.iter().filter_map(|key| key.value.as_ref());
    let keys = keys.chain(of_clouds).map(Secret::expose);
    let headers = service.headers.iter();
    let headers =
        headers.filter(|(name, _)| !PUBLIC_HEADERS.contains(&name.to_lowercase().as_str()));
    let words = headers.flat_map(|(_, value)| value.expose().split_whitespace());
    let words = words.filter(|word| word.len() >= SECRET_BYTES);
    let mut secrets: Vec<_> = keys.filter(|key| key.len() >= KEY_BYTES).chain(words).collect();
    secrets.sort_unstable_by_key(|secret| Reverse(secret.len()));
    secrets.into_iter().map(Secret::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Api, Key, observer::without_secrets};

    #[test]
    fn every_request_begins_with_its_host_unless_the_operator_configured_another_one() {
        for (url, expected) in [
            ("https://api.example/v1", "api.example"),
            ("https://api.example:443/v1", "api.example"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            let mut service = Service::new(Api::OpenAi, url);
            let headers = service_headers("p", &service).expect("a good URL");
            let first = headers.iter().next().map(|(name, value)| (name.as_str(), value));
            assert_eq!(first, Some(("host", &HeaderValue::from_static(expected))));
            service.headers.insert("Host".to_owned(), Secret::new("other.example"));
            let headers = service_headers("p", &service).expect("a good URL");
            assert_eq!(headers["host"], "other.example");
        }
        let bad = Service::new(Api::OpenAi, "localhost");
        assert!(matches!(service_headers("p", &bad), Err(BadProvider::BaseUrl { .. })));
    }

    #[test]
    fn keys_are_redacted_unless_they_are_too_short_to_be_secret() {
        let mut service = Service::new(Api::OpenAi, "http://localhost/v1");
        service.keys =
            ["x", "ollama", "12345678", ""].map(|text| Key::new("k", Secret::new(text))).to_vec();
        service.keys[0].cloud = Some(CloudCredential::AccessKey {
            access_key: Secret::new("AKIDEXAMPLE"),
            secret_key: Secret::new("secret-key"),
            session_token: Some(Secret::new("session-token")),
        });
        service.headers.insert("x-a".to_owned(), Secret::new("beta-1 Token-of-16-bytes"));
        service.headers.insert("HTTP-Referer".to_owned(), Secret::new("https://a.example/"));
        let secrets = secrets(&service);
        let text = "secret-key session-token index 12345678 ollama beta-1 Token-of-16-bytes https://a.example/".to_owned();
        assert_eq!(
            without_secrets(&secrets, text),
            "*** *** index *** ollama beta-1 *** https://a.example/"
        );
    }

    #[test]
    fn nothing_stays_of_a_key_that_begins_with_another_one() {
        let mut service = Service::new(Api::OpenAi, "http://localhost/v1");
        service.keys =
            ["sk-12345", "sk-12345-and-more"].map(|text| Key::new("k", Secret::new(text))).to_vec();
        service.headers.insert("x-a".to_owned(), Secret::new("sk-12345-and-more-in-a-header"));
        let text = "sk-12345-and-more sk-12345-and-more-in-a-header sk-12345".to_owned();
        assert_eq!(without_secrets(&secrets(&service), text), "*** *** ***");
    }
}
