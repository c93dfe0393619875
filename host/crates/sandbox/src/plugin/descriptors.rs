//! Custom section `airlock:tools`: a plugin's tool descriptors, embedded when it was built, so that
//! listing tools runs no guest. Its content is as untrusted as the plugin's code.

use airlock_compile::section;
use airlock_core::tool::ToolDefinition;
use airlock_json::{self as json, Caps};
use serde::{Deserialize, Serialize};

use crate::LoadError;

/// Name of the section.
pub(crate) const NAME: &str = "airlock:tools";
const SCHEMA: &str = "airlock.tools/1";
/// Bytes of descriptors, embedded or described; more are refused. The plugin format promises this
/// number (`docs/plugin-format.md`).
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// Memory that the descriptors take while they are read, in bytes: 16 times their text. Dense JSON takes
/// up to 150 times its text: each level of `[[0]]` is an array with room for four values.
const MAX_TREE_BYTES: usize = 64 << 20;

#[derive(Deserialize)]
struct Section {
    schema: String,
    tools: Vec<ToolDefinition>,
}

/// Finds the section in the component itself, not in nested modules or components.
pub(crate) fn find(wasm: &[u8]) -> Result<Option<&[u8]>, LoadError> {
    Ok(section(wasm, NAME)?)
}

/// Returns the content of the section for these tools.
pub(crate) fn encode(tools: &[ToolDefinition]) -> String {
    #[derive(Serialize)]
    struct Section<'a> {
        schema: &'static str,
        tools: &'a [ToolDefinition],
    }
    serde_json::to_string(&Section { schema: SCHEMA, tools })
        .expect("names are text and the rest is JSON already")
}

/// Parses the content of the section. Fails if it is too large or of another form.
pub(crate) fn parse(section: &[u8]) -> Result<Vec<ToolDefinition>, LoadError> {
    if section.len() > MAX_BYTES {
        return Err(bad_descriptors(format!(
            "{} bytes of descriptors; the limit is {MAX_BYTES}",
            section.len()
        )));
    }
    // The derived implementation would take a list of both members too.
    if !section.trim_ascii_start().starts_with(b"{") {
        return Err(bad_descriptors("descriptors that are no JSON object".to_owned()));
    }
    // Dense JSON takes many times the memory of its text.
    json::check(section, &Caps::memory(MAX_TREE_BYTES))
        .map_err(|error| bad_descriptors(error.to_string()))?;
    let section: Section =
        serde_json::from_slice(section).map_err(|error| LoadError::Descriptors(error.into()))?;
    if section.schema != SCHEMA {
        return Err(bad_descriptors(format!(
            "descriptors of the form {:?}; this build reads {SCHEMA:?}",
            section.schema
        )));
    }
    Ok(section.tools)
}

fn bad_descriptors(reason: String) -> LoadError {
    LoadError::Descriptors(reason.into())
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::{ClientName, Tool};
    use airlock_json::schema::CompiledSchema;
    use serde_json::{Value, json};

    use super::*;
    use crate::plugin::schemas::Schemas;

    fn component(section: &str) -> Vec<u8> {
        wat::parse_str(format!(
            "(component (core module (@custom \"airlock:tools\" \"inner\")) {section})"
        ))
        .expect("a component")
    }

    #[test]
    fn the_components_own_section_is_read_and_no_nested_one() {
        assert!(find(&component("")).expect("it parses").is_none());
        let wasm = component(
            r#"(@custom "airlock:tools" "{\"schema\":\"airlock.tools/1\",\"tools\":[{\"name\":\"a\",\"inputSchema\":{}}]}")"#,
        );
        let tools =
            parse(find(&wasm).expect("it parses").expect("it is there")).expect("good descriptors");
        assert_eq!(tools.len(), 1);
        assert_eq!(parse(encode(&tools).as_bytes()).expect("what was written is read"), tools);
    }

    #[test]
    fn descriptors_that_do_not_parse_are_refused() {
        assert!(find(b"\0asm").is_err());
        for bad in [
            "",
            "[]",
            r#"{"schema":"airlock.tools/2","tools":[]}"#,
            r#"{"schema":"airlock.tools/1","tools":[{}]}"#,
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(dense(100_000).as_bytes()).is_ok());
        assert!(parse(dense(2_000_000).as_bytes()).is_err());
    }

    fn dense(count: usize) -> String {
        let numbers = vec!["0"; count].join(",");
        format!(
            r#"{{"schema":"airlock.tools/1","tools":[{{"name":"t","inputSchema":{{}},"a":[{numbers}]}}]}}"#
        )
    }

    /// Returns whether the section is read and each of its tools is offered. The gateway leaves out a
    /// tool without a description, if the operator gives none either.
    fn is_offered(section: &Value) -> bool {
        let client = ClientName::parse("p").expect("a name");
        let Ok(tools) = parse(section.to_string().as_bytes()) else { return false };
        let is_usable = tools.iter().all(|tool| {
            !tool.description.trim().is_empty() && Tool::adopt(&client, tool.clone()).is_ok()
        });
        is_usable && Schemas::compile(tools).1.left_out.is_empty()
    }

    #[test]
    fn the_schema_of_the_section_accepts_what_is_offered_and_nothing_else() {
        let file =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../wit/sections/0.1.0/tools.schema.json");
        let schema = serde_json::from_str(&std::fs::read_to_string(file).expect("the schema"));
        let schema = CompiledSchema::compile("schema", &schema.expect("JSON"));
        let schema = schema.unwrap_or_else(|error| panic!("{error}"));
        let tool = json!({
            "name": "get", "title": "Get", "description": "Gets.", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"}, "icons": [],
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
                "openWorldHint": true, "more": 1,
            },
            "_meta": {"k": 1},
        });
        let values = [
            json!(null),
            json!(true),
            json!(1),
            json!([]),
            json!({}),
            json!({"type": "object"}),
            json!({"type": "string"}),
            json!({"type": ["object"]}),
            json!({"readOnlyHint": 1}),
            json!(""),
            json!(" "),
            json!("\u{85}"),
            json!("a b"),
            json!("é"),
            json!("a".repeat(64)),
            json!("a".repeat(65)),
            json!("object"),
            json!("airlock.tools/2"),
            json!([1]),
            json!([{}]),
        ];
        let mut sections =
            vec![section_with(&tool), json!(["airlock.tools/1", [tool]]), json!({"tools": []})];
        sections.extend(["schema", "tools", "more"].into_iter().flat_map(|name| {
            let mut changed = section_with(&tool);
            values.clone().map(|value| {
                changed[name] = value;
                changed.clone()
            })
        }));
        let places = tool.as_object().expect("a tool").keys().map(|name| format!("/{name}"));
        let hints = tool["annotations"].as_object().expect("hints").keys();
        for place in places.chain(hints.map(|name| format!("/annotations/{name}"))) {
            for value in &values {
                let mut changed = tool.clone();
                *changed.pointer_mut(&place).expect("it is there") = value.clone();
                sections.push(section_with(&changed));
            }
            let (parent, name) = place.rsplit_once('/').expect("a place");
            let mut changed = tool.clone();
            let parent = changed.pointer_mut(parent).and_then(Value::as_object_mut);
            parent.expect("an object").remove(name);
            sections.push(section_with(&changed));
        }
        let verdicts = sections.iter().map(|section| (schema.check(section).is_ok(), section));
        let mut accepted = 0;
        for (fits, section) in verdicts {
            accepted += usize::from(fits);
            assert_eq!(fits, is_offered(section), "{section}");
        }
        assert!(accepted > 60 && sections.len() - accepted > 100, "{accepted}");
    }

    fn section_with(tool: &Value) -> Value {
        json!({"schema": "airlock.tools/1", "tools": [tool]})
    }
}
