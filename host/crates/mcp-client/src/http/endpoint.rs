//! The HTTP client of one server.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{RequestBuilder, Response, Url, redirect};

use super::{
    super::{
        HttpSettings,
        inbox::Inbox,
        limits::MAX_REDIRECTS,
        oauth::{Authority, AuthorizationError, Authorizer, Bearer, Challenge, ExchangedToken},
        transport::{OutgoingKind, SendError},
    },
    extra::{self, ExtraHeaders},
    refusal::broken,
    settings::InvalidSettings,
};
use airlock_core::{secret::Secret, tool::Cause};
use airlock_wire::method;

/// Maximum attempts to send a request whose access token the server refuses: one with the known
/// token, one with another.
const MAX_ATTEMPTS: usize = 2;

/// Methods of requests that the gateway makes for itself.
const OWN_METHODS: [&str; 4] =
    [method::INITIALIZE, method::PING, method::DISCOVER, method::TOOLS_LIST];

/// Purpose of a request, which decides what follows if the server refuses its access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The gateway's own: the handshake or a check. If another token is refused too, the login is of
    /// no use.
    Own,
    /// A caller's. A server may refuse it for what is in it, so nothing follows for others.
    Call,
    /// A message without a response. It is sent once.
    Aside,
}

impl Purpose {
    /// Returns the purpose of a message.
    pub(crate) fn from_kind(kind: &OutgoingKind) -> Self {
        match kind {
            OutgoingKind::Request(head)
                if OWN_METHODS.contains(&head.method) && head.headers.is_empty() =>
            {
                Self::Own
            }
            OutgoingKind::Request(_) => Self::Call,
            OutgoingKind::Notification(method::INITIALIZED) => Self::Own,
            OutgoingKind::Notification(_) | OutgoingKind::Response => Self::Aside,
        }
    }
}

/// Sends the requests to one server. Its connections and credentials are not shared with other
/// servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Endpoint {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    extra: ExtraHeaders,
    authority: Option<Arc<Authority>>,
}

impl Endpoint {
    /// Creates the client, whose requests have the credentials of `authority`. Nothing is sent
    /// yet. Fails if the URL, a header or a certificate cannot be used.
    pub(crate) fn new(
        settings: &HttpSettings,
        authority: Option<Arc<Authority>>,
    ) -> Result<Self, InvalidSettings> {
        let url = Url::parse(&settings.url)
            .map_err(|error| invalid(format!("the URL cannot be used: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = url.scheme();
            return Err(invalid(format!(
                "the URL must begin with http:// or https://, found {scheme}://"
            )));
        }
        let redirects = redirect::Policy::custom(same_origin);
        let (http, _) = settings.client(&url, redirects, settings.identity.as_ref())?;
        let headers = settings.headers.iter().map(|(name, value)| header(name, value));
        let headers = headers.collect::<Result<_, _>>()?;
        Ok(Self { http, url, headers, extra: settings.extra_headers.clone(), authority })
    }

    /// Headers of callers that are passed on.
    pub(crate) fn extra_headers(&self) -> &ExtraHeaders {
        &self.extra
    }

    /// Returns the URL of the configuration.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the host and the port of [`Self::url`].
    pub(crate) fn address(&self) -> Option<(String, u16)> {
        Some((self.url.host_str()?.to_owned(), self.url.port_or_known_default()?))
    }

    /// Sends a request to `url`, which must be of the same origin as [`Self::url`]. `own` headers
    /// replace those of the configuration that have the same name. If the server refuses the access
    /// token of a login, the request is sent once more with another one: what is refused was not executed.
    /// That a token is refused again fails the request alone, unless it is the gateway's own. Other
    /// credentials that the server refuses fail the request with [`SendError::LoginNeeded`].
    pub(crate) async fn send(
        &self,
        purpose: Purpose,
        (method, url): (Method, &Url),
        own: HeaderMap,
        body: Option<String>,
        inbox: &Inbox,
    ) -> Result<Response, SendError> {
        let message = HttpMessage { method, url, body: body.map(Bytes::from) };
        match self.authority.as_deref() {
            None => self.exchange(&message, own, inbox).await,
            Some(Authority::Login(authorizer)) => {
                self.send_with_login(authorizer, purpose, &message, &own, inbox).await
            }
            Some(Authority::Headers(user)) => {
                let sent = user.headers().await.map_err(unauthorized)?;
                let mut own = own;
                sent.add_to(&mut own);
                let response = self.exchange(&message, own, inbox).await?;
                if is_refused(purpose, &response) {
                    return Err(unauthorized(user.reject(&sent, purpose == Purpose::Own).await));
                }
                Ok(response)
            }
            Some(Authority::Exchanged(token)) => {
                let own = with_exchanged(own, token);
                let response = self.exchange(&message, own, inbox).await?;
                if is_refused(purpose, &response) {
                    return Err(unauthorized(AuthorizationError::Exchanged));
                }
                Ok(response)
            }
        }
    }

    /// Sends a request with the access token of a login, as [`Self::send`] does.
    async fn send_with_login(
        &self,
        authorizer: &Authorizer,
        purpose: Purpose,
        message: &HttpMessage<'_>,
        own: &HeaderMap,
        inbox: &Inbox,
    ) -> Result<Response, SendError> {
        let mut bearer = authorizer.bearer().await.map_err(unauthorized)?;
        for attempt in 1..=MAX_ATTEMPTS {
            let own = authorized(own.clone(), bearer.as_ref());
            let response = self.exchange(message, own, inbox).await?;
            if purpose == Purpose::Aside {
                return Ok(response);
            }
            let refused = Challenge::read(response.status(), response.headers(), &self.url);
            bearer = match refused {
                None => return Ok(response),
                Some(Challenge::Scopes(scopes)) => authorizer.widen(bearer.as_ref(), scopes).await,
                Some(Challenge::Token) if attempt < MAX_ATTEMPTS => {
                    match authorizer.replace(bearer.as_ref()).await {
                        Err(AuthorizationError::NoOther) => break,
                        replaced => replaced,
                    }
                }
                Some(Challenge::Token) => break,
            }
            .map_err(unauthorized)?;
        }
        Err(unauthorized(authorizer.refused_twice(bearer.as_ref(), purpose == Purpose::Own)))
    }

    async fn exchange(
        &self,
        message: &HttpMessage<'_>,
        own: HeaderMap,
        inbox: &Inbox,
    ) -> Result<Response, SendError> {
        let request = self.request(message.method.clone(), message.url, own);
        received(with_body(request, message.body.clone()), inbox).await
    }

    /// Begins a request without an access token to `url`, which must be of the same origin as [`Self::url`]. `own` headers
    /// replace those of the configuration that have the same name.
    pub(crate) fn request(&self, method: Method, url: &Url, own: HeaderMap) -> RequestBuilder {
        // `RequestBuilder::headers` replaces headers of the same name.
        self.http.request(method, url.clone()).headers(self.headers.clone()).headers(own)
    }
}

/// A request without its headers.
struct HttpMessage<'a> {
    method: Method,
    url: &'a Url,
    body: Option<Bytes>,
}

/// Returns whether the server refuses the credentials of a request.
fn is_refused(purpose: Purpose, response: &Response) -> bool {
    purpose != Purpose::Aside && response.status() == StatusCode::UNAUTHORIZED
}

/// Returns the headers of a request with an exchanged token, which replaces any other credentials.
fn with_exchanged(mut headers: HeaderMap, token: &ExchangedToken) -> HeaderMap {
    headers.insert(header::AUTHORIZATION, token.header().clone());
    headers
}

fn with_body(request: RequestBuilder, body: Option<Bytes>) -> RequestBuilder {
    match body {
        Some(body) => request.body(body),
        None => request,
    }
}

async fn received(request: RequestBuilder, inbox: &Inbox) -> Result<Response, SendError> {
    let response = request.send().await.map_err(|error| broken(error, inbox))?;
    inbox.touch();
    Ok(response)
}

/// Returns the headers of a request with its access token, which replaces any other credentials.
fn authorized(mut headers: HeaderMap, bearer: Option<&Bearer>) -> HeaderMap {
    if let Some(bearer) = bearer {
        headers.insert(header::AUTHORIZATION, bearer.header().clone());
    }
    headers
}

fn unauthorized(error: AuthorizationError) -> SendError {
    match error {
        AuthorizationError::Login(needed) => SendError::LoginNeeded(Cause::from(needed)),
        AuthorizationError::Exchanged => SendError::LoginNeeded(Cause::from(error)),
        error => SendError::NotSent(Cause::from(error)),
    }
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

fn header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), InvalidSettings> {
    let parsed =
        HeaderName::try_from(name).map_err(|_| invalid(format!("{name:?} is no header name")))?;
    if extra::is_reserved(&parsed) {
        return Err(invalid(format!("header {name:?} belongs to the protocol and cannot be set")));
    }
    let mut value = HeaderValue::try_from(value.expose()).map_err(|_| {
        invalid(format!("the value of header {name:?} has characters that a header cannot hold"))
    })?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

fn invalid(reason: String) -> InvalidSettings {
    InvalidSettings(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_tls::Authorities;

    fn refused(url: &str, name: &str, value: &str) -> String {
        let mut settings = HttpSettings::new(url);
        settings.headers.insert(name.to_owned(), Secret::new(value));
        let Err(error) = Endpoint::new(&settings, None) else { panic!("{url} {name} was taken") };
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
        insta::assert_snapshot!(
            refused("http://169.254.169.254/mcp", "a", "b"),
            @"the URL cannot be used: 169.254.169.254 has an address that no setting can permit: it is link-local or reserved"
        );
    }

    #[test]
    fn certificates_that_cannot_be_read_are_refused() {
        let mut settings = HttpSettings::new("https://h/");
        settings.authorities = Authorities::Pem("no certificate".to_owned());
        let Err(error) = Endpoint::new(&settings, None) else { panic!("it was taken") };
        insta::assert_snapshot!(error.to_string(), @"`tls_config.ca_cert_pem` cannot be used: the text has no certificate in PEM format");
    }
}
