//! Errors that a Response or a stream reports.

use serde_json::Value;

use super::object_of;
use crate::{Object, ReplyError};

/// Status of an error that tells none.
const BAD_GATEWAY: u16 = 502;
/// Codes of errors, each with the status that the same error has before a response has begun.
/// OpenAI documents the other codes as faults of the input.
const CODES: [(&str, u16); 8] = [
    ("server_error", 500),
    ("rate_limit_exceeded", 429),
    ("insufficient_quota", 429),
    ("vector_store_timeout", 504),
    ("invalid_api_key", 401),
    ("server_is_overloaded", 503),
    ("slow_down", 503),
    ("context_length_exceeded", 400),
];
/// Beginnings and ends of the codes of faults of the input.
const INPUT_CODES: [&str; 5] = ["invalid_", "image_", "empty_", "unsupported_", "failed_to_"];

/// Returns the failure that an `error` object reports: that of a failed Response, or the data of an
/// `error` event, which may have the object as a member.
pub(super) fn reported(data: &Object) -> ReplyError {
    let error = data.get("error").and_then(Value::as_object).unwrap_or(data);
    let code = text(error, "code");
    let status = status_of(error, code, text(error, "type"));
    let kind = text(error, "type").filter(|kind| *kind != "error").unwrap_or(match status {
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    });
    let message =
        text(error, "message").unwrap_or("the provider reported an error without a message");
    let error = object_of([
        ("message", message.into()),
        ("type", kind.into()),
        ("param", text(error, "param").into()),
        ("code", code.unwrap_or("provider_error").into()),
    ]);
    ReplyError::Reported { error, status: Some(status) }
}

fn text<'a>(error: &'a Object, name: &str) -> Option<&'a str> {
    error.get(name).and_then(Value::as_str)
}

/// Returns the status of an error in a stream, whose own status is 200.
fn status_of(error: &Object, code: Option<&str>, kind: Option<&str>) -> u16 {
    let number = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
    // 407 is about a proxy, and none has answered.
    let number = number.filter(|number| (400..600).contains(number) && *number != 407);
    let known = code.and_then(|code| {
        let listed = CODES.iter().find(|(name, _)| *name == code).map(|(_, status)| *status);
        listed.or_else(|| INPUT_CODES.iter().any(|start| code.starts_with(start)).then_some(400))
    });
    let by_type = (kind == Some("invalid_request_error")).then_some(400);
    let status = number.and_then(|number| u16::try_from(number).ok()).or(known).or(by_type);
    status.unwrap_or(BAD_GATEWAY)
}

#[cfg(test)]
mod tests {
    use airlock_json::object;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_in_a_stream_has_the_status_that_it_would_have_as_a_response() {
        for (error, status, kind) in [
            (json!({"code": "rate_limit_exceeded", "message": "m"}), 429, "rate_limit_error"),
            (json!({"code": "server_error", "message": "m"}), 500, "server_error"),
            (json!({"code": "invalid_prompt", "message": "m"}), 400, "invalid_request_error"),
            (json!({"code": "image_too_large", "message": "m"}), 400, "invalid_request_error"),
            (json!({"code": "new_in_2027", "message": "m"}), 502, "server_error"),
            (json!({"code": 503, "message": "m"}), 503, "server_error"),
            (
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}),
                400,
                "invalid_request_error",
            ),
            (
                json!({"type": "error", "code": null, "message": "m", "param": null}),
                502,
                "server_error",
            ),
        ] {
            let ReplyError::Reported { error: found, status: reported } =
                reported(&object(error.clone()))
            else {
                panic!("{error} is an error");
            };
            assert_eq!((reported, &found["type"]), (Some(status), &json!(kind)), "{error}");
            assert_eq!(found["message"], "m");
        }
    }
}
