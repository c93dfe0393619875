//! Sends HTTP requests and reads their responses, with every part bounded and the server's secrets
//! redacted. `rmcp` decides which request is sent when. Its own client would read responses of 16
//! MiB and quote them in its errors and its log.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::{RequestBuilder, Response};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, JsonRpcRequest,
        ServerJsonRpcMessage,
    },
    transport::{
        common::http_header::{
            EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
        },
        streamable_http_client::{
            AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient,
            StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::Sse;

use super::{
    super::{
        inbox::Inbox,
        limits::{
            MAX_ERROR_BODY_BYTES, MAX_ID_BYTES, MAX_MESSAGE_BYTES, MAX_QUOTE_BYTES,
            MAX_REASON_BYTES,
        },
    },
    body::{self, BodyError},
    events,
};
use crate::text::{cut, one_line, with_causes};

/// Sends the requests of one connection.
#[derive(Clone)]
pub(in super::super) struct HttpClient {
    http: reqwest::Client,
    inbox: Arc<Inbox>,
}

/// Reason that a request was not sent or its response not received. It contains no secret and no
/// URL.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in super::super) struct RequestFailed(String);

type Error = StreamableHttpError<RequestFailed>;
type Headers = HashMap<HeaderName, HeaderValue>;

impl StreamableHttpClient for HttpClient {
    type Error = RequestFailed;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let request =
            self.http.post(uri.as_ref()).header(header::ACCEPT, accepted()).json(&message);
        let had_session = session.is_some();
        if let JsonRpcMessage::Request(request) = &message {
            // A session that is started again begins with a request that was already answered, so
            // the response is expected again.
            self.inbox.expect_response(&request.id, &request.request);
        }
        let response = self.send(with(request, session, token, headers)).await?;
        let status = response.status();
        let session = Self::session_of(&response)?;
        match message {
            _ if status == StatusCode::NOT_FOUND && had_session => Err(Error::SessionExpired),
            _ if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            JsonRpcMessage::Request(request) if status.is_success() => {
                self.answer(request, response, session).await
            }
            JsonRpcMessage::Request(request) => {
                self.refused_request(request, had_session, response).await
            }
            // A message that is not a request only needs to be accepted.
            _ if status.is_success() => Ok(StreamableHttpPostResponse::Accepted),
            _ => Err(self.refused(response).await.into()),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Error> {
        let response =
            self.send(with(self.http.delete(uri.as_ref()), Some(session), token, headers)).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(Error::ServerDoesNotSupportDeleteSession),
            status if status.is_success() => Ok(()),
            _ => Err(self.refused(response).await.into()),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        self.inbox
            .ready()
            .await
            .map_err(|flood| Error::Client(RequestFailed(flood.to_string())))?;
        self.inbox.charge_stream();
        let mut request =
            self.http.get(uri.as_ref()).header(header::ACCEPT, EVENT_STREAM_MIME_TYPE);
        if let Some(last_event) = last_event {
            request = request.header(HEADER_LAST_EVENT_ID, last_event);
        }
        let response = self.send(with(request, session, token, headers)).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(Error::ServerDoesNotSupportSse),
            status if status.is_success() && is(&response, EVENT_STREAM_MIME_TYPE) => {
                Ok(events::stream(response, self.inbox.clone(), 0))
            }
            status if status.is_success() => {
                Err(Error::UnexpectedContentType(self.content_type(&response)))
            }
            _ => Err(self.refused(response).await.into()),
        }
    }
}

impl HttpClient {
    pub(super) fn new(http: reqwest::Client, inbox: Arc<Inbox>) -> Self {
        Self { http, inbox }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        request.send().await.map_err(|error| self.failed(error))
    }

    /// Reads the response to a request that was not refused.
    async fn answer(
        &self,
        request: JsonRpcRequest<ClientRequest>,
        response: Response,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        if is(&response, EVENT_STREAM_MIME_TYPE) {
            return Ok(StreamableHttpPostResponse::Sse(
                events::stream(response, self.inbox.clone(), MAX_MESSAGE_BYTES),
                session,
            ));
        }
        if !is(&response, JSON_MIME_TYPE) {
            return Err(Error::UnexpectedContentType(self.content_type(&response)));
        }
        let body = self.body(response, MAX_MESSAGE_BYTES).await?;
        match self.inbox.receive(&body) {
            Some(JsonRpcMessage::Error(mut error)) => {
                error.id.get_or_insert(request.id);
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
            }
            Some(answer @ JsonRpcMessage::Response(_)) => {
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            _ => Err(unexpected(format!(
                "the body is no answer to the request: {}",
                self.quote(&body)
            ))),
        }
    }

    /// Reads the response to a request that was refused: its JSON-RPC error, if there is one. A
    /// `server/discover` without a session that was refused with a 4xx status becomes such an error
    /// too. Fails otherwise.
    async fn refused_request(
        &self,
        request: JsonRpcRequest<ClientRequest>,
        had_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let is_probe = matches!(request.request, ClientRequest::DiscoverRequest(_)) && !had_session;
        let refused = self.refused(response).await;
        let error = match refused {
            Refused::WithError(error) => error,
            // A legacy server, or a proxy in front of it, may refuse an unknown method without
            // JSON-RPC.
            Refused::WithText { status, text } if is_probe && status.is_client_error() => {
                ErrorData::invalid_request(
                    format!("server/discover rejected with HTTP {status}: {text}"),
                    None,
                )
            }
            other => return Err(other.into()),
        };
        let answer = ServerJsonRpcMessage::error(error, Some(request.id));
        Ok(StreamableHttpPostResponse::Json(answer, None))
    }

    /// Reads the reason that a request was refused.
    async fn refused(&self, response: Response) -> Refused {
        let status = response.status();
        let is_json = is(&response, JSON_MIME_TYPE);
        let challenge = self.header(&response, &header::WWW_AUTHENTICATE);
        let body = match self.body(response, MAX_ERROR_BODY_BYTES).await {
            Ok(body) => body,
            Err(error) => error.to_string().into_bytes(),
        };
        let text = self.quote(&body);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Refused::Unauthorized(format!("HTTP {status}: {}", challenge.unwrap_or(text)))
            }
            StatusCode::TOO_MANY_REQUESTS => Refused::WithStatus(status),
            _ => match is_json.then(|| self.inbox.receive_refusal(&body)).flatten() {
                Some(error) => Refused::WithError(error),
                None if status.is_server_error() => Refused::WithStatus(status),
                None => Refused::WithText { status, text },
            },
        }
    }

    async fn body(&self, response: Response, limit_bytes: usize) -> Result<Vec<u8>, Error> {
        body::read(response, limit_bytes).await.map_err(|error| match error {
            BodyError::TooLarge { limit_bytes } => {
                Error::ResponseBodyTooLarge { max_size: limit_bytes }
            }
            BodyError::Broken(error) => self.failed(error),
        })
    }

    fn failed(&self, error: reqwest::Error) -> Error {
        Error::Client(RequestFailed(
            self.inbox.scrubber().line(&with_causes(&error.without_url()), MAX_REASON_BYTES),
        ))
    }

    /// Returns a server's text for use in another message: redacted, on one line, and cut.
    fn quote(&self, text: &[u8]) -> String {
        self.inbox.scrubber().line(&String::from_utf8_lossy(text), MAX_QUOTE_BYTES)
    }

    fn header(&self, response: &Response, name: &HeaderName) -> Option<String> {
        response.headers().get(name).map(|value| self.quote(value.as_bytes()))
    }

    fn content_type(&self, response: &Response) -> Option<String> {
        self.header(response, &header::CONTENT_TYPE)
    }

    /// Returns the session that the server has started; `None` if there is none. Every later
    /// request names it. Fails if its identifier is too long.
    fn session_of(response: &Response) -> Result<Option<String>, Error> {
        let Some(session) = response.headers().get(HEADER_SESSION_ID) else { return Ok(None) };
        if session.len() > MAX_ID_BYTES {
            return Err(unexpected(format!(
                "a session identifier of more than {MAX_ID_BYTES} bytes"
            )));
        }
        Ok(session.to_str().ok().map(str::to_owned))
    }
}

/// Reason that a request was refused.
enum Refused {
    /// The right credentials are missing.
    Unauthorized(String),
    /// An error of JSON-RPC.
    WithError(ErrorData),
    /// A status without a useful reason.
    WithStatus(StatusCode),
    /// Any other text.
    WithText { status: StatusCode, text: String },
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unauthorized(reason) => Self::AuthRequired(AuthRequiredError::new(reason)),
            Refused::WithError(error) => {
                unexpected(cut(one_line(&error.message), MAX_REASON_BYTES))
            }
            Refused::WithStatus(status) => {
                Self::HttpStatus(HttpStatusError::new(status.as_u16(), None))
            }
            Refused::WithText { status, text } => unexpected(format!("HTTP {status}: {text}")),
        }
    }
}

fn unexpected(text: String) -> Error {
    Error::UnexpectedServerResponse(Cow::Owned(text))
}

fn accepted() -> String {
    [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", ")
}

fn with(
    mut request: RequestBuilder,
    session: Option<Arc<str>>,
    token: Option<String>,
    headers: Headers,
) -> RequestBuilder {
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    if let Some(session) = session {
        request = request.header(HEADER_SESSION_ID, session.as_ref());
    }
    headers.into_iter().fold(request, |request, (name, value)| request.header(name, value))
}

/// Returns whether a response has the content type `mime_type`, in any case and with any parameters.
fn is(response: &Response, mime_type: &str) -> bool {
    let found = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = found.and_then(|found| found.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(mime_type.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_type_is_compared_whole_and_without_its_parameters() {
        let has = |content_type: &str| {
            let response = http::Response::builder().header(header::CONTENT_TYPE, content_type);
            is(&response.body("").expect("a response").into(), JSON_MIME_TYPE)
        };
        assert!(has("application/json") && has("Application/JSON ; charset=utf-8"));
        assert!(!has("application/jsonx") && !has("application/json-seq") && !has(""));
    }
}
