//! Place of a private key, as written.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use airlock_tls::is_content;

/// Place of a private key. The key itself is not written in the file.
pub enum PrivateKey {
    /// Variable of the gateway's environment that has the key in PEM format.
    Variable(String),
    /// PEM file.
    File(PathBuf),
}

impl<'de> Deserialize<'de> for PrivateKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(PrivateKeyVisitor)
    }
}

struct PrivateKeyVisitor;

impl Visitor<'_> for PrivateKeyVisitor {
    type Value = PrivateKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the path of a PEM file, or \"env.NAME\"")
    }

    // The text is not quoted: it may be the key.
    fn visit_str<E: de::Error>(self, text: &str) -> Result<PrivateKey, E> {
        if is_content(Path::new(text)) {
            return Err(E::custom(
                "expected the path of a PEM file, or \"env.NAME\"; the key itself is never written here",
            ));
        }
        Ok(match text.strip_prefix("env.") {
            Some(name) => PrivateKey::Variable(name.to_owned()),
            None => PrivateKey::File(text.into()),
        })
    }
}

impl JsonSchema for PrivateKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PrivateKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}
