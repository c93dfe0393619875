//! The definition of a tool as its source announces it.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use airlock_json::JsonText;

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

impl ToolDefinition {
    /// Creates the definition of a tool without anything that is optional.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: impl Into<JsonText>,
    ) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: description.into(),
            input_schema: input_schema.into(),
            output_schema: None,
            annotations: Annotations::default(),
            meta: None,
            extra: Map::new(),
        }
    }
}

/// Tool annotations of MCP. They are hints: no permission depends on them. They decide whether a call may be repeated, and
/// whether its result may be cached.
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
}

/// Deserializes hints from an object. The derived implementation would take a list too.
fn hints<'de, D: Deserializer<'de>>(from: D) -> Result<Annotations, D::Error> {
    let members = Map::deserialize(from)?;
    Annotations::deserialize(Value::Object(members)).map_err(de::Error::custom)
}
