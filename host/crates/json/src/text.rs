//! JSON values that are kept as text.
//!
//! A tree of `serde_json` takes up to 150 times the memory of its text, and cloning it copies every
//! node: a value has 72 bytes, and each level of `[[0]]`, two bytes of text, is an array with room for
//! four of them. A schema is kept as long as its source exists, and is sent to a model in every chat.
//! Schemas are therefore kept as text, and are parsed to a tree once, when a tool is published.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::Value;

/// A JSON value as text, in compact form and without duplicate keys. It takes about as much memory
/// as its text; cloning it clones an `Arc`.
#[derive(Clone)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Parses JSON and keeps it in compact form. If a key is there twice, the last value is kept,
    /// so that the gateway and the model read the same value. Fails if `text` is not valid JSON or
    /// is nested deeper than 127 levels.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Value>(text).map(Self::from)
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the text to a tree. Fails if it is nested deeper than 127 levels, which is possible
    /// if it was made from a [`Value`].
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Compares two texts as values: the order of members does not count.
impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
            || matches!((self.to_value(), other.to_value()), (Ok(one), Ok(other)) if one == other)
    }
}

impl PartialEq<Value> for JsonText {
    fn eq(&self, other: &Value) -> bool {
        self.to_value().is_ok_and(|value| value == *other)
    }
}

impl Serialize for JsonText {
    /// Serializes the value itself, not a string. Builds a temporary tree of the value.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_compact_keeps_the_order_and_resolves_repeated_members() {
        let text = JsonText::parse("{ \"z\" : 1.50, \"a\": [ ], \"z\": \"\\u0041\" }")
            .expect("it is JSON");
        assert_eq!(text.as_str(), r#"{"z":"A","a":[]}"#);
        assert!(JsonText::parse("{").is_err());
    }

    #[test]
    fn two_texts_of_one_value_are_equal() {
        assert_eq!(text(r#"{"a":1,"b":2}"#), text(r#"{"b":2,"a":1}"#));
        assert_ne!(text(r#"{"a":1}"#), text(r#"{"a":2}"#));
        assert_eq!(text(r#"{"b":2,"a":1}"#), json!({"a": 1, "b": 2}));
    }

    fn text(text: &str) -> JsonText {
        JsonText::parse(text).expect("it is JSON")
    }

    #[test]
    fn a_text_is_serialized_as_its_value_and_not_as_a_string() {
        let text = JsonText::parse(r#"{"a":[1,null]}"#).expect("it is JSON");
        assert_eq!(serde_json::to_string(&text).expect("it is shallow"), r#"{"a":[1,null]}"#);
        assert_eq!(serde_json::from_str::<JsonText>("[1]").expect("it is JSON").as_str(), "[1]");
    }

    #[test]
    fn a_value_too_deep_to_be_parsed_again_is_an_error_and_no_panic() {
        let deep = JsonText::from((0..200).fold(json!(1), |inner, _| json!([inner])));
        assert!(deep.to_value().is_err() && serde_json::to_string(&deep).is_err());
        assert_eq!(deep, deep.clone());
    }

    #[test]
    fn cloning_shares_the_text() {
        let text = JsonText::from(json!({"a": 1}));
        assert!(Arc::ptr_eq(&text.0, &text.clone().0));
    }
}
