//! Arguments of a call, checked as text before they are used.

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use super::guard::GuardMark;
use crate::tool::CallError;
use airlock_json::{self as json, raw};
use airlock_strings::{MAX_NAME_BYTES, cut};

/// The longest arguments, in bytes of JSON text. Longer ones are refused before they are parsed. A
/// model writes at most some hundred KB in one answer; a program that has more passes a file or a
/// link.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// Limit on the memory of the tree that providers and checks build from arguments. A tree can take
/// 150 times the bytes of its text.
const ARGUMENT_CAPS: json::Caps = json::Caps::memory(32 << 20);

/// Arguments of a call: JSON text of an object. Cheap to clone.
#[derive(Clone)]
pub struct Arguments {
    pub(super) text: Arc<str>,
    /// The decision of the guards about a call with these arguments; `None` if none was asked.
    pub(super) guarded: Option<Arc<GuardMark>>,
}

impl Arguments {
    /// Checks the text of arguments. Blank text counts as an empty object, because models send it
    /// as such. Fails if the text is too large, takes too much memory when parsed, is not a JSON
    /// object, or has an object with a duplicate key. Parsers differ in which value of a duplicate
    /// key they keep, so the tool could run with a value that was not checked.
    pub fn parse(tool: &str, text: &str) -> Result<Self, CallError> {
        if text.len() > MAX_ARGUMENT_BYTES {
            let detail = format!("{} bytes; the limit is {MAX_ARGUMENT_BYTES}", text.len());
            return Err(bad_arguments(tool, detail));
        }
        if text.trim().is_empty() {
            return Ok(Self::unguarded("{}".into()));
        }
        let duplicate = json::check_keys(text, &ARGUMENT_CAPS).map_err(|error| {
            let detail =
                if error.is_cap() { error.to_string() } else { format!("not JSON: {error}") };
            bad_arguments(tool, detail)
        })?;
        if let Some(kind) = kind_other_than_object(text) {
            return Err(bad_arguments(tool, format!("found {kind}, expected a JSON object")));
        }
        match duplicate {
            Some(duplicate) => Err(bad_arguments(tool, duplicate.to_string())),
            None => Ok(Self::unguarded(text.into())),
        }
    }

    pub(super) fn unguarded(text: Arc<str>) -> Self {
        Self { text, guarded: None }
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Parses the members `names`, for tools whose parameters are texts, numbers and truth values. Arrays
    /// and objects in them are empty, so that the tree takes no more memory than the text.
    pub fn scalars(&self, names: &[&str]) -> Map<String, Value> {
        let members = raw::members(&self.text).into_iter().flatten();
        let wanted = members.filter(|(name, _)| names.contains(&&**name));
        wanted.map(|(name, text)| (name.into_owned(), scalar(text))).collect()
    }

    /// Parses the text. The tree can take 150 times the bytes of the text.
    ///
    /// # Panics
    ///
    /// Never: [`Arguments::parse`] accepts only objects.
    pub fn to_object(&self) -> Map<String, Value> {
        serde_json::from_str(&self.text).expect("parse() let only objects through")
    }
}

impl PartialEq for Arguments {
    /// Compares the texts.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Arguments {}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arguments").field(&self.text).finish()
    }
}

fn bad_arguments(tool: &str, detail: String) -> CallError {
    CallError::bad_arguments(&cut(tool.to_owned(), MAX_NAME_BYTES), detail)
}

/// Arguments of a call as a door takes them: text, or text that was checked before.
pub trait ToArguments {
    /// Returns the checked arguments of a call of the tool `tool`. Fails as [`Arguments::parse`] does.
    fn to_arguments(&self, tool: &str) -> Result<Arguments, CallError>;
}

impl ToArguments for str {
    fn to_arguments(&self, tool: &str) -> Result<Arguments, CallError> {
        Arguments::parse(tool, self)
    }
}

impl ToArguments for String {
    fn to_arguments(&self, tool: &str) -> Result<Arguments, CallError> {
        Arguments::parse(tool, self)
    }
}

impl ToArguments for Arguments {
    fn to_arguments(&self, _tool: &str) -> Result<Arguments, CallError> {
        Ok(self.clone())
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(object: Map<String, Value>) -> Self {
        Self::unguarded(Value::Object(object).to_string().into())
    }
}

/// Parses a JSON text; an array or an object is empty.
fn scalar(text: &str) -> Value {
    match text.as_bytes().first() {
        Some(b'{') => Value::Object(Map::new()),
        Some(b'[') => Value::Array(Vec::new()),
        _ => serde_json::from_str(text).unwrap_or_default(),
    }
}

/// Returns the kind of a JSON text by its first byte; `None` if it is an object.
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
