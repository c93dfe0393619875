//! Translates the error object of a failed request.

use serde_json::Value;

use airlock_conversation::Object;

/// Values of `error.code` in a Response, as OpenAI documents them. Typed clients know no others.
const CODES: &[&str] = &[
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "data_residency_mismatch",
    "bio_policy",
    "misalignment_policy_violation",
    "vector_store_timeout",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_content_policy_violation",
    "invalid_image_mode",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
];

/// Member with the time to wait before a retry, in milliseconds.
const RETRY_AFTER_MS: &str = "retry_after_ms";

/// Translates an error object of chat completions into the `error` of a Response. A code that the
/// Responses API does not define moves to `native_code`, and the type of the error selects one that
/// it does define.
pub(super) fn to_responses(error: &Object) -> Object {
    let native = text(error, "code").filter(|code| !code.is_empty());
    let code = match native {
        Some(code) if CODES.contains(&code) => code,
        _ => match text(error, "type") {
            Some("rate_limit_error" | "rate_limit_exceeded" | "requests" | "tokens") => {
                "rate_limit_exceeded"
            }
            Some("invalid_request_error") => "invalid_prompt",
            _ => "server_error",
        },
    };
    let message = text(error, "message").unwrap_or("The model returned no response.");
    let mut out = Object::new();
    out.insert("code".to_owned(), code.into());
    out.insert("message".to_owned(), message.into());
    for name in ["type", "param"] {
        out.extend(text(error, name).map(|value| (name.to_owned(), value.into())));
    }
    // The time that a limit of the gateway tells.
    let wait = error.get(RETRY_AFTER_MS).and_then(Value::as_u64);
    out.extend(wait.map(|wait| (RETRY_AFTER_MS.to_owned(), wait.into())));
    let native = native.filter(|native| *native != code);
    out.extend(native.map(|native| ("native_code".to_owned(), native.into())));
    out
}

fn text<'a>(error: &'a Object, name: &str) -> Option<&'a str> {
    error.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_json::object;

    #[test]
    fn an_error_has_a_code_of_the_responses_api_and_keeps_its_own() {
        for (error, expected) in [
            (
                json!({"message": "m", "type": "server_error", "param": null, "code": "agent_timeout"}),
                json!({"code": "server_error", "message": "m", "type": "server_error", "native_code": "agent_timeout"}),
            ),
            (
                json!({"message": "m", "type": "tokens", "code": "rate_limit_exceeded"}),
                json!({"code": "rate_limit_exceeded", "message": "m", "type": "tokens"}),
            ),
            (
                json!({"message": "m", "type": "invalid_request_error", "param": "messages", "code": null}),
                json!({"code": "invalid_prompt", "message": "m", "type": "invalid_request_error", "param": "messages"}),
            ),
            (
                json!({"message": "m", "type": "rate_limit_error", "code": "limit_reached", "retry_after_ms": 1_500}),
                json!({"code": "rate_limit_exceeded", "message": "m", "type": "rate_limit_error", "retry_after_ms": 1_500, "native_code": "limit_reached"}),
            ),
            (
                json!({}),
                json!({"code": "server_error", "message": "The model returned no response."}),
            ),
        ] {
            assert_eq!(Value::Object(to_responses(&object(error))), expected);
        }
    }
}
