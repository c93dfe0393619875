//! JSON Schemas in the form that models read: draft 2020-12 without `$schema`, all types inlined,
//! descriptions as prose.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Returns the schema of a tool's arguments.
pub(crate) fn of_input<T: JsonSchema>() -> Schema {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
    schema.remove("title");
    // Providers refuse an object schema without properties, which a tool without arguments would
    // have.
    let properties = Value::Object(serde_json::Map::new());
    schema.ensure_object().entry("properties").or_insert(properties);
    schema
}

/// Returns the schema of a tool's result.
pub(crate) fn of_output<T: JsonSchema>() -> Schema {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_serialize());
    schema.remove("title");
    schema
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Schema {
    let settings = settings.with(|settings| {
        // The contract fixes 2020-12, so that a schema need not name it.
        settings.meta_schema = None;
        // Some clients do not follow `$ref`.
        settings.inline_subschemas = true;
    });
    settings.with_transform(Readable).into_generator().into_root_schema_for::<T>()
}

/// Turns descriptions into prose and drops number formats that are names of Rust types.
#[derive(Debug, Clone)]
struct Readable;

impl Transform for Readable {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(Value::String(description)) = schema.get_mut("description") {
            *description = prose(description);
        }
        if schema.get("format").and_then(Value::as_str).is_some_and(is_rust_number) {
            schema.remove("format");
        }
        // Leaving out an optional argument is the same as null; saying so does not help a model.
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
        merge_cases(schema);
        transform_subschemas(self, schema);
    }
}

/// Converts an enumeration whose values have doc comments to a plain `enum`, and moves the comments
/// to the description: several model providers support neither `const` nor `oneOf`.
fn merge_cases(schema: &mut Schema) {
    let Some((values, cases)) = schema.get("oneOf").and_then(documented_values) else {
        return;
    };
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), values.into());
    let before = schema.get("description").and_then(Value::as_str).map(|text| format!("{text}\n"));
    schema
        .insert("description".to_owned(), (before.unwrap_or_default() + &cases.join("\n")).into());
}

/// Returns the values, and a list line for each; `None` unless all values are strings.
fn documented_values(cases: &Value) -> Option<(Vec<Value>, Vec<String>)> {
    let documented = cases.as_array()?.iter().map(|case| {
        let value = case.get("const")?.as_str()?;
        let line = match case.get("description").and_then(Value::as_str) {
            Some(description) => format!("- `{value}`: {}", prose(description)),
            None => format!("- `{value}`"),
        };
        Some((Value::from(value), line))
    });
    documented.collect()
}

fn is_rust_number(format: &str) -> bool {
    let bits = format.strip_prefix("uint").or_else(|| format.strip_prefix("int"));
    bits.is_some_and(|bits| bits.chars().all(|c| c.is_ascii_digit()))
        || matches!(format, "float" | "double")
}

/// Returns the prose of a doc comment up to its first heading. The lines of a paragraph are joined;
/// lists, tables and code keep their lines.
pub(crate) fn prose(docs: &str) -> String {
    let mut prose = String::new();
    let mut code = false;
    let mut joins = false; // true if the next line continues this one
    for line in docs.lines() {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        let fence = line.trim_start().starts_with("```");
        if !code && line.starts_with('#') {
            break;
        }
        let keeps = code || fence || line.is_empty() || opens_line(line);
        if !prose.is_empty() {
            prose.push(if joins && !keeps { ' ' } else { '\n' });
        }
        prose.push_str(if joins && !keeps { line.trim_start() } else { line });
        code ^= fence;
        joins = !(code || fence || line.is_empty());
    }
    prose.trim().to_owned()
}

fn opens_line(line: &str) -> bool {
    let line = line.trim_start();
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "|", ">"].iter().any(|mark| line.starts_with(mark))
        || (numbered.len() < line.len() && numbered.starts_with(". "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_paragraph_are_joined() {
        assert_eq!(prose(" One\n two.\n\n Three\n four.\n"), "One two.\n\nThree four.");
    }

    #[test]
    fn lists_and_code_keep_their_lines() {
        let docs = " Modes:\n - one,\n   which goes on\n - two\n\n ```\n a\n   b\n ```\n";
        assert_eq!(prose(docs), "Modes:\n- one, which goes on\n- two\n\n```\na\n  b\n```");
    }

    #[test]
    fn a_heading_ends_the_description() {
        assert_eq!(prose(" Does it.\n\n # Errors\n Many.\n"), "Does it.");
    }

    #[test]
    fn number_formats_of_rust_types_are_dropped_and_others_stay() {
        assert!(["uint", "uint32", "int64", "double"].into_iter().all(is_rust_number));
        assert!(!["date-time", "interval", "uri", ""].into_iter().any(is_rust_number));
    }

    #[test]
    fn values_with_doc_comments_are_a_plain_enumeration() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        enum Mode {
            /// Not
            /// twice.
            Once,
            /// Again and again.
            Always,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        struct Arguments {
            /// How often.
            mode: Mode,
        }
        let schema = of_input::<Arguments>();
        insta::assert_snapshot!(schema.get("properties").unwrap(), @r#"{"mode":{"description":"How often.\n- `Once`: Not twice.\n- `Always`: Again and again.","type":"string","enum":["Once","Always"]}}"#);
    }

    #[test]
    fn nested_types_are_inlined_and_described() {
        /// Words to
        /// look for.
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        struct Query {
            /// How
            /// often.
            times: u8,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        struct Arguments {
            query: Query,
        }
        insta::assert_snapshot!(serde_json::to_string(&of_input::<Arguments>()).unwrap(), @r#"{"type":"object","properties":{"query":{"description":"Words to look for.","type":"object","properties":{"times":{"description":"How often.","type":"integer","minimum":0,"maximum":255}},"required":["times"]}},"required":["query"]}"#);
    }
}
