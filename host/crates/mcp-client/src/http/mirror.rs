//! Headers that mirror arguments of a tool (2026-07-28, section "Custom headers from tool
//! parameters"): the annotation `x-mcp-header` of a property in the input schema names the header.

use std::collections::HashSet;

use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use airlock_wire::headers::{ANNOTATION, PREFIX, encoded};

/// Maximum annotations of one tool. Each is a header of a call, and servers accept about a
/// hundred in a request.
const MAX_ANNOTATIONS: usize = 64;

/// Reason that a tool cannot be used over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its input schema has an invalid `x-mcp-header`: {0}")]
pub(crate) struct BadAnnotation(&'static str);

/// An annotated property.
struct Annotated<'s> {
    /// Names from the root to the property.
    path: Vec<&'s str>,
    schema: &'s Value,
    header: &'s Value,
}

/// Checks the annotations of a tool. A tool with an invalid one must not be used over HTTP.
pub(crate) fn check(schema: &Value) -> Result<(), BadAnnotation> {
    let Value::Object(root) = schema else { return Ok(()) };
    if root.contains_key(ANNOTATION) || has_misplaced(root, true) {
        return Err(BadAnnotation("only properties of the root, and theirs, can have one"));
    }
    let annotated = annotated(schema);
    if annotated.len() > MAX_ANNOTATIONS {
        return Err(BadAnnotation("there are more than 64"));
    }
    let mut seen = HashSet::new();
    for Annotated { schema, header, .. } in annotated {
        let name = header.as_str().ok_or(BadAnnotation("one is not text"))?;
        let name = header_name(name).ok_or(BadAnnotation("one is not the name of a header"))?;
        if !seen.insert(name) {
            return Err(BadAnnotation("two are equal, where case does not count"));
        }
        if !matches!(
            schema.get("type").and_then(Value::as_str),
            Some("string" | "integer" | "boolean")
        ) {
            return Err(BadAnnotation(
                "one is on a property that is no string, integer or boolean",
            ));
        }
    }
    Ok(())
}

/// Returns the headers that mirror arguments. Schema and arguments are JSON text. An argument that
/// is absent or null has none. Annotations that [`check`] refuses have none either.
pub fn mirrored_headers(schema: &str, arguments: &str) -> Vec<(HeaderName, HeaderValue)> {
    // Nearly no schema has an annotation, and the others need no parsing.
    if !schema.contains(ANNOTATION) {
        return Vec::new();
    }
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let annotated = annotated(&schema);
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let mirrored = annotated.into_iter().take(MAX_ANNOTATIONS).filter_map(|annotated| {
        let name = header_name(annotated.header.as_str()?)?;
        let argument = annotated.path.iter().try_fold(&arguments, |value, key| value.get(key))?;
        let mut value = HeaderValue::try_from(&*encoded(&text(argument)?)).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    });
    mirrored.collect()
}

fn header_name(annotation: &str) -> Option<HeaderName> {
    if annotation.is_empty() {
        return None;
    }
    HeaderName::try_from(format!("{PREFIX}{annotation}")).ok()
}

/// Returns an argument as a header has it; `None` for null, arrays and objects.
fn text(argument: &Value) -> Option<String> {
    match argument {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(match number.as_f64() {
            // `1.0` is an integer for JSON Schema, and the server compares decimal texts.
            Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the annotated properties that are reached through `properties` alone.
fn annotated(schema: &Value) -> Vec<Annotated<'_>> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

fn collect<'s>(schema: &'s Value, path: &mut Vec<&'s str>, found: &mut Vec<Annotated<'s>>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    for (name, schema) in properties {
        path.push(name);
        if let Some(header) = schema.get(ANNOTATION) {
            found.push(Annotated { path: path.clone(), schema, header });
        }
        collect(schema, path, found);
        path.pop();
    }
}

/// Returns true if a schema has an annotation elsewhere than in a property that is reached through
/// `properties` alone. `is_reached` is true if the schema itself is reached so. The recursion is
/// bounded by the depth that the JSON parser permits.
fn has_misplaced(schema: &Map<String, Value>, is_reached: bool) -> bool {
    schema.iter().any(|(key, value)| match key.as_str() {
        ANNOTATION => !is_reached,
        "properties" => of_each(value, is_reached),
        "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => of_each(value, false),
        // These hold data, not schemas.
        "default" | "const" | "enum" | "examples" => false,
        _ => below(value, false),
    })
}

fn of_each(schemas: &Value, is_reached: bool) -> bool {
    let schemas = schemas.as_object();
    schemas.is_some_and(|schemas| schemas.values().any(|schema| below(schema, is_reached)))
}

fn below(value: &Value, is_reached: bool) -> bool {
    match value {
        Value::Object(schema) => has_misplaced(schema, is_reached),
        Value::Array(schemas) => schemas.iter().any(|schema| below(schema, false)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(properties: &Value) -> Value {
        json!({"type": "object", "properties": properties})
    }

    fn mirrored(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
        let headers = mirrored_headers(&schema.to_string(), &arguments.to_string()).into_iter();
        headers
            .map(|(name, value)| (name.to_string(), value.to_str().expect("ASCII").to_owned()))
            .collect()
    }

    #[test]
    fn annotated_arguments_are_mirrored_and_null_and_absent_ones_are_not() {
        let schema = tool(&json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
            "empty": {"type": "string", "x-mcp-header": "Empty"},
            "none": {"type": "string", "x-mcp-header": "None"},
            "absent": {"type": "string", "x-mcp-header": "Absent"},
            "plain": {"type": "string"},
            "nested": {"type": "object", "properties": {
                "deep": {"type": "string", "x-mcp-header": "Deep"}}},
        }));
        assert_eq!(check(&schema), Ok(()));
        let arguments = json!({"region": "us east", "count": 42.0, "flag": false, "empty": "",
            "none": null, "plain": "x", "nested": {"deep": "a\r\nb: c"}});
        let expected = [
            ("mcp-param-region", "us east"),
            ("mcp-param-count", "42"),
            ("mcp-param-flag", "false"),
            ("mcp-param-empty", ""),
            ("mcp-param-deep", "=?base64?YQ0KYjogYw==?="),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(mirrored(&schema, &arguments), expected);
        assert!(mirrored(&schema, &json!([])).is_empty());
        assert!(mirrored(&json!(true), &json!({"region": "x"})).is_empty());
    }

    #[test]
    fn values_that_a_header_cannot_hold_as_they_are_get_encoded() {
        let schema = tool(&json!({"v": {"type": "string", "x-mcp-header": "V"}}));
        for (value, is_encoded) in [
            ("a b", false),
            ("Hello, 世界", true),
            (" a", true),
            ("a ", true),
            ("\ta", true),
            ("a\nb", true),
            ("=?base64?eA==?=", true),
        ] {
            let sent = mirrored(&schema, &json!({"v": value}));
            assert_eq!(sent[0].1.starts_with("=?base64?"), is_encoded, "{value:?}");
        }
    }

    #[test]
    fn invalid_annotations_are_refused() {
        let string = json!({"type": "string", "x-mcp-header": "V"});
        for schema in [
            with_header(&json!("")),
            with_header(&json!("a b")),
            with_header(&json!("a:b")),
            with_header(&json!("a\nb")),
            with_header(&json!("\u{e4}")),
            with_header(&json!(7)),
            tool(&json!({"v": {"type": "number", "x-mcp-header": "V"}})),
            tool(&json!({"v": {"type": "object", "x-mcp-header": "V"}})),
            tool(&json!({"v": {"x-mcp-header": "V"}})),
            tool(&json!({"a": string, "b": {"type": "string", "x-mcp-header": "v"}})),
            json!({"type": "object", "x-mcp-header": "V"}),
            tool(&json!({"v": {"type": "array", "items": string}})),
            json!({"anyOf": [{"properties": {"v": string}}]}),
            json!({"$defs": {"v": string}}),
            json!({"items": {"properties": {"v": string}}}),
        ] {
            assert!(check(&schema).is_err(), "{schema}");
        }
        for schema in [
            with_header(&json!("X-1")),
            json!({"properties": {"v": {"type": "object", "default": {"x-mcp-header": ""}}}}),
            json!({"type": "object"}),
            json!(true),
        ] {
            assert_eq!(check(&schema), Ok(()), "{schema}");
        }
    }

    /// Returns the schema of a tool with this annotation.
    fn with_header(header: &Value) -> Value {
        tool(&json!({"v": {"type": "string", "x-mcp-header": header}}))
    }

    #[test]
    fn the_number_of_annotations_is_bounded() {
        assert_eq!(check(&many(MAX_ANNOTATIONS)), Ok(()));
        assert!(check(&many(MAX_ANNOTATIONS + 1)).is_err());
    }

    /// Returns the schema of a tool with so many annotations.
    fn many(count: usize) -> Value {
        let properties = (0..count).map(|at| {
            (format!("p{at}"), json!({"type": "string", "x-mcp-header": format!("H{at}")}))
        });
        tool(&Value::Object(properties.collect()))
    }
}
