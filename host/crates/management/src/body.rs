//! Bodies of requests, in types that refuse unknown members.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::refusal::invalid;
use airlock_server::ManagementRefusal;

/// Reads a body into its type. An absent one counts as `{}`. The message names the member and the
/// valid ones.
pub(crate) fn read<T: DeserializeOwned>(body: Option<Value>) -> Result<T, ManagementRefusal> {
    let body = body.unwrap_or_else(|| Value::Object(Map::new()));
    if !body.is_object() {
        return Err(invalid("the body must be a JSON object"));
    }
    // The messages may quote values. No body that is read here has a secret.
    serde_json::from_value(body).map_err(|error| {
        invalid(airlock_strings::cut(airlock_strings::visible_line(&error.to_string()), 512))
    })
}

/// Returns the members of a body.
pub(crate) fn members(body: Option<Value>) -> Result<Map<String, Value>, ManagementRefusal> {
    match body {
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(invalid("the body must be a JSON object")),
        None => Err(invalid("the body is missing; it must be a JSON object")),
    }
}
