//! Identifiers of requests.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::Value;

/// Maximum bytes of an identifier that the other end chooses, also of an event. It is kept and sent
/// back. UUIDs have 36, and a server may use a JSON Web Token (MCP 2025-03-26, section Session
/// Management).
pub const MAX_ID_BYTES: usize = 1 << 10;

/// Identifier of a request: a string of at most [`MAX_ID_BYTES`] or an integer. `1` and `"1"` are
/// different; `1` and `1.0` are the same, and so are `"a"` and `"\u0061"`.
///
/// Kept as JSON text, because it is only compared and sent back.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RpcId(Arc<str>);

impl RpcId {
    /// Creates the identifier of a request of the gateway to a client.
    pub fn own(number: u64) -> Self {
        Self(format!("\"airlock-{number}\"").into())
    }

    /// Returns the number of a request of the gateway to a server; `None` if the identifier cannot be
    /// one. Some servers send the number of a request back as a string.
    pub fn number(&self) -> Option<i64> {
        self.0.trim_matches('"').parse().ok()
    }

    /// Returns the JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl From<i64> for RpcId {
    fn from(number: i64) -> Self {
        Self(number.to_string().into())
    }
}

impl fmt::Debug for RpcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RpcId {
    /// Reads an identifier without a tree, whatever the text has in its place.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = RpcId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number, or a string of at most {MAX_ID_BYTES} bytes")
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<RpcId, E> {
        Ok(id.into())
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<RpcId, E> {
        Ok(RpcId(id.to_string().into()))
    }

    fn visit_f64<E: Error>(self, id: f64) -> Result<RpcId, E> {
        // Above 2^53, a double does not represent a single whole number.
        let is_whole = id.fract() == 0.0 && id.abs() < 9_007_199_254_740_992.0;
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and fits")]
        if is_whole { self.visit_i64(id as i64) } else { Err(E::custom("no whole number")) }
    }

    fn visit_str<E: Error>(self, id: &str) -> Result<RpcId, E> {
        if id.len() > MAX_ID_BYTES {
            return Err(E::invalid_length(id.len(), &self));
        }
        // Escapes make it longer, and the text is what is kept.
        let json = Value::from(id).to_string();
        if json.len() > MAX_ID_BYTES + 2 {
            return Err(E::invalid_length(json.len(), &self));
        }
        Ok(RpcId(json.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_a_bounded_string_or_an_integer() {
        for (text, json) in [
            ("7", "7"),
            ("-7.0", "-7"),
            ("18446744073709551615", "18446744073709551615"),
            (r#""\u0061\"""#, r#""a\"""#),
        ] {
            assert_eq!(read(text).as_ref().map(RpcId::as_json), Some(json));
        }
        for text in ["null", "1.5", "1e300", "[1]", "{}", "true"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(read(&string("x", MAX_ID_BYTES)).is_some());
        assert!(read(&string("x", MAX_ID_BYTES + 1)).is_none());
        assert!(read(&string(r"\n", MAX_ID_BYTES / 2)).is_some());
        assert!(read(&string(r"\n", MAX_ID_BYTES / 2 + 1)).is_none());
    }

    fn read(text: &str) -> Option<RpcId> {
        serde_json::from_str(text).ok()
    }

    fn string(character: &str, length: usize) -> String {
        format!("\"{}\"", character.repeat(length))
    }

    #[test]
    fn a_number_may_come_back_as_a_string() {
        for (text, number) in
            [("7", Some(7)), (r#""7""#, Some(7)), (r#""x7""#, None), (r#""\"7""#, None)]
        {
            assert_eq!(read(text).expect("an identifier").number(), number, "{text}");
        }
        assert_eq!(RpcId::own(7).number(), None);
    }
}
