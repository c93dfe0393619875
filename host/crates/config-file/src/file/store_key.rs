//! `store_key` and `store_old_keys`, as written.

use std::{borrow::Cow, fmt, path::PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Place of a key that secrets in the store are sealed with. The key itself is not written in the
/// file.
pub enum StoreKey {
    /// Variable of the gateway's environment.
    Variable(String),
    /// File that has only the key.
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreKeyFile {
    file: PathBuf,
}

impl<'de> Deserialize<'de> for StoreKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StoreKeyVisitor)
    }
}

struct StoreKeyVisitor;

impl<'de> Visitor<'de> for StoreKeyVisitor {
    type Value = StoreKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"env.NAME\" or {\"file\": \"PATH\"}")
    }

    // The text is not quoted: it may be the key.
    fn visit_str<E: de::Error>(self, text: &str) -> Result<StoreKey, E> {
        match text.strip_prefix("env.") {
            Some(name) => Ok(StoreKey::Variable(name.to_owned())),
            None => Err(E::custom(
                "expected \"env.NAME\" or {\"file\": \"PATH\"}; the key itself is never written here",
            )),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<StoreKey, A::Error> {
        let StoreKeyFile { file } = StoreKeyFile::deserialize(MapAccessDeserializer::new(members))?;
        Ok(StoreKey::File(file))
    }
}

impl JsonSchema for StoreKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "StoreKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "string", "pattern": "^env\\."},
                {
                    "type": "object",
                    "properties": {"file": {"type": "string"}},
                    "required": ["file"],
                    "additionalProperties": false
                }
            ]
        })
    }
}
