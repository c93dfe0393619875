//! Arguments of a call, checked as text before anything reads them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{json, text::cut, tool::CallError};

/// Arguments beyond this are refused before they are parsed, in bytes.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// Bounds on the tree that providers and checks build of arguments, which can be a hundred times
/// their text.
const ARGUMENT_CAPS: json::Caps = json::Caps::memory(32 << 20);
/// The name of a tool in an error message is cut to this, in bytes: it can be anything that a
/// caller sent.
pub(super) const MAX_NAME_BYTES: usize = 128;

/// Arguments of a call: JSON text of an object. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments(pub(super) Arc<str>);

impl Arguments {
    /// Checks text; blank text stands for an object without members, as models send it. Fails if
    /// the text is too large, takes too much memory when parsed, is no JSON object, or has an
    /// object with a key twice: readers differ in which of the two values they take, so the tool
    /// could run with another one than was checked.
    pub fn parse(tool: &str, text: &str) -> Result<Self, CallError> {
        let bad = |detail: String| CallError::BadArguments {
            name: cut(tool.to_owned(), MAX_NAME_BYTES),
            detail,
        };
        if text.len() > MAX_ARGUMENT_BYTES {
            return Err(bad(format!("{} bytes, the limit is {MAX_ARGUMENT_BYTES}", text.len())));
        }
        if text.trim().is_empty() {
            return Ok(Self("{}".into()));
        }
        json::check(text.as_bytes(), &ARGUMENT_CAPS).map_err(|error| {
            bad(if error.is_cap() { error.to_string() } else { format!("not JSON: {error}") })
        })?;
        if let Some(kind) = kind_other_than_object(text) {
            return Err(bad(format!("found {kind}, expected a JSON object")));
        }
        json::check_unique_keys(text).map_err(|error| bad(error.to_string()))?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, parsed.
    ///
    /// # Panics
    ///
    /// Never: [`Arguments::parse`] lets only objects through.
    pub fn to_object(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).expect("parse() let only objects through")
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(object: Map<String, Value>) -> Self {
        Self(Value::Object(object).to_string().into())
    }
}

/// Names what JSON text is, by its first byte; `None` for an object.
fn kind_other_than_object(text: &str) -> Option<&'static str> {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => None,
        Some(b'[') => Some("an array"),
        Some(b'"') => Some("a string"),
        Some(b't' | b'f') => Some("a boolean"),
        Some(b'n') => Some("null"),
        _ => Some("a number"),
    }
}
