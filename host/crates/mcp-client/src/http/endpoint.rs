//! Sends the requests to one server with their credentials.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{Response, Url};

use super::{
    super::{
        inbox::Inbox,
        transport::{OutgoingKind, SendError},
    },
    extra,
    refusal::broken,
};
use airlock_core::{door::CallerHeaders, tool::Cause};
use airlock_mcp_oauth::{
    Authority, AuthorizationError, Authorizer, Bearer, BrokenExchange, Challenge, ExchangedToken,
    ExtraHeaders, ServerClient,
};
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
    client: ServerClient,
    extra: ExtraHeaders,
    authority: Option<Arc<Authority>>,
}

impl Endpoint {
    /// Creates the endpoint, whose requests have the credentials of `authority`.
    pub(crate) fn new(
        client: ServerClient,
        extra: ExtraHeaders,
        authority: Option<Arc<Authority>>,
    ) -> Self {
        Self { client, extra, authority }
    }

    /// Returns the headers of a caller that are passed on with its call.
    pub(crate) fn pass_on(&self, caller: &CallerHeaders) -> Vec<(HeaderName, HeaderValue)> {
        extra::select(&self.extra, caller)
    }

    /// Returns the URL of the configuration.
    pub(crate) fn url(&self) -> &Url {
        self.client.url()
    }

    /// Returns the host and the port of [`Self::url`].
    pub(crate) fn address(&self) -> Option<(String, u16)> {
        let url = self.url();
        Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
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
        let message = HttpMessage { method, url, body: body.map(Bytes::from).unwrap_or_default() };
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
                    return Err(declined(user.reject(&sent, purpose == Purpose::Own).await));
                }
                Ok(response)
            }
            Some(Authority::Exchanged(token)) => {
                let own = with_exchanged(own, token);
                let response = self.exchange(&message, own, inbox).await?;
                if is_refused(purpose, &response) {
                    return Err(declined(AuthorizationError::Exchanged));
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
            let sent = self.exchange(message, own, inbox).await;
            let response = if attempt == 1 { sent? } else { sent.map_err(once_received)? };
            if purpose == Purpose::Aside {
                return Ok(response);
            }
            let refused = Challenge::read(response.status(), response.headers(), self.url());
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
            .map_err(declined)?;
        }
        Err(declined(authorizer.refused_twice(bearer.as_ref(), purpose == Purpose::Own)))
    }

    async fn exchange(
        &self,
        message: &HttpMessage<'_>,
        own: HeaderMap,
        inbox: &Inbox,
    ) -> Result<Response, SendError> {
        let HttpMessage { method, url, body } = message;
        let sent = self.client.send(method.clone(), url, own, body.clone()).await;
        let response = sent.map_err(|BrokenExchange { error, was_redirected }| {
            let error = broken(error, inbox);
            if was_redirected { once_received(error) } else { error }
        })?;
        inbox.touch();
        Ok(response)
    }
}

/// A request without its headers.
struct HttpMessage<'a> {
    method: Method,
    url: &'a Url,
    /// Empty if there is none.
    body: Bytes,
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

/// Returns the headers of a request with its access token, which replaces any other credentials.
fn authorized(mut headers: HeaderMap, bearer: Option<&Bearer>) -> HeaderMap {
    if let Some(bearer) = bearer {
        headers.insert(header::AUTHORIZATION, bearer.header().clone());
    }
    headers
}

/// Returns the error of a message that has no credentials, and is not sent.
fn unauthorized(error: AuthorizationError) -> SendError {
    match error {
        AuthorizationError::Login(needed) => SendError::LoginNeeded(Cause::from(needed)),
        AuthorizationError::Exchanged => SendError::LoginNeeded(Cause::from(error)),
        error => SendError::NotSent(Cause::from(error)),
    }
}

/// Returns the error of a message that the server has received, and whose credentials it has refused.
fn declined(error: AuthorizationError) -> SendError {
    once_received(unauthorized(error))
}

/// Returns the error of a message that the server has received before and not executed: it has refused or redirected it.
fn once_received(error: SendError) -> SendError {
    match error {
        SendError::NotSent(cause) => SendError::Declined(cause),
        error => error,
    }
}
