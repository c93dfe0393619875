//! A tool as the gateway keeps it: checked, of limited size, without hidden text.

use std::borrow::Cow;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{
    Annotations, ClientName, ToolDefinition, ToolName, Trust, hidden,
    hidden::{HiddenKey, text_of},
};
use airlock_json::{JsonText, parameters, schema::MAX_SCHEMA_BYTES};
use airlock_strings::{cut, estimated_tokens, hex};

/// The longest name of a tool, in characters, as MCP recommends (2025-11-25: 1 to 128).
const MAX_NAME: usize = 128;
/// The longest title, in bytes. Longer ones are cut: a client shows it on one line.
const MAX_TITLE: usize = 256;
/// The longest description, in bytes: 4,000 tokens. Longer ones are cut, because a description is
/// part of every request to a model.
const MAX_DESCRIPTION: usize = 16 * 1024;
/// The most bytes of vendor keys, of other members, and of other annotations, each. More are left
/// out: they are part of each `tools/list` of a client. A server's list has 4 MiB, of which one tool
/// takes less than a twentieth with all three.
const MAX_META: usize = 64 * 1024;
/// Tokens of the JSON around a name, a description and a schema.
const FRAME_TOKENS: u64 = 12;
/// Tokens of the [mark](Tool::marker) around the name of a client.
const MARKER_TOKENS: u64 = 8;
/// Bytes of a name in one token.
const NAME_BYTES: usize = 4;

/// A tool as the catalog keeps it: checked, of limited size, and with its name on the wire. It
/// takes about as much memory as its texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Name on the wire, to all clients and models.
    pub name: ToolName,
    /// Its name with the name of the client as prefix, whatever the prefix on the wire: grants of
    /// plugins use this name, and every caller may.
    pub full_name: ToolName,
    /// The client it belongs to; `None` for the gateway's own tools.
    pub client: Option<ClientName>,
    /// Name of the tool at its source. Allowlists use this name. Untrusted text, with hidden
    /// characters if the source has them.
    pub original: String,
    /// True if another tool of the source has the same name but for case. Allowlists then need
    /// exactly the name.
    pub has_twin: bool,
    /// Trust in its description and results.
    pub trust: Trust,
    /// Name for people, without hidden characters.
    pub title: Option<String>,
    /// Description of the tool, without hidden characters. Untrusted text; [`Self::described`] is
    /// for models.
    pub description: String,
    /// JSON Schema of the arguments: an object with the `type` `object`. Its texts have no hidden
    /// characters.
    pub input_schema: JsonText,
    /// JSON Schema of the structured result. Its texts have no hidden characters.
    pub output_schema: Option<JsonText>,
    /// Behaviour hints.
    pub annotations: Annotations,
    /// Vendor keys: a JSON object.
    pub meta: Option<JsonText>,
    /// Other members of MCP's `Tool` object, such as `icons`: a JSON object.
    pub extra: Option<JsonText>,
    /// Changes to the definition, for the operator.
    pub repairs: Vec<String>,
    /// Reason why the tool has its prefix although its client has none, for the operator.
    pub prefixed_because: Option<String>,
    /// Schema of the arguments as models get it; `None` if it is the same.
    parameters: Option<JsonText>,
    /// Estimated tokens of the description and of the schema as models get it.
    text_tokens: u64,
    /// The texts as the source announced them; `None` if they are the same.
    announced: Option<Box<Announced>>,
}

/// The texts of a tool as its source announced them, with hidden characters. Only for people, and
/// only made visible.
#[derive(Debug, Clone, PartialEq)]
struct Announced {
    title: Option<String>,
    description: String,
    input_schema: JsonText,
}

/// Reason why a definition cannot be added to the catalog. The other tools of its source are not
/// affected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// The name is too long, or has control characters.
    #[error(
        "a tool's name must have at most {MAX_NAME} characters and no control characters, found {0:?}"
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
    #[error("the {which} of tool {tool:?} is larger than {MAX_SCHEMA_BYTES} bytes")]
    SchemaTooLarge {
        /// Name of the tool at its source.
        tool: String,
        /// `inputSchema` or `outputSchema`.
        which: &'static str,
    },
    /// A member of the schema has hidden characters in its name. Without them it would be the name
    /// of another argument.
    #[error("the {which} of tool {tool:?} has a member with hidden characters, {key:?}")]
    HiddenKey {
        /// Name of the tool at its source.
        tool: String,
        /// `inputSchema` or `outputSchema`.
        which: &'static str,
        /// The name of the member, cut.
        key: String,
    },
}

impl Tool {
    /// Returns a digest of everything that a person or a model reads of the tool: its names, texts,
    /// schemas and hints. It is the same after a restart.
    pub fn digest(&self) -> String {
        let hints = &self.annotations;
        let hints = [hints.read_only, hints.destructive, hints.idempotent, hints.open_world];
        let hints = hints.map(|hint| hint.map_or('-', |is_so| if is_so { 'y' } else { 'n' }));
        let hints: String = hints.into_iter().collect();
        let parts = [
            Some(self.full_name.as_str()),
            Some(&*self.original),
            self.title.as_deref(),
            Some(&*self.description),
            Some(self.input_schema.as_str()),
            self.output_schema.as_ref().map(JsonText::as_str),
            Some(&*hints),
        ];
        let mut hasher = Sha256::new();
        for part in parts {
            // A missing part and an empty one differ, and no two lists of parts read the same.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(length.to_be_bytes());
            hasher.update(part.unwrap_or_default());
        }
        hex(&hasher.finalize())
    }

    /// Checks a definition from `client`: removes hidden characters from its texts, and cuts its
    /// title and description. Fails if the name or a schema is not valid, or if a schema has
    /// hidden characters in the name of a member.
    ///
    /// The tool has the name that [`ToolName::new`] makes, and its texts are trusted.
    pub fn adopt(client: &ClientName, definition: ToolDefinition) -> Result<Self, BadTool> {
        let original = definition.name;
        if original.chars().count() > MAX_NAME || original.chars().any(char::is_control) {
            return Err(BadTool::Name(original.chars().take(MAX_NAME).collect()));
        }
        let mut repairs = Vec::new();
        let input = Schema::input(&original, definition.input_schema, &mut repairs)?;
        let output = match definition.output_schema {
            Some(schema) => Some(Schema::output(&original, schema)?),
            None => None,
        };
        let title = definition.title.map(|title| ToolText::new(title, MAX_TITLE));
        let description = ToolText::new(definition.description, MAX_DESCRIPTION);
        let is_changed = title.as_ref().is_some_and(|title| title.announced.is_some())
            || description.announced.is_some()
            || input.announced.is_some();
        let announced = is_changed.then(|| {
            Box::new(Announced {
                title: title.as_ref().map(ToolText::announced),
                description: description.announced(),
                input_schema: input.announced.clone().unwrap_or_else(|| input.schema.clone()),
            })
        });
        if is_changed || output.as_ref().is_some_and(|output| output.announced.is_some()) {
            repairs.push("hidden characters removed".to_owned());
        }
        let name = ToolName::new(client, &original);
        let parameters = parameters::repaired(&input.schema, &mut repairs);
        let text_tokens =
            text_tokens(&description.shown, parameters.as_ref().unwrap_or(&input.schema));
        Ok(Self {
            full_name: name.clone(),
            name,
            client: Some(client.clone()),
            original,
            has_twin: false,
            trust: Trust::Trusted,
            title: title.map(|title| title.shown),
            description: description.shown,
            parameters,
            text_tokens,
            input_schema: input.schema,
            output_schema: output.map(|output| output.schema),
            annotations: bounded(definition.annotations),
            meta: definition.meta.and_then(small_object),
            extra: Some(Value::Object(definition.extra).into()).and_then(small_text_object),
            repairs,
            prefixed_because: None,
            announced,
        })
    }

    /// Creates one of the gateway's own tools.
    pub fn own(name: &'static str, description: &str, input_schema: Value) -> Self {
        let name_on_wire = ToolName::own(name);
        let input_schema = JsonText::from(input_schema);
        Self {
            full_name: name_on_wire.clone(),
            name: name_on_wire,
            client: None,
            original: name.to_owned(),
            has_twin: false,
            trust: Trust::Trusted,
            title: None,
            description: description.to_owned(),
            text_tokens: text_tokens(description, &input_schema),
            input_schema,
            output_schema: None,
            annotations: Annotations::default(),
            meta: None,
            extra: None,
            repairs: Vec::new(),
            prefixed_because: None,
            parameters: None,
            announced: None,
        }
    }

    /// Returns one of the gateway's own tools as a tool of the client that it uses in a call. Its full name has the
    /// prefix of the client, and its name on the wire stays the same.
    #[must_use]
    pub fn of_client(&self, client: &ClientName) -> Self {
        let full_name = ToolName::new(client, &self.original);
        Self { full_name, client: Some(client.clone()), ..self.clone() }
    }

    /// Iterates over the changes to the definition and the name, for the operator.
    pub fn changes(&self) -> impl Iterator<Item = &str> {
        self.repairs.iter().chain(&self.prefixed_because).map(String::as_str)
    }

    /// Returns the name of the tool at its source without hidden characters. Two tools of a source
    /// may have the same.
    pub fn shown_original(&self) -> Cow<'_, str> {
        airlock_strings::stripped(&self.original)
    }

    /// Returns the description for a model. That of an MCP server that is not trusted says so.
    pub fn described(&self) -> Cow<'_, str> {
        let Some(marker) = self.marker() else { return Cow::Borrowed(&self.description) };
        let name;
        let text = if self.description.trim().is_empty() {
            name = self.shown_original();
            if name.is_empty() { self.name.as_str() } else { &*name }
        } else {
            &self.description
        };
        Cow::Owned(format!("{marker}{text}"))
    }

    /// Returns the mark of texts from outside, with a blank at its end; `None` for a client that is
    /// trusted.
    pub fn marker(&self) -> Option<String> {
        let client = self.client.as_ref().filter(|_| self.trust == Trust::Untrusted)?;
        Some(format!("[MCP Service: {client} (external)] "))
    }

    /// Returns the JSON Schema of the arguments for a model: that of the source, without what
    /// providers of models refuse.
    pub fn parameters(&self) -> &JsonText {
        self.parameters.as_ref().unwrap_or(&self.input_schema)
    }

    /// Returns the estimated number of tokens that a model reads of the definition. Only adds numbers: the texts
    /// were read when the tool was created.
    pub fn definition_tokens(&self) -> u64 {
        let source = self.client.as_ref().filter(|_| self.trust == Trust::Untrusted);
        let marker = source.map_or(0, |client| MARKER_TOKENS + name_tokens(client.as_str()));
        FRAME_TOKENS + name_tokens(self.name.as_str()) + marker + self.text_tokens
    }

    /// Returns the title as the source announced it, cut. It may have hidden characters.
    pub fn announced_title(&self) -> Option<&str> {
        let title = self.announced.as_ref().map_or(&self.title, |announced| &announced.title);
        title.as_deref()
    }

    /// Returns the description as the source announced it, cut. It may have hidden characters.
    pub fn announced_description(&self) -> &str {
        self.announced.as_ref().map_or(&self.description, |announced| &announced.description)
    }

    /// Returns the tool with the announced texts of another one.
    pub(super) fn announced_as(self, other: &Self) -> Self {
        let announced = other.announced.clone().unwrap_or_else(|| {
            Box::new(Announced {
                title: other.title.clone(),
                description: other.description.clone(),
                input_schema: other.input_schema.clone(),
            })
        });
        Self { announced: Some(announced), ..self }
    }

    /// Returns the schema of the arguments for the operator: as the source announced it, with
    /// hidden characters made visible.
    pub fn visible_schema(&self) -> JsonText {
        match &self.announced {
            Some(announced) => hidden::made_visible(&announced.input_schema),
            None => self.input_schema.clone(),
        }
    }
}

fn name_tokens(name: &str) -> u64 {
    name.len().div_ceil(NAME_BYTES) as u64
}

fn text_tokens(description: &str, parameters: &JsonText) -> u64 {
    estimated_tokens(description) + estimated_tokens(parameters.as_str())
}

/// A text with and without hidden characters.
struct ToolText {
    shown: String,
    /// `None` if it is the same.
    announced: Option<String>,
}

impl ToolText {
    fn new(announced: String, limit_bytes: usize) -> Self {
        match text_of(&announced) {
            None => Self { shown: cut(announced, limit_bytes), announced: None },
            Some(shown) => Self {
                shown: cut(shown, limit_bytes),
                announced: Some(cut(announced, limit_bytes)),
            },
        }
    }

    fn announced(&self) -> String {
        self.announced.as_ref().unwrap_or(&self.shown).clone()
    }
}

/// A schema with and without hidden characters.
struct Schema {
    schema: JsonText,
    /// `None` if it is the same.
    announced: Option<JsonText>,
}

impl Schema {
    /// Checks the schema of the arguments. Adds `type` to one without it, because MCP requires it.
    fn input(tool: &str, json: JsonText, repairs: &mut Vec<String>) -> Result<Self, BadTool> {
        let which = "inputSchema";
        let (json, mut members) = members(tool, which, json)?;
        match members.get("type") {
            Some(Value::String(kind)) if kind == "object" => return Self::new(tool, which, json),
            None => {}
            Some(_) => return Err(BadTool::Schema { tool: tool.to_owned(), which }),
        }
        members.insert("type".into(), "object".into());
        repairs.push("inputSchema: \"type\": \"object\" added".to_owned());
        Self::new(tool, which, bounded_schema(tool, which, Value::Object(members).into())?)
    }

    /// Checks the schema of the result. MCP 2026-07-28 allows any JSON value as one.
    fn output(tool: &str, json: JsonText) -> Result<Self, BadTool> {
        let which = "outputSchema";
        let (json, _) = members(tool, which, json)?;
        Self::new(tool, which, json)
    }

    fn new(tool: &str, which: &'static str, json: JsonText) -> Result<Self, BadTool> {
        match hidden::json_of(&json) {
            Ok(None) => Ok(Self { schema: json, announced: None }),
            Ok(Some(schema)) => Ok(Self { schema, announced: Some(json) }),
            Err(HiddenKey(key)) => Err(BadTool::HiddenKey { tool: tool.to_owned(), which, key }),
        }
    }
}

/// Returns a schema with its members. Fails if it is too large or not an object, or nested deeper
/// than `serde_json` parses.
fn members(
    tool: &str,
    which: &'static str,
    json: JsonText,
) -> Result<(JsonText, Map<String, Value>), BadTool> {
    // The size is checked before the text becomes a tree.
    let json = bounded_schema(tool, which, json)?;
    match json.to_value() {
        Ok(Value::Object(members)) => Ok((json, members)),
        _ => Err(BadTool::Schema { tool: tool.to_owned(), which }),
    }
}

fn bounded_schema(tool: &str, which: &'static str, json: JsonText) -> Result<JsonText, BadTool> {
    if json.as_str().len() <= MAX_SCHEMA_BYTES {
        Ok(json)
    } else {
        Err(BadTool::SchemaTooLarge { tool: tool.to_owned(), which })
    }
}

/// Returns hints without other members of more than [`MAX_META`] bytes, and without hidden
/// characters.
fn bounded(annotations: Annotations) -> Annotations {
    Annotations { extra: annotations.extra.and_then(small_text_object), ..annotations }
}

/// Returns an object with members of at most [`MAX_META`] bytes; `None` for anything else.
fn small_object(json: JsonText) -> Option<JsonText> {
    let text = json.as_str();
    let is_object = text.starts_with('{') && text != "{}";
    (is_object && text.len() <= MAX_META).then_some(json)
}

/// Returns the same as [`small_object`] without hidden characters; `None` if the name of a member
/// has some.
fn small_text_object(json: JsonText) -> Option<JsonText> {
    hidden::without_hidden(small_object(json)?)
}

#[cfg(test)]
mod tests;
