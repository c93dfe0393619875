//! JSON text in values of the contract.

use serde_json::{Map, Value};

/// Text from a guest that should be JSON of a certain kind and is not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotJson {
    /// The text does not parse.
    #[error("{field} is not JSON")]
    Syntax {
        field: &'static str,
        #[source]
        source: serde_json::Error,
    },
    /// The text is JSON of another kind.
    #[error("{field} is not {expected}")]
    Kind { field: &'static str, expected: &'static str },
}

pub(super) fn parse(field: &'static str, text: &str) -> Result<Value, NotJson> {
    serde_json::from_str(text).map_err(|source| NotJson::Syntax { field, source })
}

pub(super) fn parse_object(field: &'static str, text: &str) -> Result<Map<String, Value>, NotJson> {
    match parse(field, text)? {
        Value::Object(members) => Ok(members),
        _ => Err(NotJson::Kind { field, expected: "a JSON object" }),
    }
}

pub(super) fn optional_object(
    field: &'static str,
    text: Option<&String>,
) -> Result<Option<Map<String, Value>>, NotJson> {
    text.map(|text| parse_object(field, text)).transpose()
}

pub(super) fn lengths<const N: usize>(texts: [&Option<String>; N]) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}
