//! Reads the reason that a server refused an HTTP request.

use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::Response;
use serde_json::Value;

use super::{
    super::{decode, inbox::Inbox, limits::MAX_ERROR_BODY_BYTES, transport::SendError},
    body,
};
use airlock_core::tool::Cause;
use airlock_mcp_oauth::MAX_REASON_BYTES;
use airlock_strings::{cut, one_line, with_causes};
use airlock_wire::{error::RpcError, message};

/// Content type of a JSON body.
pub(crate) const JSON: &str = "application/json";
/// Content type of a stream of events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Reason that a request failed. It contains no secret and no URL.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RequestFailed(pub(crate) String);

/// A response whose status is no success.
#[derive(Debug)]
pub(crate) enum RefusedResponse {
    /// Other credentials are needed.
    Unauthorized(String),
    /// The body is an error of JSON-RPC, with this text.
    WithError { status: StatusCode, body: Vec<u8> },
    /// A status without a useful reason.
    WithStatus(StatusCode),
    /// Any other text.
    WithText { status: StatusCode, text: String },
}

impl RefusedResponse {
    /// Reads the reason. A body that is too long or broken never hides the status.
    pub(crate) async fn read(response: Response, inbox: &Inbox) -> Self {
        let status = response.status();
        let is_json = has_type(&response, JSON);
        let challenge = quoted(&response, &header::WWW_AUTHENTICATE, inbox);
        let body = match body::read(response, MAX_ERROR_BODY_BYTES, inbox).await {
            Ok(body) => body,
            Err(body::BodyError::Broken(error)) => with_causes(&error.without_url()).into_bytes(),
            Err(error) => error.to_string().into_bytes(),
        };
        let text = inbox.quote(&body);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Self::Unauthorized(format!("HTTP {status}: {}", challenge.unwrap_or(text)))
            }
            StatusCode::TOO_MANY_REQUESTS => Self::WithStatus(status),
            _ if is_json && decode::refusal(&body).is_some() => Self::WithError { status, body },
            _ if status.is_server_error() => Self::WithStatus(status),
            _ if status.is_redirection() => Self::WithText {
                status,
                text: "redirects to another origin are not followed".to_owned(),
            },
            _ => Self::WithText { status, text },
        }
    }

    /// Hands the refusal of the request `id` to the inbox, if it is an error of JSON-RPC. In that of a
    /// handshake, the message names the status, because the operator reads it. A `server/discover` that was refused with a 4xx status becomes such an error too: a legacy
    /// server, or a proxy in front of it, may refuse an unknown method without JSON-RPC. Fails for
    /// any other refusal.
    pub(crate) fn hand_over(
        self,
        id: i64,
        is_probe: bool,
        is_handshake: bool,
        inbox: &Inbox,
    ) -> Result<(), SendError> {
        match self {
            Self::WithError { status, body } if is_handshake => {
                let error = decode::refusal(&body);
                let (code, message) =
                    error.map(|error| (error.code, error.message)).unwrap_or_default();
                let error = RpcError::new(code, format!("HTTP {status}: {message}"));
                inbox.receive_as(id, message::failure(Some(&id.into()), &error).as_bytes());
            }
            Self::WithError { body, .. } => inbox.receive_as(id, &body),
            Self::WithText { status, text } if is_probe && status.is_client_error() => {
                let message = format!("server/discover rejected with HTTP {status}: {text}");
                let error = RpcError::invalid_request(message);
                inbox.receive_as(id, message::failure(Some(&id.into()), &error).as_bytes());
            }
            other => return Err(other.into_error(inbox)),
        }
        Ok(())
    }

    /// Returns whether the refusal says that the session is unknown. The specification has status
    /// 404 for it, but servers built on older SDKs use 400 with an error that only its text
    /// distinguishes.
    pub(crate) fn names_lost_session(&self) -> bool {
        let Self::WithError { status: StatusCode::BAD_REQUEST, body } = self else { return false };
        let error = decode::refusal(body);
        error.is_some_and(|error| {
            let message = error.message.to_ascii_lowercase();
            matches!(error.code, -32_001 | -32_000)
                && message.contains("session")
                && ["no valid", "invalid", "not found", "unknown", "expired"]
                    .iter()
                    .any(|word| message.contains(word))
        })
    }

    /// Returns the error of a message that is no request, or of a request whose refusal is no
    /// error of JSON-RPC.
    pub(crate) fn into_error(self, inbox: &Inbox) -> SendError {
        let text = match self {
            Self::Unauthorized(reason) => return SendError::Unauthorized(reason),
            Self::WithError { status, body } => {
                let error = decode::refusal(&body).map(|error| error.message).unwrap_or_default();
                let text = inbox.scrubber().line(&one_line(&error), MAX_REASON_BYTES);
                format!("HTTP {status}: {text}")
            }
            Self::WithStatus(status) => format!("HTTP {status}"),
            Self::WithText { status, text } => format!("HTTP {status}: {text}"),
        };
        failed(cut(text, MAX_REASON_BYTES))
    }
}

/// Creates the error of a message that the server may have received.
pub(crate) fn failed(text: impl Into<String>) -> SendError {
    SendError::Failed(Cause::from(RequestFailed(text.into())))
}

/// Converts the error of an HTTP client. A message for which no connection was made was not sent.
pub(crate) fn broken(error: reqwest::Error, inbox: &Inbox) -> SendError {
    let is_unsent = error.is_connect() || error.is_builder();
    let text = inbox.scrubber().line(&with_causes(&error.without_url()), MAX_REASON_BYTES);
    let cause = Cause::from(RequestFailed(text));
    if is_unsent { SendError::NotSent(cause) } else { SendError::Failed(cause) }
}

/// Returns the value of a header for use in a message: redacted, on one line, and cut.
pub(crate) fn quoted(response: &Response, name: &HeaderName, inbox: &Inbox) -> Option<String> {
    response.headers().get(name).map(|value| inbox.quote(value.as_bytes()))
}

/// Returns whether a response has the content type `expected`, in any case and with any parameters.
pub(crate) fn has_type(response: &Response, expected: &str) -> bool {
    let found = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = found.and_then(|found| found.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(expected.as_bytes()))
}

/// Creates the error of a response whose content type is not among the `expected` ones.
pub(crate) fn unexpected_type(response: &Response, expected: &[&str], inbox: &Inbox) -> SendError {
    let found = quoted(response, &header::CONTENT_TYPE, inbox);
    let status = response.status();
    failed(match found {
        Some(found) => format!(
            "HTTP {status} with the content type {}; expected {}",
            Value::from(found),
            expected.join(" or ")
        ),
        None => format!("HTTP {status} without a content type"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{decode::Reception, inbox::ResponseKind};

    fn response(status: u16, content_type: &str, body: &str) -> Response {
        let response = http::Response::builder().status(status);
        let response = response.header(header::CONTENT_TYPE, content_type);
        response.body(body.to_owned()).expect("a response").into()
    }

    async fn reason(status: u16, content_type: &str, body: &str) -> String {
        let (inbox, _unsolicited) = Inbox::new(Arc::default());
        let refusal = RefusedResponse::read(response(status, content_type, body), &inbox).await;
        refusal.into_error(&inbox).to_string()
    }

    #[test]
    fn a_content_type_is_compared_whole_and_without_its_parameters() {
        for (content_type, is_json) in [
            ("application/json", true),
            ("Application/JSON ; charset=utf-8", true),
            ("application/jsonx", false),
            ("application/json-seq", false),
            ("", false),
        ] {
            let response = response(200, content_type, "");
            assert_eq!(has_type(&response, JSON), is_json, "{content_type}");
        }
    }

    #[tokio::test]
    async fn every_refusal_names_its_status_whatever_its_body_is() {
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no\nway"}}"#;
        insta::assert_snapshot!(reason(400, JSON, error).await, @"HTTP 400 Bad Request: no way");
        let foreign = r#"{"error":{"message":"no such path"}}"#;
        insta::assert_snapshot!(reason(404, JSON, foreign).await, @r#"HTTP 404 Not Found: {"error":{"message":"no such path"}}"#);
        insta::assert_snapshot!(reason(404, "text/html", "<p>gone").await, @"HTTP 404 Not Found: <p>gone");
        insta::assert_snapshot!(reason(500, "text/html", "<p>secret").await, @"HTTP 500 Internal Server Error");
        insta::assert_snapshot!(reason(302, "text/html", "").await, @"HTTP 302 Found: redirects to another origin are not followed");
        insta::assert_snapshot!(reason(401, "text/html", "who").await, @"the server refuses the credentials: HTTP 401 Unauthorized: who");
        let fits = "x".repeat(MAX_ERROR_BODY_BYTES);
        assert!(reason(400, "text/html", &fits).await.starts_with("HTTP 400 Bad Request: xxx"));
        let large = format!("{fits}x");
        for content_type in ["text/html", JSON] {
            let reason = reason(400, content_type, &large).await;
            assert_eq!(reason, "HTTP 400 Bad Request: the body has more than 65536 bytes");
        }
    }

    #[tokio::test]
    async fn a_refused_probe_becomes_an_error_of_json_rpc_and_another_request_fails() {
        for (status, is_probe, expected) in
            [(404, true, true), (404, false, false), (500, true, false), (401, true, false)]
        {
            let (inbox, _unsolicited) = Inbox::new(Arc::default());
            let mut waiting = inbox.expect(7, ResponseKind::Whole);
            let refusal =
                RefusedResponse::read(response(status, "text/plain", "what?"), &inbox).await;
            let handed_over = refusal.hand_over(7, is_probe, false, &inbox);
            assert_eq!(handed_over.is_ok(), expected, "{status}");
            let text = match waiting.response.try_recv() {
                Ok(Reception::Text(text)) => text,
                _ => Vec::new(),
            };
            assert_eq!(decode::refusal(&text).is_some(), expected, "{status}");
        }
    }

    #[tokio::test]
    async fn a_refused_handshake_names_the_status_and_keeps_the_code() {
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no way"}}"#;
        for (is_handshake, message) in [(true, "HTTP 400 Bad Request: no way"), (false, "no way")] {
            let (inbox, _unsolicited) = Inbox::new(Arc::default());
            let mut waiting = inbox.expect(7, ResponseKind::Whole);
            let refusal = RefusedResponse::read(response(400, JSON, error), &inbox).await;
            refusal.hand_over(7, false, is_handshake, &inbox).expect("it is an error of JSON-RPC");
            let Ok(Reception::Text(text)) = waiting.response.try_recv() else { panic!("no text") };
            let error = decode::refusal(&text).expect("an error");
            assert_eq!((error.code, error.message.as_str()), (-32_000, message));
        }
    }

    #[test]
    fn an_unexpected_content_type_is_named_with_those_that_the_request_accepts() {
        let (inbox, _unsolicited) = Inbox::new(Arc::default());
        let error = unexpected_type(&response(200, JSON, "{}"), &[EVENT_STREAM], &inbox);
        insta::assert_snapshot!(error, @r#"HTTP 200 OK with the content type "application/json"; expected text/event-stream"#);
        let error = unexpected_type(&response(200, "text/html", ""), &[JSON, EVENT_STREAM], &inbox);
        insta::assert_snapshot!(error, @r#"HTTP 200 OK with the content type "text/html"; expected application/json or text/event-stream"#);
    }

    #[tokio::test]
    async fn only_an_error_about_a_missing_session_means_that_the_session_is_lost() {
        let (inbox, _unsolicited) = Inbox::new(Arc::default());
        for (status, code, message, is_lost) in [
            (400, -32_000, "Bad Request: No valid session ID provided", true),
            (400, -32_001, "Session not found", true),
            (400, -32_000, "Bad Request: Server not initialized", false),
            (400, -32_602, "session not found", false),
            (409, -32_000, "No valid session ID provided", false),
        ] {
            let error = json!({"error": {"code": code, "message": message}}).to_string();
            let refusal = RefusedResponse::read(response(status, JSON, &error), &inbox).await;
            assert_eq!(refusal.names_lost_session(), is_lost, "{message}");
        }
    }
}
