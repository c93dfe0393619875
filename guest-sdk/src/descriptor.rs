//! The descriptor of a tool: its name, its schemas and its hints.

use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::schema;

/// One tool as a plugin announces it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Descriptor {
    /// `^[a-zA-Z0-9_-]{1,64}$`, unique in the plugin; the host prefixes the client's name.
    pub name: String,
    /// Name for people.
    pub title: Option<String>,
    /// Description of the tool, written for a model.
    pub description: String,
    /// JSON Schema 2020-12 of the arguments; its root type is "object".
    pub input_schema: Schema,
    /// JSON Schema 2020-12 of [`Output::structured_content`](crate::Output::structured_content).
    pub output_schema: Option<Schema>,
    /// Behaviour hints.
    pub annotations: Annotations,
    /// Vendor keys, forwarded as MCP `_meta`: a JSON object.
    pub meta: Option<Value>,
    /// Other members of the MCP tool, such as `icons`: a JSON object.
    pub extra: Option<Value>,
}

impl Descriptor {
    /// Creates a descriptor without the optional members.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Schema,
    ) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: description.into(),
            input_schema,
            output_schema: None,
            annotations: Annotations::default(),
            meta: None,
            extra: None,
        }
    }
}

/// Behaviour of a tool. Hints only: the host never relaxes a policy because of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotations {
    /// The tool changes nothing outside itself.
    pub read_only: Option<bool>,
    /// A change that the tool makes may destroy something.
    pub destructive: Option<bool>,
    /// Calling the tool twice with the same arguments has the effect of calling it once.
    pub idempotent: Option<bool>,
    /// The tool uses things that the host does not know, such as the internet.
    pub open_world: Option<bool>,
    /// Other members of the MCP annotations: a JSON object.
    pub extra: Option<Value>,
}

/// Builds the descriptor of a tool for `#[tool]`; `docs` are the lines of its doc comment.
pub fn descriptor<A: JsonSchema>(
    name: &str,
    title: Option<&str>,
    docs: &str,
    annotations: Annotations,
    output_schema: Option<Schema>,
) -> Descriptor {
    Descriptor {
        title: title.map(str::to_owned),
        output_schema,
        annotations,
        ..Descriptor::new(name, schema::prose(docs), schema::of_input::<A>())
    }
}
