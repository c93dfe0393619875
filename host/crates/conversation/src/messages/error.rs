//! Anthropic's errors in OpenAI's form.

use airlock_strings::{MAX_LINE_BYTES, cut};
use serde_json::Value;

use super::object_of;
use crate::{Object, ReplyError};

/// Status of an error whose type is not known.
const BAD_GATEWAY: u16 = 502;

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

/// Returns the failure that the data of an `error` event reports. Its status is the one that the same
/// error has as a response, because a stream has already begun with status 200.
pub(super) fn reported(data: &Object) -> ReplyError {
    let status = native_type(data).and_then(known).map_or(BAD_GATEWAY, |(_, status, _)| *status);
    let message = data.get("error").and_then(|error| error.get("message")?.as_str());
    let message = message.map(|message| cut(message.to_owned(), MAX_LINE_BYTES));
    ReplyError::Reported { error: to_error(status, message, Some(data)), status: Some(status) }
}

/// Returns OpenAI's `error` object for a response of `status` with `body`, whose message is `message`. The
/// native type becomes its `code`. A body without a message, such as the page of a proxy, gets a message
/// that names the status.
pub fn to_error(status: u16, message: Option<String>, body: Option<&Object>) -> Object {
    let native = body.and_then(native_type);
    let message = message.unwrap_or_else(|| format!("the provider responded with status {status}"));
    let kind = native.and_then(known).map_or_else(|| kind_of(status), |(_, _, kind)| kind);
    let mut error = object_of([
        ("message", message.into()),
        ("type", kind.into()),
        ("param", Value::Null),
        ("code", native.unwrap_or("provider_error").into()),
    ]);
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

fn kind_of(status: u16) -> &'static str {
    match TYPES.iter().find(|(_, code, _)| *code == status) {
        Some((_, _, kind)) => kind,
        None if (400..500).contains(&status) => "invalid_request_error",
        None => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(kind: &str) -> Object {
        airlock_json::object(
            json!({"type": "error", "error": {"type": kind, "message": "so"}, "request_id": "req_1"}),
        )
    }

    fn written(status: u16, message: Option<&str>, body: Option<&Object>) -> Value {
        to_error(status, message.map(str::to_owned), body).into()
    }

    #[test]
    fn each_native_error_keeps_its_message_and_has_its_type_as_code() {
        for (native, status, kind) in TYPES {
            let expected = json!({
                "message": "so", "type": kind, "param": null, "code": native, "request_id": "req_1"
            });
            assert_eq!(written(status, Some("so"), Some(&body(native))), expected);
            let error = airlock_json::object(expected);
            let reported = reported(&body(native));
            assert_eq!(reported, ReplyError::Reported { error, status: Some(status) });
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
            assert_eq!(
                written(status, None, None),
                json!({
                    "message": format!("the provider responded with status {status}"),
                    "type": kind, "param": null, "code": "provider_error"
                })
            );
            let unknown = written(status, Some("so"), Some(&body("teapot_error")));
            assert_eq!(
                (&unknown["type"], &unknown["code"]),
                (&json!(kind), &json!("teapot_error"))
            );
        }
        let ReplyError::Reported { status, .. } = reported(&body("teapot_error")) else {
            panic!("it is an error");
        };
        assert_eq!(status, Some(BAD_GATEWAY));
    }
}
