//! The HTTP client: bounded, without automatic redirects.

use std::time::Duration;

use airlock_egress::tls;
use bytes::Bytes;
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION},
};
use serde::Deserialize;
use url::Url;

use crate::{
    error::{RegistryError, shown},
    named_hosts::NamedHosts,
    reference::is_loopback,
};

/// Time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of a server.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a request with its response. At 64 MiB, the largest component, it is 110 KiB/s.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum redirects of one request. They may form a cycle; registries have one, to the storage of their blobs.
const MAX_REDIRECTS: usize = 5;
/// Maximum size of the response to a refused request, in bytes: it is read whole for its message.
const MAX_REFUSAL_BYTES: u64 = 16 << 10;

/// Servers that are reached over plain HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Those of this machine.
    #[default]
    Loopback,
    /// Any server that is named with it.
    Anywhere,
}

/// A client of one server, and of those that it redirects to.
pub(crate) struct HttpClient {
    client: Client,
    hosts: NamedHosts,
    plain: PlainHttp,
}

/// A request, without a credential.
#[derive(Clone)]
pub(crate) struct OutgoingRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: Option<&'static str>,
    /// Body, with its media type.
    pub(crate) body: Option<(&'static str, Bytes)>,
}

impl OutgoingRequest {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        Self { method, url, accept: None, body: None }
    }
}

impl HttpClient {
    /// Creates the client of the server of a URL. Fails if the URL is not permitted.
    pub(crate) fn new(url: &Url, plain: PlainHttp) -> Result<Self, RegistryError> {
        let Some(url_host) = url.host() else {
            return Err(RegistryError::Address(shown(url.as_str())));
        };
        let hosts = NamedHosts::new(&url_host)
            .map_err(|_| RegistryError::Unreachable(shown(&url_host.to_string())))?;
        Self::with_hosts(url, plain, hosts)
    }

    /// Does the same as [`Self::new`], with this resolver.
    pub(crate) fn with_hosts(
        url: &Url,
        plain: PlainHttp,
        hosts: NamedHosts,
    ) -> Result<Self, RegistryError> {
        let mut client = tls::client_without_redirects();
        if url.host().is_some_and(|host| is_loopback(&host)) {
            client = client.no_proxy();
        }
        let client = client
            .dns_resolver(hosts.clone())
            .user_agent(concat!("airlock/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .timeout(TIMEOUT)
            .build()
            .map_err(RegistryError::Client)?;
        let client = Self { client, hosts, plain };
        client.check(url)?;
        Ok(client)
    }

    /// Fails unless a URL may be reached: over HTTPS, or as plain HTTP is permitted.
    pub(crate) fn check(&self, url: &Url) -> Result<(), RegistryError> {
        let has_user = !url.username().is_empty() || url.password().is_some();
        let Some(url_host) = url.host().filter(|_| !has_user) else {
            return Err(RegistryError::Address(shown(&without_user(url))));
        };
        match url.scheme() {
            "https" => Ok(()),
            "http" if is_loopback(&url_host) || self.plain == PlainHttp::Anywhere => Ok(()),
            "http" => Err(RegistryError::PlainHttp { host: host(url) }),
            _ => Err(RegistryError::Address(shown(url.as_str()))),
        }
    }

    /// Fails unless a place that a server names may be reached: as [`Self::check`] does, and no server of
    /// the internet leads to a private address. The addresses of a name are checked when it is dialled.
    pub(crate) fn check_named(&self, from: &Url, to: &Url) -> Result<(), RegistryError> {
        if from.scheme() == "https" && to.scheme() != "https" {
            return Err(redirect(from, format!("{} is not reached over HTTPS", host(to))));
        }
        self.check(to).map_err(|error| redirect(from, error.to_string()))?;
        if to.host().is_some_and(|named| self.hosts.admit(&named)) {
            Ok(())
        } else {
            Err(redirect(from, format!("{} has a private address", host(to))))
        }
    }

    /// Sends a request, and returns the response as soon as its head has arrived.
    pub(crate) async fn send(
        &self,
        request: OutgoingRequest,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, RegistryError> {
        let from = request.url.clone();
        let sent = self.builder(request, authorization).send().await;
        sent.map_err(|error| transport(&from, error))
    }

    fn builder(
        &self,
        request: OutgoingRequest,
        authorization: Option<&HeaderValue>,
    ) -> RequestBuilder {
        let OutgoingRequest { method, url, accept, body } = request;
        let mut builder = self.client.request(method, url);
        if let Some(accept) = accept {
            builder = builder.header(ACCEPT, accept);
        }
        if let Some(authorization) = authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        match body {
            Some((media_type, bytes)) => builder.header(CONTENT_TYPE, media_type).body(bytes),
            None => builder,
        }
    }

    /// Follows the redirects of a response to a GET. A credential is sent only to the server that it is for,
    /// which is that of `from`.
    pub(crate) async fn follow(
        &self,
        from: &Url,
        first: Response,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, RegistryError> {
        let mut at = from.clone();
        let mut response = first;
        for _ in 0..MAX_REDIRECTS {
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            let to = location(&at, &response)?;
            self.check_named(&at, &to)?;
            let own = authorization.filter(|_| to.origin() == from.origin());
            response = self.send(OutgoingRequest::new(Method::GET, to.clone()), own).await?;
            at = to;
        }
        Err(redirect(from, format!("more than {MAX_REDIRECTS} in a row")))
    }
}

fn redirect(from: &Url, reason: String) -> RegistryError {
    RegistryError::Redirect { host: host(from), reason }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns the place that the header `Location` of a response names.
pub(crate) fn location(from: &Url, response: &Response) -> Result<Url, RegistryError> {
    let named = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let named = named.and_then(|text| from.join(text).ok());
    named.ok_or_else(|| redirect(from, "it is not a URL".to_owned()))
}

/// Reads the body of a response. Fails as soon as it is larger than the limit.
pub(crate) async fn read_bounded(
    from: &Url,
    mut response: Response,
    what: &str,
    limit: u64,
) -> Result<Vec<u8>, RegistryError> {
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(RegistryError::TooLarge { what: what.to_owned(), limit });
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| transport(from, error))? {
        if (body.len() + chunk.len()) as u64 > limit {
            return Err(RegistryError::TooLarge { what: what.to_owned(), limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Errors of a registry, as the protocol defines them.
#[derive(Deserialize)]
struct ErrorDocument {
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Returns the error of a response that refuses a step, with the message of the server.
pub(crate) async fn refusal(from: &Url, response: Response, what: &str) -> RegistryError {
    let status = response.status().as_u16();
    let body = read_bounded(from, response, "the refusal", MAX_REFUSAL_BYTES).await;
    let document = body.ok().and_then(|body| serde_json::from_slice::<ErrorDocument>(&body).ok());
    let entry = document.and_then(|document| document.errors.into_iter().next());
    let detail = entry
        .map(|entry| format!(": {}", shown(&format!("{} {}", entry.code, entry.message))))
        .unwrap_or_default();
    RegistryError::Refused { what: what.to_owned(), status, detail }
}

/// Returns the host of a URL with its port, for a message.
pub(crate) fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => shown(&format!("{name}:{port}")),
        None => shown(name),
    }
}

fn without_user(url: &Url) -> String {
    format!("{}://{}", url.scheme(), host(url))
}

fn transport(from: &Url, error: reqwest::Error) -> RegistryError {
    RegistryError::Transport { host: host(from), source: error.without_url() }
}
