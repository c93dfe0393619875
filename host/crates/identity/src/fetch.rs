//! Fetches the metadata and the key set of the issuer.
//!
//! The issuer is trusted to name its keys, and with nothing more: every response is bounded in size
//! and time, and no response leads to an unencrypted address.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use reqwest::{Client, ClientBuilder, Response, redirect, retry};
use serde_json::Value;
use tokio::time;
use url::Url;

use crate::{
    endpoint::endpoint,
    json::{self, DOCUMENT_MEMORY, Object},
    key_set::{BadKeySet, KeySet},
};

/// Time limit for all requests of one fetch together.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of a document of the issuer: [`MAX_KEYS`](crate::key_set::MAX_KEYS) RSA keys of the
/// largest size take 150 KB, without their certificates.
pub(crate) const MAX_BODY_BYTES: usize = 256 * 1024;
/// Maximum number of redirects of one request, all to the same origin. They may form a cycle, and
/// issuers have one for a slash at the end.
const MAX_REDIRECTS: usize = 3;
/// Minimum time that a key set is kept, whatever the issuer asks for. Otherwise `no-store` would
/// cause a fetch for each request.
const MIN_LIFETIME: Duration = Duration::from_mins(1);
/// Maximum time that a key set is kept, whatever the issuer asks for. A key that the issuer removes
/// stops working after it.
const MAX_LIFETIME: Duration = Duration::from_hours(24);
/// Time that a key set is kept if the issuer does not say it.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(10);

/// The documents of an issuer.
pub(crate) struct IssuerDocuments {
    client: Client,
    issuer: String,
    url: Url,
}

/// Source of the key set.
pub(crate) struct KeySource {
    documents: IssuerDocuments,
    /// URL of the keys, if it is configured.
    jwks: Option<Url>,
}

/// A key set as the issuer sent it.
pub(crate) struct FetchedKeys {
    pub(crate) keys: KeySet,
    /// Time for which it is kept.
    pub(crate) lifetime: Duration,
}

/// Reason that no key set was fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("the issuer did not respond within {TIMEOUT:?}")]
    Timeout,
    #[error("the request to the issuer failed")]
    Transport(#[source] reqwest::Error),
    #[error("the issuer responded with status {0}")]
    Status(StatusCode),
    #[error("the response of the issuer is not declared as JSON")]
    ContentType,
    #[error("the response of the issuer is larger than {MAX_BODY_BYTES} bytes")]
    TooLarge,
    #[error("the metadata of the issuer is not a JSON object, or has duplicate members")]
    Metadata,
    #[error("the metadata is that of another issuer")]
    OtherIssuer,
    #[error("the metadata of the issuer has no safe `jwks_uri`")]
    JwksUri,
    #[error("the metadata of the issuer has no safe `{0}`")]
    Endpoint(&'static str),
    #[error(transparent)]
    KeySet(#[from] BadKeySet),
}

impl KeySource {
    /// Creates a source. `jwks` is the URL of the keys; if absent, the metadata names it.
    pub(crate) fn new(documents: IssuerDocuments, jwks: Option<Url>) -> Self {
        Self { documents, jwks }
    }

    /// Fetches the key set, and before it the metadata that names its URL, unless that is
    /// configured. The metadata is not kept, so that an issuer may move its keys.
    pub(crate) async fn fetch(&self) -> Result<FetchedKeys, FetchError> {
        let all = async {
            match &self.jwks {
                Some(url) => self.fetch_keys(url).await,
                None => self.fetch_keys(&self.documents.metadata(keys_of).await?).await,
            }
        };
        time::timeout(TIMEOUT, all).await.unwrap_or(Err(FetchError::Timeout))
    }

    async fn fetch_keys(&self, url: &Url) -> Result<FetchedKeys, FetchError> {
        let (headers, body) = self.documents.get(url).await?;
        Ok(FetchedKeys { keys: KeySet::parse(&body)?, lifetime: lifetime(&headers) })
    }
}

/// Returns the URL of the key set that the metadata of an issuer names.
fn keys_of(issuer: &Url, metadata: &Object) -> Result<Url, FetchError> {
    let jwks_uri = metadata.get("jwks_uri");
    jwks_uri.and_then(|uri| named_url(issuer, uri)).ok_or(FetchError::JwksUri)
}

impl IssuerDocuments {
    /// Prepares requests to the issuer with this identifier. Certificates and proxies are those of
    /// `client`; redirects, retries and compression are not.
    pub(crate) fn new(issuer: &str, url: Url, client: ClientBuilder) -> reqwest::Result<Self> {
        let client = plain(client).redirect(redirect::Policy::custom(same_origin)).build()?;
        Ok(Self { client, issuer: issuer.to_owned(), url })
    }

    /// Reads the first metadata document that is valid. `read` also gets the URL of the issuer. The
    /// caller bounds the time.
    pub(crate) async fn metadata<T>(
        &self,
        read: impl Fn(&Url, &Object) -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        let mut failure = FetchError::Metadata;
        for url in metadata_urls(&self.url) {
            let document = self.read_metadata(&url).await;
            match document.and_then(|document| read(&self.url, &document)) {
                // The issuer is not reachable, and is not asked again.
                Err(error @ FetchError::Transport(_)) => return Err(error),
                Err(error) => failure = error,
                found => return found,
            }
        }
        Err(failure)
    }

    async fn read_metadata(&self, url: &Url) -> Result<Object, FetchError> {
        let (_, body) = self.get(url).await?;
        let metadata = json::object(&body, DOCUMENT_MEMORY).ok_or(FetchError::Metadata)?;
        // RFC 8414, section 3.3: otherwise one issuer could speak for another one.
        if metadata.get("issuer").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(FetchError::OtherIssuer);
        }
        Ok(metadata)
    }

    async fn get(&self, url: &Url) -> Result<(HeaderMap, Vec<u8>), FetchError> {
        let request = self.client.get(url.clone()).header(header::ACCEPT, "application/json");
        let response = request.send().await.map_err(FetchError::Transport)?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        if !is_json(response.headers()) {
            return Err(FetchError::ContentType);
        }
        let headers = response.headers().clone();
        Ok((headers, read_body(response).await?))
    }
}

/// Returns a client without retries and compression.
pub(crate) fn plain(client: ClientBuilder) -> ClientBuilder {
    client.retry(retry::never()).referer(false).no_gzip().no_brotli().no_zstd().no_deflate()
}

/// Reads the body of a response of the issuer. Fails if it is larger than [`MAX_BODY_BYTES`].
pub(crate) async fn read_body(mut response: Response) -> Result<Vec<u8>, FetchError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(FetchError::Transport)? {
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Follows a redirect if it stays at the origin of the request. Otherwise the redirect itself is
/// the response, which is refused for its status.
fn same_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let stays =
        attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if stays && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Returns a URL of the issuer's metadata if it is safe.
pub(crate) fn named_url(issuer: &Url, url: &Value) -> Option<Url> {
    let url = url.as_str().and_then(endpoint)?;
    // `endpoint` accepts `http` on this machine, which is safe only if the issuer is there too.
    (url.scheme() == "https" || issuer.scheme() == "http").then_some(url)
}

/// Returns the places of an issuer's metadata, in the order that MCP gives: RFC 8414, then OIDC
/// with the path of the issuer after and before the well-known part.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut urls: Vec<_> = [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
        format!("{path}/.well-known/openid-configuration"),
    ]
    .iter()
    .map(|path| {
        let mut url = issuer.clone();
        url.set_path(path);
        url
    })
    .collect();
    urls.dedup();
    urls
}

/// Returns whether a response is declared as JSON, such as `application/jwk-set+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/").unwrap_or_default();
    subtype == "json" || subtype.ends_with("+json")
}

/// Returns the time that a response is kept, by `Cache-Control` and within our limits.
fn lifetime(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(header::CACHE_CONTROL).iter();
    let directives =
        values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut lifetime = DEFAULT_LIFETIME;
    for directive in directives.map(|directive| directive.trim().to_ascii_lowercase()) {
        if directive == "no-store" || directive == "no-cache" {
            return MIN_LIFETIME;
        }
        let seconds = directive.strip_prefix("max-age=").map(|seconds| seconds.trim_matches('"'));
        if let Some(seconds) = seconds
            && seconds.bytes().all(|byte| byte.is_ascii_digit())
        {
            // RFC 9111, section 1.2.2: a number that is too great means a very long time.
            lifetime = Duration::from_secs(seconds.parse().unwrap_or(u64::MAX));
        }
    }
    lifetime.clamp(MIN_LIFETIME, MAX_LIFETIME)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: &header::HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_key_set_is_kept_for_max_age_within_a_minute_and_a_day() {
        for (values, seconds) in [
            (&[][..], 600),
            (&["public"], 600),
            (&["max-age=59"], 60),
            (&["max-age=0"], 60),
            (&["max-age=61"], 61),
            (&["public, Max-Age=3600, must-revalidate"], 3600),
            (&["public", "max-age=\"120\""], 120),
            (&["max-age=86400"], 86400),
            (&["max-age=86401"], 86400),
            (&["max-age=99999999999999999999999999"], 86400),
            (&["max-age=-1"], 600),
            (&["max-age=1e9"], 600),
            (&["max-age"], 600),
            (&["s-maxage=7200"], 600),
            (&["no-store, max-age=7200"], 60),
            (&["max-age=7200", "no-cache"], 60),
        ] {
            let lifetime = lifetime(&headers(&header::CACHE_CONTROL, values));
            assert_eq!(lifetime, Duration::from_secs(seconds), "{values:?}");
        }
    }

    #[test]
    fn only_json_types_are_accepted() {
        for accepted in
            ["application/json", "Application/JSON ; charset=utf-8", "application/jwk-set+json"]
        {
            assert!(is_json(&headers(&header::CONTENT_TYPE, &[accepted])), "{accepted}");
        }
        assert!(!is_json(&HeaderMap::new()));
        for refused in ["", "text/html", "text/json", "application/jsonp", "text/x+json", "json"] {
            assert!(!is_json(&headers(&header::CONTENT_TYPE, &[refused])), "{refused}");
        }
    }

    #[test]
    fn metadata_is_looked_for_in_three_places() {
        insta::assert_snapshot!(urls("https://idp.example.com/realms/a%20b/"), @r"
        https://idp.example.com/.well-known/oauth-authorization-server/realms/a%20b
        https://idp.example.com/.well-known/openid-configuration/realms/a%20b
        https://idp.example.com/realms/a%20b/.well-known/openid-configuration
        ");
        insta::assert_snapshot!(urls("https://idp.example.com"), @r"
        https://idp.example.com/.well-known/oauth-authorization-server
        https://idp.example.com/.well-known/openid-configuration
        ");
    }

    fn urls(issuer: &str) -> String {
        let urls = metadata_urls(&Url::parse(issuer).expect("a URL"));
        urls.iter().map(Url::as_str).collect::<Vec<_>>().join("\n")
    }
}
