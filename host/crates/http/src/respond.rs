//! Responses: JSON, streams, and errors in the forms of OpenAI and Anthropic.

use std::{fmt, mem, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use uuid::Uuid;

use super::alias;
use airlock_conversation::{Object, read::Untranslatable};
use airlock_core::{error_reply::ErrorReply, model_calls::EXTENSION, replica::ReplicaId};
use airlock_ingress::{Parts, Payload};
use airlock_json::object;
use airlock_strings::cut;

/// Maximum bytes of a path that an error repeats: the longest path of an API, with an identifier.
const SHOWN_BYTES: usize = 128;

/// Maximum number of names in a header that selects tools. A header of 60 KB has 12,000 short ones, and
/// the set of them, which each request makes anew, takes 30 times the memory that its head is charged
/// for.
const MAX_NAMES: usize = 1_000;

/// Maximum bytes of a text of the caller that an error repeats: enough to find it in the request.
const EXCERPT_BYTES: usize = 64;

/// Prefixes of the headers with which a request selects tools and their treatment; the first one is Bifrost's.
const OWN_PREFIXES: [&str; 2] = ["x-bf-mcp-", "x-airlock-"];

/// Header with the name of the provider that responded.
const PROVIDER: HeaderName = HeaderName::from_static("x-airlock-provider");
/// Header with the cost of all requests to models, in millionths of a US dollar.
const COST: HeaderName = HeaderName::from_static("x-airlock-cost-usd-micros");

/// A response.
pub type Reply = Response<Payload>;

/// Returns the beginning of a text of the caller, for an error.
pub fn excerpt(text: &str) -> String {
    // Copies slightly more than the limit, so that `cut` detects the overflow.
    cut(text[..text.floor_char_boundary(EXCERPT_BYTES + 4)].to_owned(), EXCERPT_BYTES)
}

/// Returns status 200 with a JSON body.
pub fn json(body: &Value) -> Reply {
    with_status(StatusCode::OK, body.to_string())
}

/// Returns status 200 with a body that is JSON text.
pub fn json_text(body: String) -> Reply {
    with_status(StatusCode::OK, body)
}

/// Returns status 200 with a stream of server-sent events.
pub fn events(parts: Parts) -> Reply {
    let mut reply = Response::new(Payload::Stream(parts));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would buffer the events otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}

/// Keeps a value until a streamed response has ended.
pub fn holding(reply: Reply, held: impl Send + 'static) -> Reply {
    reply.map(|payload| match payload {
        Payload::Stream(parts) => Payload::Stream(Box::pin(parts.inspect(move |_| {
            let _ = &held;
        }))),
        whole @ Payload::Whole(_) => whole,
    })
}

/// Adds the headers with the name of the provider that responded and with the cost, in millionths of a US dollar, if they
/// are known: a stream has no cost when it begins.
pub fn answered_by(provider: Option<&str>, cost: Option<u64>, mut reply: Reply) -> Reply {
    let provider = provider.and_then(|name| HeaderValue::try_from(name).ok());
    if let Some(provider) = provider {
        reply.headers_mut().insert(PROVIDER, provider);
    }
    if let Some(cost) = cost {
        reply.headers_mut().insert(COST, cost.into());
    }
    reply
}

fn with_status(status: StatusCode, body: String) -> Reply {
    let mut reply = Response::new(Payload::Whole(Bytes::from(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Returns whether a request has a header with one of [`OWN_PREFIXES`]: a name with such a prefix takes longer to look up
/// than all names to look at.
pub fn has_own(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| OWN_PREFIXES.iter().any(|own| name.as_str().starts_with(*own)))
}

/// Reads a header that may occur several times. Returns the values joined by `,`, as HTTP defines
/// it; `None` if the header is absent. Fails if a value is not UTF-8.
pub fn joined(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, ApiError> {
    let mut joined: Option<String> = None;
    for value in headers.get_all(name) {
        let value = std::str::from_utf8(value.as_bytes()).map_err(|_| {
            ApiError::bad_request("bad_header", format!("header `{name}` is not UTF-8"))
        })?;
        match &mut joined {
            Some(joined) => {
                joined.push(',');
                joined.push_str(value);
            }
            None => joined = Some(value.to_owned()),
        }
    }
    Ok(joined)
}

/// Reads a header that lists names, as [`joined`]. Fails if there are more than [`MAX_NAMES`].
pub fn names(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, ApiError> {
    let joined = joined(headers, name)?;
    check_names(joined.as_deref()).map_err(|problem| {
        ApiError::bad_request("bad_header", format!("header `{name}` {problem}"))
    })?;
    Ok(joined)
}

/// Checks a list of names, separated by `,`. Fails with the problem if there are more than
/// [`MAX_NAMES`].
pub fn check_names(names: Option<&str>) -> Result<(), String> {
    match names.map_or(0, |names| names.split(',').count()) {
        0..=MAX_NAMES => Ok(()),
        found => Err(format!("has {found} names, expected at most {MAX_NAMES}")),
    }
}

/// Returns a text of visible ASCII characters as the value of a header.
fn header_text(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("identifiers and names of methods are header text")
}

/// Identifier of a request of a model, which a header of the response has, and errors of Anthropic's API. It
/// names the gateway that handles the request.
#[derive(Debug, Clone)]
pub struct RequestId(Uuid);

impl RequestId {
    /// Returns a new one.
    pub fn generate() -> Self {
        Self(ReplicaId::public_handle())
    }

    /// Returns it as a UUID.
    pub fn uuid(&self) -> Uuid {
        self.0
    }

    /// Returns it as the value of a header.
    pub fn to_header(&self) -> HeaderValue {
        let mut text = *b"req_00000000000000000000000000000000";
        self.0.simple().encode_lower(&mut text["req_".len()..]);
        header_of(&text)
    }
}

fn header_of(identifier: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(identifier).expect("identifiers are header text")
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{}", self.0.simple())
    }
}

/// An error response.
#[derive(Debug)]
pub struct ApiError(Box<ApiErrorFields>);

#[derive(Debug)]
struct ApiErrorFields {
    status: StatusCode,
    error: Object,
    headers: HeaderMap,
    /// The `airlock` object: the work that was done before the error.
    airlock: Option<Object>,
    /// Bifrost's `extra_fields`; `None` if there are none.
    extras: Option<Object>,
}

impl ApiError {
    /// Creates an error in the form of OpenAI's errors: `kind` is its type.
    pub fn new(status: StatusCode, kind: &str, code: &str, message: impl Into<String>) -> Self {
        let error =
            object(json!({"message": message.into(), "type": kind, "param": null, "code": code}));
        let headers = HeaderMap::new();
        Self(Box::new(ApiErrorFields { status, error, headers, airlock: None, extras: None }))
    }

    /// Creates an error whose type is the usual one of its status.
    pub fn from_status(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        Self::new(status, kind, code, message)
    }

    /// Creates the error of a request that is not valid.
    pub fn bad_request(code: &str, message: impl Into<String>) -> Self {
        Self::from_status(StatusCode::BAD_REQUEST, code, message)
    }

    /// Creates the error of a request without a valid credential.
    pub fn unauthorized(message: &str) -> Self {
        Self::from_status(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    /// Creates the error of a request whose sender may not send it.
    pub fn forbidden(code: &str, message: impl Into<String>) -> Self {
        Self::from_status(StatusCode::FORBIDDEN, code, message)
    }

    /// Creates the error of a request for what does not exist, or what its sender may not see.
    pub fn not_found(code: &str, message: impl Into<String>) -> Self {
        Self::from_status(StatusCode::NOT_FOUND, code, message)
    }

    /// Creates the error of a request that the present state does not permit.
    pub fn conflict(code: &str, message: impl Into<String>) -> Self {
        Self::from_status(StatusCode::CONFLICT, code, message)
    }

    /// Creates the error of a request that could be carried out later.
    pub fn unavailable(code: &str, message: impl Into<String>) -> Self {
        Self::from_status(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// Creates the error of a failure whose reason is in the log alone.
    pub fn internal() -> Self {
        let message = "the gateway failed; its log has the reason";
        Self::from_status(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// Creates the error of a path that is no route, with the one that is most likely meant.
    pub fn no_such_path(path: &str) -> Self {
        let meant =
            alias::meant(path).map(|meant| format!(" did you mean {meant}?")).unwrap_or_default();
        let people = if path == "/" {
            " operators of a gateway with a management API use /admin;"
        } else {
            ""
        };
        let path = cut(path.to_owned(), SHOWN_BYTES);
        let message = format!(
            "there is nothing at {path:?};{meant}{people} the paths for clients are /v1/chat/completions, /v1/responses, \
             /v1/messages, /v1/models, /v1/mcp/tool/execute, /v1/runs and /mcp"
        );
        Self::not_found("unknown_url", message)
    }

    /// Creates the error of a method that a path does not take.
    pub fn wrong_method(allowed: &[Method]) -> Self {
        let allowed = allowed.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
        let message = format!("this path allows only {allowed}");
        let error =
            Self::from_status(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        error.with_header(header::ALLOW, header_text(allowed))
    }

    /// Status of the response.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Headers of the response besides those of its body.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// Sets `param`, the invalid member of the request.
    pub fn about(mut self, param: &str) -> Self {
        self.0.error.insert("param".to_owned(), param.into());
        self
    }

    /// Adds a header to the response.
    pub fn with_header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    /// Asks the client not to repeat the request, which would run its tools again. Clients repeat requests
    /// with statuses such as 429 and 502 by themselves.
    pub fn not_repeated(self) -> Self {
        let name = header::HeaderName::from_static("x-should-retry");
        self.with_header(name, HeaderValue::from_static("false"))
    }

    /// Sets the `airlock` object: the work that was done before the error.
    pub fn with_airlock(mut self, airlock: Object) -> Self {
        self.0.airlock = Some(airlock);
        self
    }

    /// Sets Bifrost's `extra_fields`.
    pub fn with_extra_fields(mut self, fields: Object) -> Self {
        self.0.extras = Some(fields);
        self
    }

    /// Returns the response in the form of OpenAI's errors.
    pub fn into_reply(mut self) -> Reply {
        let headers = mem::take(&mut self.0.headers);
        let mut reply = with_status(self.0.status, Value::from(self.into_body()).to_string());
        reply.headers_mut().extend(headers);
        reply
    }

    /// Returns the response in the form of Anthropic's errors. `request_id` is repeated in it.
    pub fn into_anthropic_reply(mut self, request_id: &RequestId) -> Reply {
        let headers = mem::take(&mut self.0.headers);
        let status = self.0.status;
        let body = self.into_anthropic_body(request_id);
        let mut reply = with_status(status, Value::from(body).to_string());
        reply.headers_mut().extend(headers);
        reply
    }

    /// Returns the body in the form of Anthropic's errors. Their type depends on the status alone; the
    /// gateway's own members, and `airlock` if work was done, are members of `error`, because
    /// Anthropic's clients keep nothing else of a stream's error.
    pub fn into_anthropic_body(self, request_id: &RequestId) -> Object {
        let ApiErrorFields { status, error, airlock, .. } = *self.0;
        let mut out = object(json!({"type": anthropic_type(status)}));
        out.extend(error.into_iter().filter(|(name, value)| name != "type" && !value.is_null()));
        out.extend(airlock.map(|airlock| (EXTENSION.to_owned(), airlock.into())));
        let id = request_id.to_string().into();
        let members = [("type", "error".into()), ("error", out.into()), ("request_id", id)];
        members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }

    /// Returns the body: `error`, and `airlock` if work was done.
    pub fn into_body(self) -> Object {
        let ApiErrorFields { error, airlock, extras, .. } = *self.0;
        let mut body = Object::from_iter([("error".to_owned(), error.into())]);
        body.extend(extras.map(|fields| ("extra_fields".to_owned(), fields.into())));
        body.extend(airlock.map(|airlock| (EXTENSION.to_owned(), airlock.into())));
        body
    }
}

/// Returns the type of Anthropic's errors with this status.
fn anthropic_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

impl From<ErrorReply> for ApiError {
    fn from(reply: ErrorReply) -> Self {
        let ErrorReply { status, error, retry_after: wait, airlock, extra_fields } = reply;
        let wait = wait.map(|wait| (header::RETRY_AFTER, retry_after(wait)));
        let headers = wait.into_iter().collect();
        Self(Box::new(ApiErrorFields { status, error, headers, airlock, extras: extra_fields }))
    }
}

impl From<Untranslatable> for ApiError {
    fn from(error: Untranslatable) -> Self {
        Self::bad_request(error.code, error.message).about(&error.param)
    }
}

/// Returns the value of `Retry-After` for a wait: whole seconds, and never too early.
pub fn retry_after(wait: Duration) -> HeaderValue {
    let seconds = wait.as_millis().div_ceil(1_000);
    HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_the_same_text_in_a_header_and_in_a_body() {
        let id = RequestId::generate();
        assert_eq!(id.to_header(), id.to_string().as_str());
        assert_eq!(
            RequestId(Uuid::from_u128(10)).to_header(),
            "req_0000000000000000000000000000000a"
        );
    }

    #[test]
    fn the_root_of_a_gateway_names_the_page_for_operators_and_other_paths_do_not() {
        for (path, is_named) in [("/", true), ("/v2", false)] {
            let message = ApiError::no_such_path(path).0.error["message"].to_string();
            assert_eq!(message.contains("use /admin"), is_named, "{message}");
        }
    }

    #[test]
    fn the_status_gives_an_error_its_type_in_anthropics_form() {
        for (status, kind) in [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (405, "invalid_request_error"),
            (413, "request_too_large"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (502, "api_error"),
            (503, "overloaded_error"),
            (504, "timeout_error"),
            (529, "overloaded_error"),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            let error = ApiError::new(status, "server_error", "of_the_gateway", "no")
                .with_airlock(object(json!({"rounds": 1})));
            let expected = json!({"type": "error", "error": {
                "type": kind, "message": "no", "code": "of_the_gateway", "airlock": {"rounds": 1},
            }, "request_id": "req_00000000000000000000000000000001"});
            let id = RequestId(Uuid::from_u128(1));
            assert_eq!(Value::from(error.into_anthropic_body(&id)), expected);
        }
    }
}
