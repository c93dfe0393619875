//! Text that may come from the environment.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::vault_reference::VaultReference;
use airlock_core::secret::Secret;

/// Text as written, the name of an environment variable of the gateway, or a secret of a vault.
pub enum EnvText {
    /// Text as written.
    Written(Secret),
    /// Text in the long form, which has `${…}` on purpose.
    Literal(Secret),
    /// Name of a variable of the gateway.
    Variable(String),
    /// Reference to a secret of a vault.
    Vaulted(VaultReference),
}

impl EnvText {
    /// Parses `env.NAME` as a variable, `vault.NAME/REFERENCE` as a secret of a vault, and all other text as
    /// written.
    pub fn parse(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("env.") {
            return Self::Variable(name.to_owned());
        }
        match VaultReference::parse(text) {
            Some(reference) => Self::Vaulted(reference),
            None => Self::Written(Secret::new(text)),
        }
    }
}

impl<'de> Deserialize<'de> for EnvText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EnvTextVisitor)
    }
}

struct EnvTextVisitor;

/// The long form, as Bifrost's API writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvObject {
    value: Option<String>,
    env_var: Option<String>,
    from_env: Option<bool>,
}

impl<'de> Visitor<'de> for EnvTextVisitor {
    type Value = EnvText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, \"env.NAME\", or {\"env_var\": \"env.NAME\"}")
    }

    fn visit_str<E>(self, text: &str) -> Result<EnvText, E> {
        Ok(EnvText::parse(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<EnvText, A::Error> {
        let object = EnvObject::deserialize(MapAccessDeserializer::new(members))?;
        let from_env = object.from_env;
        // Programs write an empty string for the absent one of the two.
        let value = object.value.filter(|text| !text.is_empty());
        let variable = object.env_var.filter(|text| !text.is_empty());
        match (value, variable) {
            (Some(value), None) if from_env != Some(true) => {
                Ok(EnvText::Literal(Secret::new(value)))
            }
            // Bifrost writes the resolved value beside the variable. The variable is the setting.
            (value, Some(variable))
                if from_env == Some(true) || (value.is_none() && from_env.is_none()) =>
            {
                match EnvText::parse(&variable) {
                    EnvText::Written(_) | EnvText::Literal(_) => {
                        Err(de::Error::custom("`env_var` must have the form \"env.NAME\""))
                    }
                    reference => Ok(reference),
                }
            }
            _ => Err(de::Error::custom(
                "expected either `env_var` (from the environment) or `value` (as it is), and not both",
            )),
        }
    }
}

impl JsonSchema for EnvText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EnvText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "string", "examples": ["env.NAME"]},
                {
                    "type": "object",
                    "properties": {
                        "env_var": {"type": "string", "pattern": "^(env|vault)\\."},
                        "value": {"type": "string"},
                        "from_env": {"type": "boolean"}
                    },
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// Returns whether a text has a reference to a variable in the form of other programs, such as
/// `${NAME}` or `${env:NAME}`. The gateway expands none.
pub fn has_reference(text: &str) -> bool {
    references(text).next().is_some()
}

/// Returns whether a text is one such reference and nothing else.
pub fn is_reference(text: &str) -> bool {
    references(text).any(|name| name.len() + "${}".len() == text.len())
}

/// Returns whether a text has a reference that only an editor expands: a process that receives it, such
/// as a shell, cannot.
pub fn has_reference_of_editors(text: &str) -> bool {
    references(text).any(|name| {
        let variable = name.strip_prefix("env:").or_else(|| name.strip_prefix("input:"));
        variable.is_some_and(begins_name) || name == "workspaceFolder" || name == "userHome"
    })
}

/// Returns whether a text has `env.NAME` as a word after the first one, as in `Bearer env.NAME`. The
/// gateway replaces only a whole text.
pub fn has_variable_after_scheme(text: &str) -> bool {
    text.split_whitespace().skip(1).any(|word| {
        word.strip_prefix("env.").is_some_and(|name| {
            begins_name(name) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    })
}

/// Iterates over the contents of `${…}` that begin as a name does.
fn references(text: &str) -> impl Iterator<Item = &str> {
    let contents = text.split("${").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    contents.filter(|content| begins_name(content))
}

fn begins_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}
