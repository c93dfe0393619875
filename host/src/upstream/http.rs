//! Transport to servers over streamable HTTP.

mod body;
mod events;
mod exchange;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use http::{HeaderName, HeaderValue};
use reqwest::{Url, redirect};
use rmcp::{
    service::ServiceError,
    transport::{
        StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};

use self::exchange::{HttpClient, RequestFailed};
use super::{
    error::ConnectionError,
    inbox::Inbox,
    limits::{HTTP_CONNECT_TIMEOUT, MAX_HTTP_REQUESTS, MAX_MESSAGE_BYTES, MAX_REDIRECTS},
    outbox::{self, SendError},
};
use crate::{secret::Secret, tls, tool::Cause};

/// Headers that the protocol sets itself.
const RESERVED: [&str; 4] = ["accept", "mcp-protocol-version", "mcp-session-id", "last-event-id"];

pub(super) type Http = StreamableHttpClientTransport<HttpClient>;
type HttpError = SendError<StreamableHttpError<RequestFailed>>;

/// Creates the transport. Nothing is sent yet. Fails if the URL or a header cannot be used.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, Secret>,
    inbox: Arc<Inbox>,
) -> Result<Http, ConnectionError> {
    let parsed = Url::parse(url).map_err(|error| {
        ConnectionError::InvalidSettings(format!("the URL cannot be used: {error}"))
    })?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(ConnectionError::InvalidSettings(format!(
            "the URL must begin with http:// or https://, found {}://",
            parsed.scheme()
        )));
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_concurrent_requests(MAX_HTTP_REQUESTS)
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        .custom_headers(checked(headers)?);
    Ok(StreamableHttpClientTransport::with_client(HttpClient::new(client()?, inbox), config))
}

/// Builds a client for one server. Its connections and credentials are not shared with other
/// servers.
fn client() -> Result<reqwest::Client, ConnectionError> {
    tls::client()
        .no_proxy()
        .connect_timeout(HTTP_CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .referer(false)
        .redirect(redirect::Policy::custom(same_origin))
        .build()
        .map_err(|error| ConnectionError::InvalidSettings(format!("no HTTP client: {error}")))
}

/// Follows a redirect that keeps the method (`/mcp` to `/mcp/` is common) and stays within the
/// origin that the credentials are for. Any other redirect is returned as the response.
fn same_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
    let first = attempt.previous().first();
    let stays = first.is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_method && stays && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Removes the layers around a transport's error, which hide its cause.
pub(super) fn without_wrappers(error: Cause) -> Cause {
    match error.downcast::<HttpError>() {
        Ok(error) => match *error {
            SendError::Transport(StreamableHttpError::Client(error)) => Cause::from(error),
            other => Cause::from(other),
        },
        Err(error) => error,
    }
}

/// Returns whether a request failed because its response is too large.
pub(super) fn is_too_large(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    let error = error.error.downcast_ref::<HttpError>();
    matches!(error, Some(SendError::Transport(StreamableHttpError::ResponseBodyTooLarge { .. })))
}

/// Returns whether a message was not sent because too many are in flight.
pub(super) fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    outbox::is_full_of::<StreamableHttpError<RequestFailed>>(error)
}

fn checked(
    headers: &BTreeMap<String, Secret>,
) -> Result<HashMap<HeaderName, HeaderValue>, ConnectionError> {
    headers.iter().map(|(name, value)| header(name, value)).collect()
}

fn header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), ConnectionError> {
    let parsed = HeaderName::try_from(name)
        .map_err(|_| ConnectionError::InvalidSettings(format!("{name:?} is no header name")))?;
    if RESERVED.contains(&parsed.as_str()) {
        return Err(ConnectionError::InvalidSettings(format!(
            "header {name:?} belongs to the protocol and cannot be set"
        )));
    }
    let mut value = HeaderValue::try_from(value.expose()).map_err(|_| {
        ConnectionError::InvalidSettings(format!(
            "the value of header {name:?} has characters that a header cannot hold"
        ))
    })?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, name: &str, value: &str) -> String {
        let headers = BTreeMap::from([(name.to_owned(), Secret::new(value))]);
        let Err(error) = transport(url, &headers, Inbox::new(Arc::default())) else {
            panic!("{url} {name} was taken")
        };
        assert!(error.is_permanent());
        error.to_string()
    }

    #[test]
    fn settings_that_can_never_work_are_refused_without_their_secrets() {
        insta::assert_snapshot!(refused("localhost", "a", "b"), @"the URL cannot be used: relative URL without a base");
        insta::assert_snapshot!(refused("ftp://h/", "a", "b"), @"the URL must begin with http:// or https://, found ftp://");
        insta::assert_snapshot!(refused("http://h/", "a b", "c"), @r#""a b" is no header name"#);
        insta::assert_snapshot!(
            refused("http://h/", "Accept", "c"),
            @r#"header "Accept" belongs to the protocol and cannot be set"#
        );
        insta::assert_snapshot!(
            refused("http://h/", "x-key", "s3cret\n"),
            @r#"the value of header "x-key" has characters that a header cannot hold"#
        );
    }
}
