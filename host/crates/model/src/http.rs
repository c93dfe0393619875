//! Exchanges with a service over HTTP, for every API: bounded in time and memory. The credentials
//! for the service are redacted in its responses.
//!
//! | file | purpose |
//! |---|---|
//! | `base_url` | the base URL of a service, and the addresses below it |
//! | `bounds`, `headers` | what the settings of a service say: limits, headers, and the texts that are redacted |
//! | `connection` | connections: TLS, the gateway's certificate, a proxy |
//! | `response` | a response whose body arrives |
//! | `events`, `aws_events` | the events of a stream, in either framing |
//! | `error_body`, `retry_after` | what the response to a refused request says |
//! | `sign_in` | the interface of credentials |
//! | `reach` | whether a service can be reached, without a credential |

#[cfg(feature = "bedrock")]
pub(crate) mod aws_events;
mod base_url;
mod bounds;
mod connection;
mod error_body;
mod events;
mod headers;
pub(crate) mod reach;
mod response;
pub(crate) mod retry_after;
mod sign_in;

use std::{pin::pin, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use self::{
    base_url::without_query,
    error_body::{bounded_error, remove_list},
    headers::secrets,
};
pub(super) use self::{
    base_url::{base_url, below},
    bounds::ServiceBounds,
    connection::https_client,
    error_body::error_message,
    events::{DONE, ServiceEvents},
    headers::service_headers,
    response::ServiceResponse,
    sign_in::SignIn,
};
use super::{
    BadProvider, Document, ModelError, Refusal, Service, TransportError,
    document::BadDocument,
    error::SAID_BYTES,
    observer::{ExchangeObserver, Redaction, SentRequest, without_secrets},
};
use airlock_conversation::Object;
use airlock_core::{memory::Charge, secret::Secret, threads};
use airlock_egress::https::{HttpsClient, HttpsError};
use airlock_json::{Caps, object};
use airlock_strings::cut;

/// Function that reads the text of a response.
type ReadDocument = fn(String, &Caps, &Charge) -> Result<Document, BadDocument>;

/// The way in which a response is read, and its maximum sizes, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Its text.
    text: usize,
    /// The memory of its tree.
    tree: usize,
    read: ReadDocument,
}

/// Reading of a list of models. The largest that are known have 400 models and less than 1 MiB.
pub(super) const LIST: Reading = Reading { text: 4 << 20, tree: 16 << 20, read: Document::read };
/// Maximum number of access tokens that are redacted: the last two of each key, of which the configuration permits a
/// provider 64. Each response is searched for all of them, and a service issues a new one every hour.
#[cfg(feature = "vertex")]
const MAX_TOKENS: usize = 128;
/// Name of the limit on the time to the first chunk, in the provider's settings.
pub(super) const FIRST_BYTE: &str = "timeouts.first_byte";

/// A client of one service.
#[derive(Debug)]
pub(super) struct HttpClient {
    pub(super) provider: String,
    http: HttpsClient,
    /// Headers of every request, without a credential.
    headers: HeaderMap,
    pub(super) bounds: ServiceBounds,
    has_proxy: bool,
    /// Configured credentials, which are redacted.
    secrets: Arc<[Secret]>,
    /// Recent access tokens, which are redacted too.
    tokens: ArcSwap<Vec<Secret>>,
}

/// A request as it is sent, the same in every attempt.
pub(super) struct EncodedRequest {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) is_streamed: bool,
    /// True if options that some models refuse are left out.
    pub(super) is_plain: bool,
    /// The memory of `body`.
    _held: Charge,
}

/// Function that returns OpenAI's `error` object for a status and a body; `None` if the body is not
/// an object.
pub(super) type ErrorOf = fn(&HttpClient, StatusCode, Option<&Object>) -> Object;

/// The text of a response.
struct ResponseBody {
    text: Vec<u8>,
    /// The memory of `text`.
    _held: Charge,
}

impl HttpClient {
    pub(super) fn new(
        provider: &str,
        service: &Service,
        bounds: ServiceBounds,
    ) -> Result<Self, BadProvider> {
        let is_tls = base_url(provider, &service.base_url)?.scheme() == "https";
        let identity = service.identity.as_ref();
        let http = https_client(provider, service, is_tls, bounds.connect, identity)?;
        Ok(Self {
            provider: provider.to_owned(),
            http,
            headers: service_headers(provider, service)?,
            bounds,
            has_proxy: service.proxy.is_some(),
            secrets: secrets(service),
            tokens: ArcSwap::default(),
        })
    }

    /// Redacts an access token in later responses.
    #[cfg(feature = "vertex")]
    pub(super) fn redact(&self, token: &str) {
        self.tokens.rcu(|tokens| {
            let old = tokens.len().saturating_sub(MAX_TOKENS - 1);
            tokens[old..].iter().cloned().chain([Secret::new(token)]).collect::<Vec<_>>()
        });
    }

    /// Returns the credentials that are redacted now.
    pub(super) fn redaction(&self) -> Redaction {
        Redaction { secrets: self.secrets.clone(), tokens: self.tokens.load_full() }
    }

    /// Redacts credentials in a text that is whole. Takes no share of their lists: all threads change those counts.
    fn without_credentials(&self, text: String) -> String {
        without_secrets(&self.tokens.load(), without_secrets(&self.secrets, text))
    }

    /// Creates the request that is sent. Memory for its text is held until it is dropped. Fails if
    /// there is none.
    pub(super) fn outgoing(
        &self,
        uri: Uri,
        mut body: Vec<u8>,
        is_streamed: bool,
        held: &Charge,
    ) -> Result<EncodedRequest, ModelError> {
        // What is charged and recorded is its length.
        body.shrink_to_fit();
        let held = held.beside();
        if !held.grow(body.len()) {
            return Err(self.no_memory());
        }
        Ok(EncodedRequest {
            uri,
            headers: HeaderMap::new(),
            body: body.into(),
            is_streamed,
            is_plain: false,
            _held: held,
        })
    }

    /// Signs a request in with `sign_in`, sends it, and returns the response as soon as its head has
    /// arrived. Fails if the connection fails, or if the head of a stream has not arrived at
    /// `first_byte`.
    pub(super) async fn send(
        &self,
        outgoing: &EncodedRequest,
        sign_in: Option<&dyn SignIn>,
        first_byte: Instant,
        observer: Option<&Arc<dyn ExchangeObserver>>,
    ) -> Result<ServiceResponse, ModelError> {
        let EncodedRequest { uri, headers, body, .. } = outgoing;
        // Pinned here, like the future below: a future that is handed on has its room once for each step.
        let sending = pin!(async {
            let request = self.request(Method::POST, uri, headers, body, sign_in).await?;
            let Some(observer) = observer else {
                return self.begin(request, uri, self.bounds.answer).await;
            };
            observer.sent(SentRequest {
                provider: &self.provider,
                url: self.without_credentials(without_query(uri)),
                body,
                // With the token that the request was signed in with.
                redaction: self.redaction(),
            });
            let response = self.begin(request, uri, self.bounds.answer).await?;
            Ok(response.observed_by(observer.clone()))
        });
        if !outgoing.is_streamed {
            return sending.await;
        }
        timeout_at(first_byte, sending).await.map_err(|_| self.is_silent(FIRST_BYTE))?
    }

    /// Requests a list. The time limit for lists covers the whole response.
    pub(super) async fn get(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        sign_in: Option<&dyn SignIn>,
    ) -> Result<ServiceResponse, ModelError> {
        let request = self.request(Method::GET, uri, headers, &Bytes::new(), sign_in).await?;
        self.begin(request, uri, self.bounds.list).await
    }

    /// Creates a request that is signed in.
    async fn request(
        &self,
        method: Method,
        uri: &Uri,
        more: &HeaderMap,
        body: &Bytes,
        sign_in: Option<&dyn SignIn>,
    ) -> Result<Request<Bytes>, ModelError> {
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = method;
        head.uri = uri.clone();
        let signed = sign_in.and_then(SignIn::headers);
        head.headers.clone_from(signed.unwrap_or(&self.headers));
        for (name, value) in more {
            head.headers.insert(name, value.clone());
        }
        if let Some(sign_in) = sign_in.filter(|_| signed.is_none()) {
            sign_in.sign(self, &mut head, body).await?;
        }
        Ok(Request::from_parts(head, body.clone()))
    }

    /// Sends a request. The whole response must arrive within `limit`.
    async fn begin(
        &self,
        request: Request<Bytes>,
        uri: &Uri,
        limit: Duration,
    ) -> Result<ServiceResponse, ModelError> {
        let sending = pin!(self.http.send(request));
        let begun = ServiceResponse::begin(sending, uri, limit).await;
        begun.map_err(|error| self.trouble(error, uri))
    }

    /// Receives a whole response. Fails if it is an error, a redirect or not a JSON object, or if
    /// it is too large.
    pub(super) async fn receive(
        &self,
        response: ServiceResponse,
        error_of: ErrorOf,
        held: &Charge,
    ) -> Result<Document, ModelError> {
        self.receive_within(self.reading(Document::read), response, error_of, held).await
    }

    /// As [`receive`](Self::receive), for a chat completion, whose tree is built when it is needed.
    pub(super) async fn receive_completion(
        &self,
        response: ServiceResponse,
        error_of: ErrorOf,
        held: &Charge,
    ) -> Result<Document, ModelError> {
        self.receive_within(self.reading(Document::read_completion), response, error_of, held).await
    }

    /// Returns the way in which a response is read, within the bounds of the service.
    fn reading(&self, read: ReadDocument) -> Reading {
        Reading { text: self.bounds.answer_bytes, tree: self.bounds.answer_tree_bytes, read }
    }

    /// As [`receive`](Self::receive), in another way.
    pub(super) async fn receive_within(
        &self,
        reading: Reading,
        response: ServiceResponse,
        error_of: ErrorOf,
        held: &Charge,
    ) -> Result<Document, ModelError> {
        let status = response.status();
        if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            return Err(ModelError::Proxy { provider: self.provider.clone() });
        }
        let retry_after = retry_after::read(response.headers());
        let is_text = !status.is_success() && is_text(&response);
        let mut body = self.read(response, reading.text, held.beside()).await?;
        let text = is_text.then(|| self.excerpt(&body.text));
        if !status.is_success() {
            remove_list(&mut body.text);
        }
        let document = self.parse(body, reading, held).await?;
        if status.is_success() {
            return document.ok_or_else(|| self.bad_answer("a body that is not a JSON object"));
        }
        if !status.is_client_error() && !status.is_server_error() {
            return Err(self.bad_answer("a redirect"));
        }
        let details = document.as_ref().map(Document::object).and_then(retry_after::read_details);
        let retry_after = retry_after.or(details);
        let text = text.map(|text| object(json!({"message": text})));
        let error =
            error_of(self, status, document.as_ref().map(Document::object).or(text.as_ref()));
        Err(self.refused(Refusal { status, error, retry_after }))
    }

    /// Returns the beginning of a text, without the credentials in it.
    fn excerpt(&self, text: &[u8]) -> String {
        // More than is kept, so that no credential is cut before it is found.
        let text = String::from_utf8_lossy(&text[..text.len().min(4 * SAID_BYTES)]);
        cut(self.without_credentials(text.trim().to_owned()), SAID_BYTES)
    }

    async fn read(
        &self,
        mut response: ServiceResponse,
        limit: usize,
        held: Charge,
    ) -> Result<ResponseBody, ModelError> {
        let mut text = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| self.trouble(error, response.uri()))?
        {
            let len = text.len().saturating_add(chunk.len());
            if len > limit {
                return Err(self.bad_answer("a body that is larger than the gateway accepts"));
            }
            if !make_room(&mut text, len, limit, &held) {
                return Err(self.no_memory());
            }
            text.extend_from_slice(&chunk);
        }
        Ok(ResponseBody { text, _held: held })
    }

    /// Parses a response, without the credentials in it; `None` if it is not a JSON object. Fails
    /// if the tree would take too much memory.
    async fn parse(
        &self,
        body: ResponseBody,
        reading: Reading,
        held: &Charge,
    ) -> Result<Option<Document>, ModelError> {
        let caps = Caps::memory(reading.tree);
        let read = reading.read;
        let parsed = if body.text.len() <= threads::INLINE_BYTES {
            let ResponseBody { text, _held } = body;
            let text = String::from_utf8(text).map_err(|_| BadDocument::NoObject);
            text.and_then(|text| read(self.without_credentials(text), &caps, held))
        } else {
            let redaction = self.redaction();
            // An account of its own, because a thread continues after the request is dropped.
            let own = held.beside();
            let tenant = held.tenant();
            let reading = threads::run(&tenant, move || {
                let ResponseBody { text, _held } = body;
                let text = String::from_utf8(text).map_err(|_| BadDocument::NoObject)?;
                read(redaction.redact(text), &caps, &own)
            });
            // Boxed: most responses are short, and the future would have room for the wait of a long one.
            Box::pin(reading).await
        };
        match parsed {
            Ok(document) => Ok(Some(document)),
            Err(BadDocument::NoObject) => Ok(None),
            Err(unread) => Err(self.unread(unread)),
        }
    }

    /// Converts an error of the transport. Its address is in the cause alone, because callers must not
    /// see addresses of the operator.
    pub(super) fn trouble(&self, error: HttpsError, uri: &Uri) -> ModelError {
        let provider = self.provider.clone();
        let url = self.without_credentials(without_query(uri));
        let limit = match &error {
            HttpsError::ConnectTimeout => Some("timeouts.connect"),
            HttpsError::Timeout => Some("timeouts.request"),
            _ => None,
        };
        let cause = Box::new(TransportError { url, cause: error });
        match limit {
            Some(limit) => ModelError::Timeout { provider, limit, cause },
            None => ModelError::Unreachable { provider, has_proxy: self.has_proxy, cause },
        }
    }

    /// Returns the failure of a request that the service has refused. Its error is bounded: nothing charges it, and
    /// it is copied until the caller has received it.
    pub(super) fn refused(&self, refusal: Refusal) -> ModelError {
        let provider = self.provider.clone();
        let refusal = Box::new(Refusal { error: bounded_error(refusal.error), ..refusal });
        if matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            ModelError::Credential { provider, refusal }
        } else {
            ModelError::Refused { provider, refusal }
        }
    }

    /// Returns the error of a service that sent nothing for too long.
    pub(super) fn is_silent(&self, limit: &'static str) -> ModelError {
        ModelError::Silent { provider: self.provider.clone(), limit }
    }

    pub(super) fn unread(&self, unread: BadDocument) -> ModelError {
        match unread {
            BadDocument::NoMemory => self.no_memory(),
            BadDocument::NoObject => self.bad_answer("an event that is not a JSON object"),
            BadDocument::Dense(error) => {
                warn!(provider = %self.provider, %error, "a response of a provider was refused");
                self.bad_answer("JSON that needs more memory than the gateway permits")
            }
        }
    }

    pub(super) fn no_memory(&self) -> ModelError {
        warn!(provider = %self.provider, "an exchange with a provider does not fit into the memory of requests");
        ModelError::NoMemory { provider: self.provider.clone() }
    }

    pub(super) fn bad_answer(&self, what: &'static str) -> ModelError {
        ModelError::BadAnswer { provider: self.provider.clone(), what }
    }

    /// Returns the error object for a response that has only a status.
    pub(super) fn plain_error(&self, status: StatusCode, said: Option<String>) -> Object {
        let said = said.map(|said| format!(": {said}")).unwrap_or_default();
        let provider = &self.provider;
        let status_code = status.as_u16();
        let message = format!("provider '{provider}' responded with status {status_code}{said}");
        let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
        object(json!({"message": message, "type": kind, "param": null, "code": "provider_error"}))
    }
}

/// Returns whether a response is a stream. Some services ignore `stream`.
pub(super) fn is_stream(response: &ServiceResponse) -> bool {
    response.status().is_success() && !is_json(response)
}

fn is_json(response: &ServiceResponse) -> bool {
    response.content_type().is_some_and(|found| found.eq_ignore_ascii_case("application/json"))
}

/// Returns the objects in the member `data` of a list that have an `id`.
pub(super) fn listed(list: Document) -> Vec<Object> {
    let Some(Value::Array(data)) = list.into_object().shift_remove("data") else {
        return Vec::new();
    };
    data.into_iter()
        .filter_map(|value| match value {
            Value::Object(model) if model.get("id").is_some_and(Value::is_string) => Some(model),
            _ => None,
        })
        .collect()
}

/// Returns whether a response is plain text. Pages of proxies, which are HTML, tell a caller nothing.
fn is_text(response: &ServiceResponse) -> bool {
    response.content_type().is_some_and(|found| found.eq_ignore_ascii_case("text/plain"))
}

/// Reserves room for `len` bytes in `text`. Doubles the capacity, up to `most`, and holds the bytes
/// that it adds in `held`. Returns false if there is no memory for them.
fn make_room(text: &mut Vec<u8>, len: usize, most: usize, held: &Charge) -> bool {
    let capacity = text.capacity();
    if len > capacity {
        let wanted = len.max(capacity.saturating_mul(2).min(most));
        if !held.grow(wanted - capacity) {
            return false;
        }
        text.reserve_exact(wanted - text.len());
    }
    true
}

#[cfg(test)]
mod tests;
