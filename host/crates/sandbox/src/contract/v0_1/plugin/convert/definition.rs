//! Definitions of tools.

use airlock_core::tool::{Annotations, Tool, ToolDefinition};
use airlock_json::JsonText;
use serde_json::{Map, Value};

use super::json::{NotJson, lengths, optional_object, parse};
use crate::contract::v0_1::bindings::types as wit;

/// Members of MCP's `Tool` object that a descriptor has fields for.
const FIELDS: [&str; 7] =
    ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"];

/// Returns the bytes of JSON text in tool descriptors.
pub(crate) fn schema_bytes(tools: &[wit::ToolDescriptor]) -> usize {
    tools
        .iter()
        .map(|tool| {
            let optional = [&tool.output_schema, &tool.meta, &tool.extra, &tool.annotations.extra];
            tool.input_schema.len() + lengths(optional)
        })
        .sum()
}

pub(crate) fn definition_from_guest(tool: wit::ToolDescriptor) -> Result<ToolDefinition, NotJson> {
    Ok(ToolDefinition {
        name: tool.name,
        title: tool.title,
        description: tool.description,
        input_schema: parse("input-schema", &tool.input_schema)?.into(),
        output_schema: match tool.output_schema {
            Some(text) => Some(parse("output-schema", &text)?.into()),
            None => None,
        },
        annotations: Annotations {
            read_only: tool.annotations.read_only,
            destructive: tool.annotations.destructive,
            idempotent: tool.annotations.idempotent,
            open_world: tool.annotations.open_world,
            extra: annotations_extra(tool.annotations.extra.as_ref())?,
        },
        meta: optional_object("meta", tool.meta.as_ref())?.map(|meta| Value::Object(meta).into()),
        extra: extra("extra", tool.extra.as_ref(), &FIELDS)?,
    })
}

fn annotations_extra(text: Option<&String>) -> Result<Option<JsonText>, NotJson> {
    let members = extra("annotations.extra", text, &Annotations::FIELDS)?;
    Ok((!members.is_empty()).then(|| Value::Object(members).into()))
}

/// Parses members without a field of their own. A member that has one is left out: it would be
/// there twice.
fn extra(
    field: &'static str,
    text: Option<&String>,
    fields: &[&str],
) -> Result<Map<String, Value>, NotJson> {
    let mut extra = optional_object(field, text)?.unwrap_or_default();
    extra.retain(|name, _| !fields.contains(&name.as_str()));
    Ok(extra)
}

/// Converts the descriptor of a tool that the guest calls `name`.
pub(crate) fn descriptor_for_guest(name: String, tool: &Tool) -> wit::ToolDescriptor {
    wit::ToolDescriptor {
        name,
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.to_string(),
        output_schema: tool.output_schema.as_ref().map(ToString::to_string),
        annotations: wit::ToolAnnotations {
            read_only: tool.annotations.read_only,
            destructive: tool.annotations.destructive,
            idempotent: tool.annotations.idempotent,
            open_world: tool.annotations.open_world,
            extra: tool.annotations.extra.as_ref().map(ToString::to_string),
        },
        meta: tool.meta.as_ref().map(ToString::to_string),
        extra: tool.extra.as_ref().map(ToString::to_string),
    }
}
