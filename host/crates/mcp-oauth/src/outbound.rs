//! The HTTP client for authorization servers. Their addresses come from documents that anyone may
//! have written, so every request is checked.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http::{Request, Response};
use reqwest::{Url, redirect};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use tokio::time::timeout;
use url::Host;

use super::{
    http_settings::{HttpSettings, InvalidSettings},
    limits::MAX_URL_BYTES,
};
use airlock_egress::{GuardedResolver, Unreachable};

/// Time for one request with its response.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of a response of an authorization server, in bytes. Documents of real servers
/// have a few thousand.
pub(super) const MAX_BODY_BYTES: usize = 256 << 10;
/// Maximum requests of one login: a document may name any number of authorization servers, each
/// with several places for its metadata.
pub(super) const MAX_REQUESTS: usize = 48;

/// Reason that a request has no response. It names no secret.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The URL is not one to send credentials to.
    #[error("{url} is not used: {reason}")]
    Refused {
        /// The URL without its query.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The documents of the server cause too many requests.
    #[error("the authorization server was not found within {MAX_REQUESTS} requests")]
    TooMany,
    /// The response is too long.
    #[error("the response of {0} has more than {MAX_BODY_BYTES} bytes")]
    TooLong(String),
    /// The response did not come in time.
    #[error("{0} did not respond within {TIMEOUT:?}")]
    TimedOut(String),
    /// The request failed.
    #[error("{url} cannot be reached")]
    Failed {
        /// The URL without its query.
        url: String,
        /// The cause, without a URL.
        #[source]
        cause: reqwest::Error,
    },
}

/// The HTTP client. It follows no redirect, and takes no proxy from the environment.
pub(super) struct Outbound {
    http: reqwest::Client,
    guard: GuardedResolver,
    sent: AtomicUsize,
}

impl Outbound {
    /// Creates the client for the authorization servers of one MCP server. It reaches private
    /// networks only if the MCP server itself is in one by its settings, and uses plain HTTP only for
    /// hosts that are private as they are written. Fails if the URL or the certificates of the settings cannot be used.
    pub(super) fn new(settings: &HttpSettings) -> Result<Self, InvalidSettings> {
        let url = check_server(settings)?;
        // The server chooses its authorization servers, which get no certificate that is for the server alone.
        let (http, guard) = settings.client(&url, redirect::Policy::none(), None)?;
        Ok(Self { http, guard, sent: AtomicUsize::new(0) })
    }

    /// Does the same as [`Self::new`], and blocks no other work. Fails also if the files are not read in time.
    pub(super) async fn open(settings: &HttpSettings) -> Result<Self, InvalidSettings> {
        let opened = timeout(TIMEOUT, settings.with_files(Self::new)).await;
        opened.unwrap_or_else(|_| {
            let reason = format!("the files of `tls_config` were not read within {TIMEOUT:?}");
            Err(InvalidSettings(reason))
        })
    }

    /// Checks a URL to which the browser of the operator is sent.
    pub(super) fn check(&self, url: &str) -> Result<Url, OutboundError> {
        let parsed = Url::parse(url).ok().filter(|_| url.len() <= MAX_URL_BYTES);
        let Some(parsed) = parsed else {
            let reason = format!("it is no URL of at most {MAX_URL_BYTES} bytes");
            return Err(OutboundError::Refused { url: "a URL".to_owned(), reason });
        };
        match check(&self.guard, &parsed) {
            Ok(()) => Ok(parsed),
            Err(reason) => Err(OutboundError::Refused { url: shown(&parsed), reason }),
        }
    }

    /// Sends a request, and reads the response. A redirect is a response.
    pub(super) async fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, OutboundError> {
        let url = self.check(&request.uri().to_string())?;
        let name = shown(&url);
        timeout(TIMEOUT, self.exchange(request, &name))
            .await
            .unwrap_or(Err(OutboundError::TimedOut(name)))
    }

    async fn exchange(
        &self,
        request: Request<Vec<u8>>,
        url: &str,
    ) -> Result<Response<Vec<u8>>, OutboundError> {
        let request = reqwest::Request::try_from(request).map_err(|error| failed(url, error))?;
        let response = self.http.execute(request).await;
        let mut response = response.map_err(|error| failed(url, error))?;
        let mut read = Response::new(Vec::new());
        *read.status_mut() = response.status();
        *read.headers_mut() = std::mem::take(response.headers_mut());
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(url, error))? {
            if chunk.len() > MAX_BODY_BYTES - read.body().len() {
                return Err(OutboundError::TooLong(url.to_owned()));
            }
            read.body_mut().extend_from_slice(&chunk);
        }
        Ok(read)
    }
}

impl OAuthHttpClient for Outbound {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            if self.sent.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
                return Err(OutboundError::TooMany.into());
            }
            Ok(self.send(request.request).await?)
        })
    }
}

/// Returns the URL of the server of these settings. Fails if no credentials may be sent there: plain HTTP is for
/// hosts that are private as they are written. Reads no files.
pub(crate) fn check_server(settings: &HttpSettings) -> Result<Url, InvalidSettings> {
    let invalid = InvalidSettings;
    let url = Url::parse(&settings.url)
        .map_err(|error| invalid(format!("the URL cannot be used: {error}")))?;
    let host = url.host().ok_or_else(|| invalid("the URL has no host".to_owned()))?;
    let guard = GuardedResolver::new(&host, settings.allow_private)
        .map_err(|error| invalid(format!("the URL cannot be used: {error}")))?;
    check(&guard, &url).map_err(|reason| {
        invalid(format!("credentials cannot be sent to the URL of the server: {reason}"))
    })?;
    Ok(url)
}

/// Returns the reason that nothing may be sent to a URL. A name is checked again, by its addresses,
/// when it is resolved.
fn check(guard: &GuardedResolver, url: &Url) -> Result<(), String> {
    let is_permitted = match url.scheme() {
        "https" => true,
        "http" => url.host().is_some_and(|host| is_private(&host)),
        _ => false,
    };
    if !is_permitted {
        return Err(
            "it must begin with https://, unless its host is localhost or a private IP address"
                .to_owned(),
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user name or a password".to_owned());
    }
    let Some(host) = url.host() else { return Err("it has no host".to_owned()) };
    guard.check(&host).map_err(|error: Unreachable| error.to_string())
}

/// Returns whether a host is a private address, or `localhost`, as it is written: a name may be that
/// of a public host.
fn is_private(host: &Host<&str>) -> bool {
    GuardedResolver::new(host, false).is_ok_and(|guard| guard.permits_private())
}

/// Returns a URL for use in a message.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    airlock_strings::cut(url.into(), 200)
}

fn failed(url: &str, error: reqwest::Error) -> OutboundError {
    OutboundError::Failed { url: url.to_owned(), cause: error.without_url() }
}

#[cfg(test)]
mod tests {
    use airlock_test_http::{self as http_server, Server};

    use super::*;

    fn outbound(url: &str) -> Result<Outbound, String> {
        Outbound::new(&HttpSettings::new(url)).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_sent_to_a_private_address_that_a_public_server_names() {
        let outbound = outbound("https://mcp.example.com/mcp").expect("good settings");
        assert!(outbound.check("https://as.example.com/token").is_ok());
        for url in [
            "http://as.example.com/token",
            "https://127.0.0.1/token",
            "https://[::1]/",
            "https://localhost/",
            "https://10.0.0.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://user@as.example.com/",
            "ftp://as.example.com/",
            "javascript:alert(1)",
            "data:text/html,x",
        ] {
            assert!(outbound.check(url).is_err(), "{url}");
        }
        let long = format!("https://as.example.com/{}", "x".repeat(MAX_URL_BYTES));
        assert!(outbound.check(&long[..MAX_URL_BYTES]).is_ok() && outbound.check(&long).is_err());
        insta::assert_snapshot!(
            outbound.check("https://169.254.169.254/x?secret").expect_err("refused"),
            @"https://169.254.169.254/x is not used: 169.254.169.254 has an address that no setting can permit: it is link-local or reserved"
        );
    }

    #[test]
    fn a_private_server_may_name_private_addresses_and_plain_http_but_no_link_local_ones() {
        let outbound = outbound("http://127.0.0.1:3000/mcp").expect("good settings");
        assert!(outbound.check("http://10.0.0.1/token").is_ok());
        assert!(outbound.check("http://localhost:8080/token").is_ok());
        assert!(outbound.check("https://as.example.com/token").is_ok());
        for public in ["http://as.example.com/token", "http://8.8.8.8/token"] {
            assert!(outbound.check(public).is_err(), "{public}");
        }
        assert!(outbound.check("http://169.254.169.254/").is_err());
        assert!(outbound.check("file:///etc/passwd").is_err());
    }

    #[test]
    fn a_token_is_not_sent_over_plain_http_to_a_public_server() {
        let error = outbound("http://mcp.example.com/mcp").err().expect("refused");
        assert!(error.contains("https://"), "{error}");
    }

    async fn body(server: &Server) -> Result<usize, OutboundError> {
        let outbound = outbound(&server.url("127.0.0.1", "/")).expect("good settings");
        let request = Request::get(server.url("127.0.0.1", "/")).body(Vec::new());
        let response = outbound.send(request.expect("a request")).await?;
        Ok(response.body().len())
    }

    #[tokio::test]
    async fn a_body_is_bounded_to_the_byte_and_a_redirect_is_not_followed() {
        let fits = Server::start(|_| http_server::ok(&"x".repeat(MAX_BODY_BYTES))).await;
        assert_eq!(body(&fits).await.expect("it fits"), MAX_BODY_BYTES);
        let long = Server::start(|_| http_server::ok(&"x".repeat(MAX_BODY_BYTES + 1))).await;
        assert!(matches!(body(&long).await, Err(OutboundError::TooLong(_))));
        let other = Server::start(|_| http_server::redirect(307, "/other")).await;
        assert_eq!(body(&other).await.expect("a response"), 0);
        assert_eq!(other.requests().len(), 1);
    }
}
