//! The definition of a tool: as its source announces it, and as the gateway keeps it.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use super::{ClientName, ToolName};
use crate::{json::JsonText, text::cut};

/// The longest name of a tool, in characters, as MCP recommends (2025-11-25: 1 to 128).
const MAX_NAME: usize = 128;
/// The longest title, in bytes. Longer ones are cut.
const MAX_TITLE: usize = 256;
/// The longest description, in bytes. Longer ones are cut, because a description is part of every
/// request to a model.
const MAX_DESCRIPTION: usize = 16 * 1024;
/// The most bytes of vendor keys, of other members, and of other annotations. More are left out.
const MAX_META: usize = 64 * 1024;
/// The largest schema, in bytes. Larger ones are refused, and so are schemas that are nested deeper
/// than `serde_json` parses.
const MAX_SCHEMA: usize = 256 * 1024;

/// A tool as a source announces it: MCP's `Tool` object, untrusted. Plugins embed a list of them in
/// the custom section `airlock:tools`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// Name of the tool at its source.
    pub name: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the tool, for a model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments; root type "object".
    pub input_schema: JsonText,
    /// JSON Schema of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonText>,
    /// Behaviour hints.
    #[serde(default, deserialize_with = "hints")]
    pub annotations: Annotations,
    /// Vendor keys.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonText>,
    /// Other members of the object, such as `icons`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Tool annotations of MCP. They are hints: no decision depends on them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Hints", into = "Hints")]
pub struct Annotations {
    /// True if the tool changes nothing in its environment.
    pub read_only: Option<bool>,
    /// True if a change by the tool may be destructive.
    pub destructive: Option<bool>,
    /// True if a second call with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// True if the tool interacts with external systems that are not known in advance.
    pub open_world: Option<bool>,
    /// Other members of the object: a JSON object with members.
    pub extra: Option<JsonText>,
}

/// MCP's `ToolAnnotations` object.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read_only_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destructive_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idempotent_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open_world_hint: Option<bool>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

impl From<Hints> for Annotations {
    fn from(hints: Hints) -> Self {
        Self {
            read_only: hints.read_only_hint,
            destructive: hints.destructive_hint,
            idempotent: hints.idempotent_hint,
            open_world: hints.open_world_hint,
            extra: (!hints.extra.is_empty()).then(|| Value::Object(hints.extra).into()),
        }
    }
}

impl From<Annotations> for Hints {
    fn from(annotations: Annotations) -> Self {
        let extra = annotations.extra.and_then(|extra| match extra.to_value() {
            Ok(Value::Object(members)) => Some(members),
            _ => None,
        });
        Self {
            read_only_hint: annotations.read_only,
            destructive_hint: annotations.destructive,
            idempotent_hint: annotations.idempotent,
            open_world_hint: annotations.open_world,
            extra: extra.unwrap_or_default(),
        }
    }
}

impl Annotations {
    /// Members of MCP's `ToolAnnotations` that have fields of their own.
    pub const FIELDS: [&str; 4] =
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

    /// Returns the hints, without other members of more than [`MAX_META`] bytes.
    fn bounded(self) -> Self {
        Self { extra: self.extra.and_then(small_object), ..self }
    }
}

/// Deserializes hints from an object. The derived implementation would take a list too.
fn hints<'de, D: Deserializer<'de>>(from: D) -> Result<Annotations, D::Error> {
    let members = Map::deserialize(from)?;
    Annotations::deserialize(Value::Object(members)).map_err(de::Error::custom)
}

/// A tool as the catalog keeps it: checked, of limited size, and with its name on the wire. It
/// takes about as much memory as its texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Name on the wire, to all clients and models.
    pub name: ToolName,
    /// The client it belongs to; `None` for the gateway's own tools.
    pub client: Option<ClientName>,
    /// Name of the tool at its source. Whitelists use this name.
    pub original: String,
    /// Name for people.
    pub title: Option<String>,
    /// Description of the tool, for a model. Untrusted text.
    pub description: String,
    /// JSON Schema of the arguments: an object with `type` and `properties`.
    pub input_schema: JsonText,
    /// JSON Schema of the structured result.
    pub output_schema: Option<JsonText>,
    /// Behaviour hints.
    pub annotations: Annotations,
    /// Vendor keys: a JSON object.
    pub meta: Option<JsonText>,
    /// Other members of MCP's `Tool` object, such as `icons`: a JSON object.
    pub extra: Option<JsonText>,
}

/// Reason why a definition cannot be added to the catalog. The other tools of its source are not
/// affected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// The name is empty, too long, or has control characters.
    #[error(
        "a tool's name must have 1 to {MAX_NAME} characters and no control characters, found {0:?}"
    )]
    Name(String),
    /// The schema is not the schema of an object.
    #[error("the {which} of tool {tool:?} must be a JSON object with \"type\": \"object\"")]
    Schema {
        /// Name of the tool at its source.
        tool: String,
        /// `inputSchema` or `outputSchema`.
        which: &'static str,
    },
    /// The schema is too large to be sent to a model with every request.
    #[error("the {which} of tool {tool:?} is larger than {MAX_SCHEMA} bytes")]
    SchemaTooLarge {
        /// Name of the tool at its source.
        tool: String,
        /// `inputSchema` or `outputSchema`.
        which: &'static str,
    },
}

impl Tool {
    /// Checks a definition from `client`, and cuts its title and description. Fails if the name or
    /// a schema is not valid.
    pub fn adopt(client: &ClientName, definition: ToolDefinition) -> Result<Self, BadTool> {
        let original = definition.name;
        if original.is_empty()
            || original.chars().count() > MAX_NAME
            || original.chars().any(char::is_control)
        {
            return Err(BadTool::Name(original.chars().take(MAX_NAME).collect()));
        }
        let input_schema = checked_schema(&original, "inputSchema", definition.input_schema)?;
        let output_schema = match definition.output_schema {
            Some(schema) => Some(checked_schema(&original, "outputSchema", schema)?),
            None => None,
        };
        Ok(Self {
            name: ToolName::new(client, &original),
            client: Some(client.clone()),
            original,
            title: definition.title.map(|title| cut(title, MAX_TITLE)),
            description: cut(definition.description, MAX_DESCRIPTION),
            input_schema,
            output_schema,
            annotations: definition.annotations.bounded(),
            meta: definition.meta.and_then(small_object),
            extra: Some(Value::Object(definition.extra).into()).and_then(small_object),
        })
    }

    /// Creates one of the gateway's own tools.
    pub fn own(name: &'static str, description: &str, input_schema: Value) -> Self {
        Self {
            name: ToolName::own(name),
            client: None,
            original: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: input_schema.into(),
            output_schema: None,
            annotations: Annotations::default(),
            meta: None,
            extra: None,
        }
    }
}

/// Returns an object with members of at most [`MAX_META`] bytes; `None` for anything else.
fn small_object(json: JsonText) -> Option<JsonText> {
    let text = json.as_str();
    let is_object = text.starts_with('{') && text != "{}";
    (is_object && text.len() <= MAX_META).then_some(json)
}

/// Checks a schema. Adds `type` and `properties` to an input schema without them, because OpenAI's
/// API requires both.
fn checked_schema(tool: &str, which: &'static str, schema: JsonText) -> Result<JsonText, BadTool> {
    let wrong = || BadTool::Schema { tool: tool.to_owned(), which };
    let bounded = |schema: JsonText| {
        let is_small = schema.as_str().len() <= MAX_SCHEMA;
        if is_small {
            Ok(schema)
        } else {
            Err(BadTool::SchemaTooLarge { tool: tool.to_owned(), which })
        }
    };
    // The size is checked before the text becomes a tree.
    let schema = bounded(schema)?;
    let Ok(Value::Object(mut members)) = schema.to_value() else { return Err(wrong()) };
    if which == "outputSchema" {
        // MCP 2026-07-28 allows any JSON value as an output.
        return Ok(schema);
    }
    match members.get("type") {
        None => {
            members.insert("type".into(), "object".into());
        }
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err(wrong()),
    }
    members.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    bounded(Value::Object(members).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(json: Value) -> ToolDefinition {
        serde_json::from_value(json).expect("a definition")
    }

    fn adopt(json: Value) -> Result<Tool, BadTool> {
        Tool::adopt(&ClientName::parse("fs").expect("a good name"), definition(json))
    }

    #[test]
    fn a_schema_without_type_or_properties_gets_them_and_keeps_the_rest() {
        let tool =
            adopt(json!({"name": "t", "inputSchema": {"$defs": {"a": {}}}})).expect("a good tool");
        assert_eq!(
            tool.input_schema,
            json!({"$defs": {"a": {}}, "type": "object", "properties": {}})
        );
    }

    #[test]
    fn vendor_keys_and_other_members_are_kept_up_to_their_limit() {
        let of = |bytes: usize| {
            let text = "x".repeat(bytes - r#"{"k":""}"#.len());
            let hints = json!({"readOnlyHint": true, "k": text});
            adopt(json!({"name": "t", "inputSchema": {}, "_meta": {"k": text}, "k": text, "annotations": hints}))
                .expect("a good tool")
        };
        let tool = of(MAX_META);
        assert_eq!(tool.annotations.extra.map(|extra| extra.as_str().len()), Some(MAX_META));
        assert_eq!(tool.meta.map(|meta| meta.as_str().len()), Some(MAX_META));
        assert_eq!(tool.extra.map(|extra| extra.as_str().len()), Some(MAX_META));
        let tool = of(MAX_META + 1);
        assert_eq!((tool.meta, tool.extra), (None, None));
        let hints = Annotations { read_only: Some(true), ..Annotations::default() };
        assert_eq!(tool.annotations, hints);
        let small = json!({"readOnlyHint": true, "more": [1]});
        let tool = adopt(json!({"name": "t", "inputSchema": {}, "annotations": small}));
        let annotations = tool.expect("a good tool").annotations;
        assert_eq!(serde_json::to_value(annotations).expect("JSON"), small);
        let plain = adopt(json!({"name": "t", "inputSchema": {}, "_meta": []})).expect("a tool");
        assert_eq!((plain.meta, plain.extra), (None, None));
    }

    #[test]
    fn a_tool_of_the_wrong_shape_is_refused_with_the_reason() {
        for schema in [json!(true), json!({"type": "string"}), json!({"type": ["object"]})] {
            assert!(matches!(
                adopt(json!({"name": "t", "inputSchema": schema})),
                Err(BadTool::Schema { .. })
            ));
        }
        for name in ["", "a\nb", &"x".repeat(129)] {
            assert!(
                matches!(adopt(json!({"name": name, "inputSchema": {}})), Err(BadTool::Name(_))),
                "{name}"
            );
        }
        let huge = json!({"description": "x".repeat(MAX_SCHEMA)});
        assert!(matches!(
            adopt(json!({"name": "t", "inputSchema": huge})),
            Err(BadTool::SchemaTooLarge { .. })
        ));
    }
}
