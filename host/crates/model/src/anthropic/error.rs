//! Anthropic's errors in OpenAI's form.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{Object, Refusal, http::error_message, object, translation::ResponseError};

/// Anthropic's types of errors, each with the HTTP status that Anthropic's documentation gives it
/// and OpenAI's `type` of the same meaning.
const TYPES: [(&str, u16, &str); 11] = [
    ("invalid_request_error", 400, "invalid_request_error"),
    ("authentication_error", 401, "authentication_error"),
    ("billing_error", 402, "insufficient_quota"),
    ("permission_error", 403, "permission_error"),
    ("not_found_error", 404, "invalid_request_error"),
    ("conflict_error", 409, "invalid_request_error"),
    ("request_too_large", 413, "invalid_request_error"),
    ("rate_limit_error", 429, "rate_limit_error"),
    ("api_error", 500, "server_error"),
    ("timeout_error", 504, "server_error"),
    ("overloaded_error", 529, "server_error"),
];

impl ResponseError {
    /// Returns the failure that the data of an `error` event reports. Its status is the one that
    /// the same error has as a response, because a stream has already begun with status 200.
    pub(super) fn reported(data: &Object) -> Self {
        let status = native_type(data)
            .and_then(known)
            .and_then(|(_, status, _)| StatusCode::from_u16(*status).ok())
            .unwrap_or(StatusCode::BAD_GATEWAY);
        let error = to_error(status, Some(data));
        Self::Refused(Box::new(Refusal { status, error, retry_after: None }))
    }
}

/// Returns OpenAI's `error` object for a response of `status` with `body`. The native type becomes
/// its `code`. A body without a message, such as the page of a proxy, gets a message that names the
/// status.
pub(super) fn to_error(status: StatusCode, body: Option<&Object>) -> Object {
    let native = body.and_then(native_type);
    let message = body
        .and_then(error_message)
        .unwrap_or_else(|| format!("the provider answered with status {}", status.as_u16()));
    let kind = native.and_then(known).map_or_else(|| kind_of(status), |(_, _, kind)| kind);
    let mut error = object(json!({
        "message": message,
        "type": kind,
        "param": null,
        "code": native.unwrap_or("provider_error"),
    }));
    // Anthropic's support asks for the id of the request.
    if let Some(id @ Value::String(_)) = body.and_then(|body| body.get("request_id")) {
        error.insert("request_id".to_owned(), id.clone());
    }
    error
}

fn native_type(body: &Object) -> Option<&str> {
    body.get("error")?.get("type")?.as_str()
}

fn known(native: &str) -> Option<&'static (&'static str, u16, &'static str)> {
    TYPES.iter().find(|(name, _, _)| *name == native)
}

fn kind_of(status: StatusCode) -> &'static str {
    match TYPES.iter().find(|(_, code, _)| *code == status.as_u16()) {
        Some((_, _, kind)) => kind,
        None if status.is_client_error() => "invalid_request_error",
        None => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: &str) -> Object {
        object(
            json!({"type": "error", "error": {"type": kind, "message": "so"}, "request_id": "req_1"}),
        )
    }

    #[test]
    fn each_native_error_keeps_its_message_and_has_its_type_as_code() {
        for (native, status, kind) in TYPES {
            let status = StatusCode::from_u16(status).expect("a status");
            let expected = json!({
                "message": "so", "type": kind, "param": null, "code": native, "request_id": "req_1"
            });
            assert_eq!(Value::from(to_error(status, Some(&body(native)))), expected);
            let ResponseError::Refused(refusal) = ResponseError::reported(&body(native)) else {
                panic!("{native} is an error");
            };
            assert_eq!((refusal.status, Value::from(refusal.error)), (status, expected));
        }
    }

    #[test]
    fn an_error_without_a_known_type_is_described_by_its_status() {
        for (status, kind) in [
            (400, "invalid_request_error"),
            (418, "invalid_request_error"),
            (429, "rate_limit_error"),
            (500, "server_error"),
            (502, "server_error"),
            (529, "server_error"),
        ] {
            let code = StatusCode::from_u16(status).expect("a status");
            for body in [None, Some(object(json!({"error": "<html>"})))] {
                assert_eq!(
                    Value::from(to_error(code, body.as_ref())),
                    json!({
                        "message": format!("the provider answered with status {status}"),
                        "type": kind, "param": null, "code": "provider_error"
                    })
                );
            }
            let unknown = to_error(code, Some(&body("teapot_error")));
            assert_eq!(
                (&unknown["type"], &unknown["code"]),
                (&json!(kind), &json!("teapot_error"))
            );
        }
        let ResponseError::Refused(refusal) = ResponseError::reported(&body("teapot_error")) else {
            panic!("it is an error");
        };
        assert_eq!(refusal.status, StatusCode::BAD_GATEWAY);
    }
}
