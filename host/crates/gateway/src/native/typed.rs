//! Arguments and results of tools as types of Rust: their JSON Schemas, and the conversion.
//!
//! The schemas are those of draft 2020-12 without `$schema`, with all types inlined: some clients do not
//! follow `$ref`.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use airlock_core::tool::{ErrorKind, ToolError, ToolOutput};

/// Returns the schema of arguments.
pub(super) fn input_schema<Args: JsonSchema>() -> Value {
    let mut schema = schema_of::<Args>(SchemaSettings::draft2020_12().for_deserialize());
    // Providers of models refuse an object schema without properties.
    if let Some(members) = schema.as_object_mut() {
        members.entry("properties").or_insert_with(|| Map::new().into());
    }
    schema
}

/// Returns the schema of results; `None` if they are not objects, which many clients expect.
pub(super) fn output_schema<Out: JsonSchema>() -> Option<Value> {
    let schema = schema_of::<Out>(SchemaSettings::draft2020_12().for_serialize());
    (schema["type"] == "object").then_some(schema)
}

fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of the type.
    schema.remove("title");
    schema.to_value()
}

/// Reads arguments, which fit the schema. A `null` may stand for an absent one, as for the check.
pub(super) fn arguments<Args: DeserializeOwned>(
    mut arguments: Map<String, Value>,
) -> Result<Args, ToolError> {
    if let Ok(read) = Args::deserialize(&Value::Object(arguments.clone())) {
        return Ok(read);
    }
    arguments.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        ToolError::new(ErrorKind::InvalidInput, format!("the arguments cannot be used: {error}"))
    })
}

/// Writes a result: as data too, if the tool declares its schema.
pub(super) fn output<Out: Serialize>(
    out: &Out,
    is_structured: bool,
) -> Result<ToolOutput, ToolError> {
    let value = serde_json::to_value(out).map_err(|error| {
        ToolError::new(ErrorKind::Internal, format!("the result is not JSON: {error}"))
    })?;
    let output = match &value {
        Value::String(text) => ToolOutput::text(text),
        other => ToolOutput::text(other.to_string()),
    };
    Ok(ToolOutput { structured: Some(value).filter(|_| is_structured), ..output })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    struct Search {
        /// Words to look for.
        words: String,
        #[serde(default)]
        limit: u8,
    }

    #[derive(Serialize, JsonSchema)]
    struct Found {
        titles: Vec<String>,
    }

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn the_schemas_are_those_of_the_types() {
        let schema = input_schema::<Search>();
        assert_eq!(schema["properties"]["words"]["description"], "Words to look for.");
        assert_eq!(schema["required"], json!(["words"]));
        assert_eq!((schema.get("title"), schema.get("$schema")), (None, None));
        let found = output_schema::<Found>().expect("an object");
        assert_eq!(found["properties"]["titles"]["type"], "array");
        assert_eq!((output_schema::<String>(), output_schema::<Vec<u8>>()), (None, None));
    }

    #[test]
    fn a_null_stands_for_an_absent_argument_and_what_does_not_fit_is_refused() {
        let read = arguments::<Search>(object(json!({"words": "a", "limit": null})));
        assert_eq!(read, Ok(Search { words: "a".to_owned(), limit: 0 }));
        let refused = arguments::<Search>(object(json!({"words": "a", "limit": 256})));
        assert_eq!(refused.expect_err("no u8").kind, ErrorKind::InvalidInput);
    }

    #[test]
    fn an_object_is_data_and_any_other_result_is_a_text() {
        let found = output(&Found { titles: vec!["a".to_owned()] }, true).expect("JSON");
        assert_eq!(found.structured, Some(json!({"titles": ["a"]})));
        assert_eq!(found.to_text(), r#"{"titles":["a"]}"#);
        assert_eq!(output(&"hi", false).expect("JSON"), ToolOutput::text("hi"));
        assert_eq!(output(&[1, 2], false).expect("JSON"), ToolOutput::text("[1,2]"));
        let keys = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert_eq!(output(&keys, true).expect_err("no text").kind, ErrorKind::Internal);
    }
}
