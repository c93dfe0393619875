//! Requests that cannot be translated.

use serde_json::Value;

use super::Path;
use airlock_strings::{MAX_WORD_BYTES, cut};

/// Reason that a request cannot be translated into a chat completion request, in the wording of
/// OpenAI's API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Untranslatable {
    /// `code` of the error object, such as `unsupported_value`.
    pub code: &'static str,
    /// `param` of the error object: the position of the invalid value.
    pub param: String,
    /// `message` of the error object.
    pub message: String,
}

/// Result of the translation of a request, or of a part of it.
pub(crate) type Result<T, E = Untranslatable> = std::result::Result<T, E>;

impl Untranslatable {
    fn new(code: &'static str, path: &Path<'_>, message: String) -> Self {
        Self { code, param: path.to_string(), message }
    }

    /// A parameter that is not defined, but like the defined one `meant`.
    pub fn misspelt(path: &Path<'_>, meant: &str) -> Self {
        let message = format!("Unknown parameter: '{path}'. Did you mean '{meant}'?");
        Self::new("unknown_parameter", path, message)
    }

    /// A parameter that has no counterpart. `advice` is a sentence.
    pub fn unsupported_parameter(path: &Path<'_>, advice: &str) -> Self {
        let message = format!("Unsupported parameter: '{path}'. {advice}");
        Self::new("unsupported_parameter", path, message)
    }

    /// A parameter whose value has no counterpart. `advice` is a sentence.
    pub fn unsupported_value(path: &Path<'_>, found: &Value, advice: &str) -> Self {
        let found = quoted(found);
        let message = format!("Unsupported value: '{path}' does not support {found}. {advice}");
        Self::new("unsupported_value", path, message)
    }

    /// A value that is none of the supported ones.
    pub fn invalid_value(path: &Path<'_>, found: &str, supported: &[&str]) -> Self {
        let found = excerpt(found);
        let supported = listed(supported);
        let message =
            format!("Invalid value: '{found}'. Supported values for '{path}' are: {supported}.");
        Self::new("invalid_value", path, message)
    }

    /// A value that is none of the supported ones, or absent if it is empty.
    pub fn not_among(path: &Path<'_>, found: &str, supported: &[&str]) -> Self {
        if found.is_empty() {
            return Self::missing(path);
        }
        Self::invalid_value(path, found, supported)
    }

    /// A value of the wrong type. `expected` has its article: `a string`.
    pub fn invalid_type(path: &Path<'_>, expected: &str, found: &Value) -> Self {
        let found = kind(found);
        let message =
            format!("Invalid type for '{path}': expected {expected}, but got {found} instead.");
        Self::new("invalid_type", path, message)
    }

    /// A value that breaks a rule. `rule` is a sentence.
    pub fn invalid(path: &Path<'_>, rule: &str) -> Self {
        Self::new("invalid_value", path, format!("Invalid '{path}': {rule}"))
    }

    /// A required parameter that is absent or `null`.
    pub fn missing(path: &Path<'_>) -> Self {
        let message = format!("Missing required parameter: '{path}'.");
        Self::new("missing_required_parameter", path, message)
    }

    /// Names `previous_response_id` as the reason: the client cannot change the items of the store.
    pub fn in_previous_response(self) -> Self {
        let message = format!(
            "The previous response cannot be continued, because one of its items cannot be \
             translated. {}",
            self.message
        );
        Self { param: "previous_response_id".to_owned(), message, ..self }
    }
}

/// Returns the beginning of a text from the request.
pub fn excerpt(text: &str) -> String {
    // Copies slightly more than the limit, so that `cut` detects the overflow.
    cut(text[..text.floor_char_boundary(MAX_WORD_BYTES + 4)].to_owned(), MAX_WORD_BYTES)
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", excerpt(text)),
        Value::Bool(_) | Value::Number(_) | Value::Null => value.to_string(),
        Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
    }
}

fn listed(values: &[&str]) -> String {
    match values {
        [] => String::new(),
        [only] => format!("'{only}'"),
        [one, other] => format!("'{one}' and '{other}'"),
        [rest @ .., last] => {
            let rest: String = rest.iter().flat_map(|value| ["'", value, "', "]).collect();
            format!("{rest}and '{last}'")
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
