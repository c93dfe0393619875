//! Asks a plugin for its tools, once, and embeds the answer, so that listing tools never runs a guest.
//!
//! The section `airlock:tools` is JSON: `{"schema": "airlock.tools/1", "tools": […]}`, each tool as MCP writes it.

use std::collections::HashSet;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde_json::{Map, Value, json};
use wasmtime::component::{ComponentType, Lift};

use crate::sandbox::Sandbox;
use crate::section;

const SECTION: &str = "airlock:tools";
const INTERFACE: &str = "airlock:plugin/tools";

/// The component with a section that tells its tools.
pub(crate) fn embed(component: &[u8]) -> Result<Vec<u8>> {
    let tools = ask(component).context("it cannot tell its tools")?;
    let mut names = HashSet::new();
    let tools = tools.into_iter().map(|tool| {
        ensure!(names.insert(tool.name.clone()), "two tools are called `{}`", tool.name);
        let name = tool.name.clone();
        tool.into_json().with_context(|| format!("tool `{name}`"))
    });
    let tools: Vec<Value> = tools.collect::<Result<_>>()?;
    let section = json!({ "schema": "airlock.tools/1", "tools": tools }).to_string();
    section::replace(component, SECTION, section.as_bytes())
}

fn ask(component: &[u8]) -> Result<Vec<Descriptor>> {
    let mut sandbox = Sandbox::new(component)?;
    let Sandbox { store, instance } = &mut sandbox;
    let interface = instance
        .get_export_index(&mut *store, None, &format!("{INTERFACE}@0.1.0"))
        .with_context(|| format!("it does not export {INTERFACE}@0.1.0: is it of the world `tool-plugin`?"))?;
    let describe =
        instance.get_export_index(&mut *store, Some(&interface), "describe").context("its interface has no `describe`")?;
    let describe = instance.get_typed_func::<(), (Result<Vec<Descriptor>, String>,)>(&mut *store, describe)?;
    let (answer,) = describe
        .call(&mut *store, ())
        .map_err(anyhow::Error::from)
        .context("`describe` must work without capabilities; one was used, or the plugin failed")?;
    answer.map_err(|message| anyhow!("`describe` answered: {message}"))
}

/// `tool-descriptor` of the package `airlock:types`.
#[derive(ComponentType, Lift)]
#[component(record)]
struct Descriptor {
    name: String,
    title: Option<String>,
    description: String,
    #[component(name = "input-schema")]
    input_schema: String,
    #[component(name = "output-schema")]
    output_schema: Option<String>,
    annotations: Annotations,
    meta: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct Annotations {
    #[component(name = "read-only")]
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    #[component(name = "open-world")]
    open_world: Option<bool>,
}

impl Descriptor {
    /// The tool as MCP writes it, absent fields left out.
    fn into_json(self) -> Result<Value> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        ensure!(
            (1..=64).contains(&self.name.len()) && self.name.bytes().all(is_allowed),
            "a name has 1 to 64 of the characters a-z, A-Z, 0-9, `_` and `-`"
        );
        ensure!(!self.description.trim().is_empty(), "it needs a description: a model chooses by it");
        let mut tool = Map::new();
        tool.insert("name".into(), self.name.into());
        tool.extend(self.title.map(|title| ("title".into(), title.into())));
        tool.insert("description".into(), self.description.into());
        tool.insert("inputSchema".into(), schema(&self.input_schema).context("its input schema")?);
        if let Some(output) = self.output_schema {
            tool.insert("outputSchema".into(), schema(&output).context("its output schema")?);
        }
        let annotations = self.annotations.into_json();
        if !annotations.is_empty() {
            tool.insert("annotations".into(), annotations.into());
        }
        if let Some(meta) = self.meta {
            tool.insert("_meta".into(), object(&meta).context("its `meta`")?);
        }
        Ok(tool.into())
    }
}

impl Annotations {
    fn into_json(self) -> Map<String, Value> {
        let hints = [
            ("readOnlyHint", self.read_only),
            ("destructiveHint", self.destructive),
            ("idempotentHint", self.idempotent),
            ("openWorldHint", self.open_world),
        ];
        hints.into_iter().filter_map(|(name, hint)| Some((name.to_owned(), hint?.into()))).collect()
    }
}

fn schema(text: &str) -> Result<Value> {
    let schema = object(text)?;
    if schema["type"] != "object" {
        bail!("has another root than `\"type\": \"object\"`");
    }
    Ok(schema)
}

fn object(text: &str) -> Result<Value> {
    let value: Value = serde_json::from_str(text).context("is no JSON")?;
    ensure!(value.is_object(), "is not a JSON object");
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(name: &str, input_schema: &str) -> Descriptor {
        let annotations = Annotations { read_only: Some(true), destructive: None, idempotent: None, open_world: Some(false) };
        Descriptor {
            name: name.into(),
            title: None,
            description: "Reads.".into(),
            input_schema: input_schema.into(),
            output_schema: None,
            annotations,
            meta: Some(r#"{"vendor":1}"#.into()),
        }
    }

    #[test]
    fn a_tool_is_written_as_mcp_writes_it_without_what_is_absent() {
        let tool = descriptor("read_file", r#"{"type":"object"}"#).into_json().expect("valid");
        let expected = json!({
            "name": "read_file",
            "description": "Reads.",
            "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
            "_meta": { "vendor": 1 },
        });
        assert_eq!(tool.to_string(), expected.to_string());
    }

    #[test]
    fn what_the_host_would_refuse_is_refused_here() {
        for (name, schema, message) in [
            ("", "{}", "a name has 1 to 64 of the characters a-z, A-Z, 0-9, `_` and `-`"),
            ("a b", "{}", "a name has 1 to 64 of the characters a-z, A-Z, 0-9, `_` and `-`"),
            (&*"a".repeat(65), "{}", "a name has 1 to 64 of the characters a-z, A-Z, 0-9, `_` and `-`"),
            ("a", "[]", "its input schema: is not a JSON object"),
            ("a", "{", "its input schema: is no JSON: EOF while parsing an object at line 1 column 1"),
            ("a", "{}", "its input schema: has another root than `\"type\": \"object\"`"),
        ] {
            let error = descriptor(name, schema).into_json().expect_err("refused");
            assert_eq!(format!("{error:#}"), message);
        }
    }
}
