//! Bodies of requests, in types that refuse unknown members.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::refusal::{Result, invalid};

/// Reads a body into its type. An absent one counts as `{}`. The message names the member and the
/// valid ones.
pub(crate) fn read<T: DeserializeOwned>(body: Option<Value>) -> Result<T> {
    let body = body.unwrap_or_else(|| Value::Object(Map::new()));
    if !body.is_object() {
        return Err(invalid("the body must be a JSON object"));
    }
    // The messages may quote values. No body that is read here has a secret.
    serde_json::from_value(body).map_err(|error| {
        invalid(airlock_strings::cut(airlock_strings::visible_line(&error.to_string()), 512))
    })
}

/// Fails if a body has a part of Bifrost's bodies that is not supported. `owner` is the type of the
/// element in the configuration file.
pub(crate) fn supported(body: Option<Value>, owner: &str) -> Result<Option<Value>> {
    let members = body.as_ref().and_then(Value::as_object);
    let mut members = members.into_iter().flatten().filter(|(_, value)| !value.is_null());
    let refused =
        members.find_map(|(name, _)| Some((name, airlock_config::unsupported(owner, name)?)));
    match refused {
        Some((name, reason)) => Err(invalid(format!("`{name}`: {reason}"))),
        None => Ok(body),
    }
}

/// Returns whether a value is one of a member that is not used.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns the members of a body.
pub(crate) fn members(body: Option<Value>) -> Result<Map<String, Value>> {
    match body {
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(invalid("the body must be a JSON object")),
        None => Err(invalid("the body is missing; it must be a JSON object")),
    }
}
