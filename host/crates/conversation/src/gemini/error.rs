//! Gemini's errors in OpenAI's form.
//!
//! Google's services report `{"error": {"code": 429, "message": "…", "status": "RESOURCE_EXHAUSTED",
//! "details": […]}}`, as a response or as an event of a stream.

use serde_json::Value;

use super::object_of;
use crate::{Object, ReplyError};

/// `code` of the error of a key that is not valid, which Gemini reports with the HTTP status 400.
pub const INVALID_KEY: &str = "API_KEY_INVALID";

/// Google's canonical statuses, each with its status of HTTP and OpenAI's `type` of the same meaning.
const STATUSES: [(&str, u16, &str); 16] = [
    ("INVALID_ARGUMENT", 400, "invalid_request_error"),
    ("FAILED_PRECONDITION", 400, "invalid_request_error"),
    ("OUT_OF_RANGE", 400, "invalid_request_error"),
    ("UNAUTHENTICATED", 401, "authentication_error"),
    ("PERMISSION_DENIED", 403, "permission_error"),
    ("NOT_FOUND", 404, "invalid_request_error"),
    ("ABORTED", 409, "invalid_request_error"),
    ("ALREADY_EXISTS", 409, "invalid_request_error"),
    ("RESOURCE_EXHAUSTED", 429, "rate_limit_error"),
    ("CANCELLED", 499, "server_error"),
    ("INTERNAL", 500, "server_error"),
    ("UNKNOWN", 500, "server_error"),
    ("DATA_LOSS", 500, "server_error"),
    ("UNIMPLEMENTED", 501, "server_error"),
    ("UNAVAILABLE", 503, "server_error"),
    ("DEADLINE_EXCEEDED", 504, "server_error"),
];

/// Status of an error that names none.
const BAD_GATEWAY: u16 = 502;

/// Reads the error of a response; `None` if it has no `error` that is an object with a message. The
/// error's `code` is Google's status, or [`INVALID_KEY`].
pub fn read_error(response: &Object) -> Option<ReplyError> {
    let error = response.get("error")?.as_object()?;
    let message = error.get("message")?.as_str()?;
    let native = error.get("status").and_then(Value::as_str);
    let known = STATUSES.iter().find(|(name, _, _)| Some(*name) == native);
    let has_invalid_key = reasons(error).any(|reason| reason == INVALID_KEY);
    let status = match (has_invalid_key, error.get("code").and_then(http_status), known) {
        (true, _, _) => 401,
        (_, Some(code), _) => code,
        (_, None, Some((_, code, _))) => *code,
        (_, None, None) => BAD_GATEWAY,
    };
    let kind = match (has_invalid_key, known) {
        (true, _) => "authentication_error",
        (_, Some((_, _, kind))) => kind,
        (_, None) if status < 500 => "invalid_request_error",
        (_, None) => "server_error",
    };
    let code = if has_invalid_key { INVALID_KEY } else { native.unwrap_or("provider_error") };
    Some(reported(message, kind, code, status))
}

/// Returns an error in OpenAI's form.
pub(super) fn reported(message: &str, kind: &str, code: &str, status: u16) -> ReplyError {
    let error = object_of([
        ("message", message.into()),
        ("type", kind.into()),
        ("param", Value::Null),
        ("code", code.into()),
    ]);
    ReplyError::Reported { error, status: Some(status) }
}

/// Iterates over the reasons in the details of an error.
fn reasons(error: &Object) -> impl Iterator<Item = &str> {
    let details = error.get("details").and_then(Value::as_array);
    details.into_iter().flatten().filter_map(|detail| detail.get("reason")?.as_str())
}

fn http_status(code: &Value) -> Option<u16> {
    let code = u16::try_from(code.as_u64()?).ok()?;
    (400..600).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(response: Value) -> Option<(Value, Option<u16>)> {
        let Value::Object(response) = response else { panic!("an object") };
        read_error(&response).map(|error| match error {
            ReplyError::Reported { error, status } => (error.into(), status),
            ReplyError::Invalid { what } => panic!("{what}"),
        })
    }

    #[test]
    fn each_status_of_google_has_its_type_and_stays_as_the_code() {
        for (native, status, kind) in STATUSES {
            let expected = json!({"message": "so", "type": kind, "param": null, "code": native});
            for error in [
                json!({"code": status, "message": "so", "status": native}),
                json!({"message": "so", "status": native}),
            ] {
                let found = read(json!({"error": error}));
                assert_eq!(found, Some((expected.clone(), Some(status))), "{native}");
            }
        }
    }

    #[test]
    fn a_key_that_is_not_valid_is_an_error_of_authentication() {
        // As documented for `generativelanguage.googleapis.com`.
        let error = json!({"error": {
            "code": 400, "message": "API key not valid. Please pass a valid API key.",
            "status": "INVALID_ARGUMENT",
            "details": [{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
                "domain": "googleapis.com"
            }]
        }});
        let (error, status) = read(error).expect("an error");
        assert_eq!(status, Some(401));
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("authentication_error"), &json!(INVALID_KEY))
        );
    }

    #[test]
    fn an_error_without_a_known_status_is_described_by_its_code() {
        for (error, status, kind, code) in [
            (json!({"message": "so", "code": 418}), 418, "invalid_request_error", "provider_error"),
            (json!({"message": "so", "code": 7}), 502, "server_error", "provider_error"),
            (json!({"message": "so", "status": "NEW"}), 502, "server_error", "NEW"),
        ] {
            let (found, of) = read(json!({"error": error})).expect("an error");
            assert_eq!(of, Some(status), "{error}");
            assert_eq!((&found["type"], &found["code"]), (&json!(kind), &json!(code)), "{error}");
        }
        for none in
            [json!({}), json!({"error": null}), json!({"error": "text"}), json!({"error": {}})]
        {
            assert_eq!(read(none.clone()), None, "{none}");
        }
    }
}
