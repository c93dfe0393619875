//! Headers of streamable HTTP, and those that repeat parts of a request (2026-07-28, section "Standard
//! headers"): its method and name, and the arguments that `x-mcp-header` in the input schema of a tool
//! asks for.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::header::HeaderName;
use serde_json::{Map, Value};

use super::{message::Params, method};

/// Identifier of a session.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The last event that a client has received.
pub const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// Revision of the protocol.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Method of the request.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// Name of the tool, or URI of the resource, that the request is about.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Annotation of a property whose value a header repeats.
pub const ANNOTATION: &str = "x-mcp-header";
/// Prefix of the headers.
pub const PREFIX: &str = "mcp-param-";
/// Enclose a value in Base64.
const SENTINELS: (&str, &str) = ("=?base64?", "?=");

/// Returns the value of [`NAME`]; `None` if the method has none.
pub fn name<'p>(method: &str, params: &'p Params) -> Option<Cow<'p, str>> {
    let member = match method {
        method::TOOLS_CALL | method::PROMPTS_GET => "name",
        method::RESOURCES_READ => "uri",
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => "taskId",
        _ => return None,
    };
    params.string(member)
}

/// Returns the value of a header, out of Base64 if it is enclosed so; `None` if that is invalid.
pub fn decoded(value: &str) -> Option<Cow<'_, str>> {
    match enclosed(value) {
        None => Some(value.into()),
        Some(encoded) => {
            let bytes = BASE64_STANDARD.decode(encoded).ok()?;
            Some(String::from_utf8(bytes).ok()?.into())
        }
    }
}

/// Returns a value as a header can have it: in Base64 if it has other characters than printable
/// ASCII, begins or ends with a space, or is enclosed like a value in Base64.
pub fn encoded(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim_matches(' ') == value
        && enclosed(value).is_none();
    if is_plain {
        return value.into();
    }
    let (start, end) = SENTINELS;
    format!("{start}{}{end}", BASE64_STANDARD.encode(value)).into()
}

fn enclosed(value: &str) -> Option<&str> {
    let (start, end) = SENTINELS;
    value.strip_prefix(start).and_then(|value| value.strip_suffix(end))
}

/// Returns the headers that a call must have, each with its value; `None` for a header that must be
/// absent, because the argument is. Annotations that name no valid header are left out.
pub fn expected(schema: &str, arguments: &str) -> Vec<(HeaderName, Option<String>)> {
    // Nearly no schema has one, and the others need no parsing.
    if !schema.contains(ANNOTATION) {
        return Vec::new();
    }
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let mut found = Vec::new();
    collect(schema.get("properties"), Some(&arguments), &mut found);
    found
}

fn collect(
    properties: Option<&Value>,
    arguments: Option<&Value>,
    found: &mut Vec<(HeaderName, Option<String>)>,
) {
    let none = Map::new();
    for (name, schema) in properties.and_then(Value::as_object).unwrap_or(&none) {
        let argument = arguments.and_then(|arguments| arguments.get(name));
        let header =
            schema.get(ANNOTATION).and_then(Value::as_str).filter(|header| !header.is_empty());
        let header = header.and_then(|header| {
            HeaderName::try_from(format!("{PREFIX}{}", header.to_ascii_lowercase())).ok()
        });
        found.extend(header.map(|header| (header, argument.and_then(scalar))));
        collect(schema.get("properties"), argument, found);
    }
}

/// Returns a value as a header has it; `None` for null, arrays and objects.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotated_arguments_are_expected_as_headers_at_any_depth() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "flag": {"x-mcp-header": "Flag"},
            "absent": {"x-mcp-header": "Absent"},
            "bad": {"x-mcp-header": "a b"},
            "nested": {"properties": {"n": {"x-mcp-header": "N"}}},
            "plain": {"type": "string"},
        }});
        let arguments =
            json!({"region": "ä", "flag": true, "nested": {"n": 7}, "plain": "x", "bad": "x"});
        let found = expected(&schema.to_string(), &arguments.to_string());
        let found: Vec<_> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        let expected = [
            ("mcp-param-region", Some("ä")),
            ("mcp-param-flag", Some("true")),
            ("mcp-param-absent", None),
            ("mcp-param-n", Some("7")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_value_is_encoded_only_if_it_has_to_be() {
        for value in ["", "a b", "a-b_c", "~"] {
            assert_eq!((encoded(value), decoded(value)), (value.into(), Some(value.into())));
        }
        for value in ["ä", " a", "a ", "a\nb", "=?base64?eA==?=", "=?base64??="] {
            let written = encoded(value);
            assert!(written.starts_with("=?base64?") && written != value, "{written}");
            assert_eq!(decoded(&written).as_deref(), Some(value));
        }
        assert_eq!(decoded("=?base64?eA=="), Some("=?base64?eA==".into()));
        for bad in ["=?base64?eA=?=", "=?base64?e!A==?=", "=?base64?/w==?="] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_schema_without_annotations_is_not_parsed() {
        assert!(expected("not JSON", "{}").is_empty());
    }
}
