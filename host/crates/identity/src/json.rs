//! Parses JSON objects that may be malicious.

use airlock_json::{self as json, Caps};
use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Maximum memory of the tree of a document of the issuer, in bytes: 16 times the largest text. Dense
/// JSON takes up to 150 times its length.
pub(crate) const DOCUMENT_MEMORY: usize = 4 << 20;

/// Parses an object whose tree takes at most `memory_bytes`. `None` if the text is no such object
/// or has a duplicate member, of which two parsers may see different ones. The reason is not
/// returned, because errors of a parser quote the text.
pub(crate) fn object(text: &[u8], memory_bytes: usize) -> Option<Object> {
    let text = str::from_utf8(text).ok()?;
    let (object, _) = json::parse(text.as_bytes(), &Caps::memory(memory_bytes)).ok()?;
    json::check_unique_keys(text).ok()?;
    Some(object)
}
