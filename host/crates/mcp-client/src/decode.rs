//! Bounds and redacts the text of a received message, and reads a response from it.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::limits::{MAX_MESSAGE_BYTES, MAX_TREE_BYTES};
use airlock_core::secret::Scrubber;
use airlock_json::{self as json, raw};
use airlock_wire::error::RpcError;

/// Result of waiting for a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// The JSON text of the response.
    Text(Vec<u8>),
    /// The response is over a bound.
    TooLarge,
    /// The response cannot be read, with the reason.
    Unreadable(&'static str),
}

/// Bounds and redacts a response.
pub(super) fn screened(text: &[u8], scrubber: &Scrubber) -> Reception {
    if text.len() > MAX_MESSAGE_BYTES {
        return Reception::TooLarge;
    }
    match json::check(text, &json::Caps::memory(MAX_TREE_BYTES)) {
        Err(json::Error::TooDeep { .. }) => {
            Reception::Unreadable("it is nested more than 127 levels deep")
        }
        Err(error) if error.is_cap() => Reception::TooLarge,
        Err(_) => Reception::Unreadable("it is no valid JSON"),
        Ok(_) => scrubber
            .json(text)
            .map_or(Reception::Unreadable("it has a number that is out of range"), |text| {
                Reception::Text(text.into_owned())
            }),
    }
}

/// Bounds the length of a response whose items are bounded and redacted one by one. A response
/// without a result, such as an error, is bounded and redacted as a whole.
pub(super) fn screened_pages(text: &[u8], scrubber: &Scrubber) -> Reception {
    if text.len() > MAX_MESSAGE_BYTES {
        return Reception::TooLarge;
    }
    let result = std::str::from_utf8(text).ok().and_then(|text| raw::member(text, "result"));
    if result.is_some_and(|result| result.starts_with('{')) {
        Reception::Text(text.to_vec())
    } else {
        screened(text, scrubber)
    }
}

/// Bounds and redacts a message that is no response; `None` if it cannot be read.
pub(super) fn passed(text: &[u8], scrubber: &Scrubber) -> Option<Vec<u8>> {
    match screened(text, scrubber) {
        Reception::Text(text) => Some(text),
        Reception::TooLarge | Reception::Unreadable(_) => None,
    }
}

/// Reads a response that has passed: its result, or its error.
pub fn read_response(text: &[u8]) -> Result<Result<Value, RpcError>, &'static str> {
    let raw: Raw = serde_json::from_slice(text).map_err(|error| {
        if error.to_string().contains("out of range") {
            "it has a number that is out of range"
        } else {
            "it is no response of JSON-RPC"
        }
    })?;
    match (raw.result, raw.error) {
        (_, Some(error)) => Ok(Err(rpc_error(error))),
        (Some(result), None) => Ok(Ok(result)),
        (None, None) => Err("it has neither a result nor an error"),
    }
}

/// Reads the error of JSON-RPC in a body, whatever request it names; `None` if there is none. Proxies
/// and frameworks have a member `error` in their own errors too, so the body needs `jsonrpc` or a
/// code that is a number.
pub(super) fn refusal(text: &[u8]) -> Option<RpcError> {
    let raw: RawRefusal = serde_json::from_slice(text).ok()?;
    let has_code = raw.error.get("code").is_some_and(Value::is_i64);
    (raw.jsonrpc.is_some() || has_code).then(|| rpc_error(raw.error))
}

/// Reads an error. Some servers send a text, or a code that is no number.
pub(super) fn rpc_error(error: Value) -> RpcError {
    match error {
        Value::Object(mut error) => {
            let code = error.get("code");
            let code = code.and_then(Value::as_i64).or_else(|| code?.as_str()?.parse().ok());
            let message = match error.remove("message") {
                Some(Value::String(message)) => message,
                Some(other) => other.to_string(),
                None => String::new(),
            };
            let data = error.remove("data").filter(|data| !data.is_null());
            RpcError { code: code.unwrap_or(0), message, data }
        }
        Value::String(message) => RpcError { code: 0, message, data: None },
        other => RpcError { code: 0, message: other.to_string(), data: None },
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct RawRefusal {
    jsonrpc: Option<Value>,
    error: Value,
}

/// Reads a member that may be `null`, which counts as present.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_core::secret::Secret;

    #[test]
    fn a_response_has_a_result_or_an_error_of_any_shape() {
        assert_eq!(read(r#"{"id":1,"result":null}"#), Ok(Ok(Value::Null)));
        assert_eq!(read(r#"{"result":{"a":1},"error":null}"#), Ok(Ok(json!({"a": 1}))));
        assert!(read(r#"{"id":1}"#).is_err() && read(r#"{"result":1e999}"#).is_err());
        let full = error(r#"{"error":{"code":-32601,"message":"m","data":{"k":1}}}"#);
        let expected = RpcError { code: -32_601, message: "m".into(), data: Some(json!({"k": 1})) };
        assert_eq!(full, expected);
        assert_eq!(error(r#"{"error":"odd"}"#).message, "odd");
        assert_eq!(error(r#"{"error":{"code":"7","message":{"a":1}}}"#).code, 7);
        assert_eq!(error(r#"{"error":[1]}"#).message, "[1]");
    }

    fn read(text: &str) -> Result<Result<Value, RpcError>, &'static str> {
        read_response(text.as_bytes())
    }

    fn error(text: &str) -> RpcError {
        read(text).expect("a response").expect_err("an error")
    }

    #[test]
    fn an_error_is_redacted() {
        let scrubber = Scrubber::new([("TOKEN", &Secret::new("hunter2hunter2"))]);
        let scrubber = scrubber.expect("a good secret");
        let text = br#"{"error":{"code":1,"message":"hunter2hunter2"}}"#;
        let Reception::Text(text) = screened_pages(text, &scrubber) else { panic!("no text") };
        assert!(!String::from_utf8_lossy(&text).contains("hunter2"));
    }

    #[test]
    fn an_error_of_json_rpc_in_a_body_has_its_version_or_a_code() {
        assert_eq!(code(r#"{"error":{"code":-32000,"message":"m"}}"#), Some(-32_000));
        assert_eq!(code(r#"{"jsonrpc":"2.0","error":{"message":"m"}}"#), Some(0));
        for other in [r#"{"error":{"message":"m"}}"#, r#"{"error":"m"}"#, r#"{"jsonrpc":"2.0"}"#] {
            assert_eq!(code(other), None, "{other}");
        }
        assert_eq!(code(r#"{"error":{"code":"not_found","message":"m"}}"#), None);
    }

    fn code(text: &str) -> Option<i64> {
        refusal(text.as_bytes()).map(|error| error.code)
    }

    #[test]
    fn a_response_is_bounded_in_bytes_depth_and_memory() {
        let scrubber = Scrubber::default();
        let fits = result_of(MAX_MESSAGE_BYTES);
        assert_eq!(screened(fits.as_bytes(), &scrubber), Reception::Text(fits.into_bytes()));
        let beyond = result_of(MAX_MESSAGE_BYTES + 1);
        assert_eq!(screened(beyond.as_bytes(), &scrubber), Reception::TooLarge);
        let deep = format!(r#"{{"result":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert!(matches!(screened(deep.as_bytes(), &scrubber), Reception::Unreadable(_)));
        let page = deep.replace(r#"{"result":"#, r#"{"result":{"tools":"#) + "}";
        assert!(matches!(screened_pages(page.as_bytes(), &scrubber), Reception::Text(_)));
        let dense = format!(r#"{{"result":[{}1]}}"#, r#"{"":0},"#.repeat(200_000));
        assert_eq!(screened(dense.as_bytes(), &scrubber), Reception::TooLarge);
        // What has no items is bounded as a whole.
        assert_eq!(screened_pages(dense.as_bytes(), &scrubber), Reception::TooLarge);
        let error = dense.replace("result", "error");
        assert_eq!(screened_pages(error.as_bytes(), &scrubber), Reception::TooLarge);
        let error = error.replace(r#"{"error""#, r#"{"result":null,"error""#);
        assert_eq!(screened_pages(error.as_bytes(), &scrubber), Reception::TooLarge);
        assert!(matches!(screened(b"{", &scrubber), Reception::Unreadable(_)));
    }

    /// Returns a response of so many bytes.
    fn result_of(bytes: usize) -> String {
        format!(r#"{{"result":"{}"}}"#, "x".repeat(bytes - 13))
    }
}
