//! Values in the arguments of a call: the paths by which rules name them, and the sources that each may have.
//!
//! A rule that covers too much is safer than one that covers too little. So upper and lower case are the same, a rule
//! about a value covers what is in it and what it is in, and what is in an array is the array.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use crate::tool::{SourceSet, SourcesByPath};
use airlock_json::raw;

/// Longest path, in bytes: an element of `arguments` in `mcp.information_flow.sinks`. Three names of 64 fit, and messages
/// about rules repeat it.
const MAX_PATH_BYTES: usize = 256;
/// Members of a JSON Schema that may permit members which `properties` does not list.
const OPEN_MEMBERS: [&str; 8] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "patternProperties",
    "dependentSchemas",
];

/// Path of a value in the arguments of calls: names of members with dots between them, such as `message.body`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkArgument(String);

/// Error: a text is no path of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no path of an argument: write names of members with dots between them, as in `to` or `message.body`, at most {MAX_PATH_BYTES} bytes"
)]
pub struct BadSinkArgument(String);

impl SinkArgument {
    /// Parses a path. Fails if it is empty or too long, or if a name in it is empty.
    pub fn parse(text: &str) -> Result<Self, BadSinkArgument> {
        let has_names = text.split('.').all(|name| !name.trim().is_empty());
        if !has_names || text.len() > MAX_PATH_BYTES {
            return Err(BadSinkArgument(text.chars().take(MAX_PATH_BYTES).collect()));
        }
        Ok(Self(text.to_lowercase()))
    }

    /// Returns whether calls of a tool may have the value, by the JSON Schema of its arguments: false only if the schema
    /// lists the members of each object on the path, and the value is not among them.
    pub fn may_be_in(&self, schema: &Value) -> bool {
        may_be_in(&self.0, schema)
    }

    /// Returns whether a call has the value, or one in whose place it may be. `arguments` is JSON text.
    pub(super) fn is_given(&self, arguments: &str) -> bool {
        is_given(&self.0, arguments)
    }
}

impl fmt::Display for SinkArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The sources that the values in the arguments of one call may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArgumentSources(BTreeMap<String, SourceSet>);

impl ArgumentSources {
    /// Adds the sources of the value at a path, with dots between the names; of all values if it is empty.
    pub fn add(&mut self, path: &str, sources: &SourceSet) {
        self.0.entry(path.to_lowercase()).or_default().extend(sources);
    }

    /// Returns the same sources for all values: those of a call whose values were exchanged.
    #[must_use]
    pub fn mixed(&self) -> Self {
        let mut mixed = Self::default();
        for sources in self.0.values() {
            mixed.add("", sources);
        }
        mixed
    }

    /// Returns the JSON text of the sources that the author of a call has read, and those of its arguments, as
    /// [`SourceSet::from_json`] and [`SourcesByPath::from_stored`] read it; `None` if it has read none. The empty path has those of
    /// all arguments, so that none of them seems to have no source.
    pub fn to_json(&self, read: &SourceSet) -> Option<String> {
        let read = read.to_json()?;
        let shown = self.0.iter().map(|(path, own)| match path.as_str() {
            "" => ("", own.clone()),
            path => (path, self.of_path(path)),
        });
        let shown: BTreeMap<_, _> = shown.filter(|(_, sources)| !sources.is_empty()).collect();
        let shown = serde_json::to_string(&shown).ok()?;
        Some(format!(r#"{{"{}":{read},"{}":{shown}}}"#, SourceSet::READ, SourcesByPath::MEMBER))
    }

    /// Returns the sources that the value of an argument may have.
    pub(super) fn at(&self, argument: &SinkArgument) -> SourceSet {
        self.of_path(&argument.0)
    }

    fn of_path(&self, own: &str) -> SourceSet {
        let mut found = SourceSet::default();
        for (path, sources) in &self.0 {
            if path.is_empty() || is_within(path, own) || is_within(own, path) {
                found.extend(sources);
            }
        }
        found
    }
}

/// Returns whether a path is another one, or leads to a value in the value there.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns whether a JSON text may have a value at a path, in lower case.
fn is_given(path: &str, json: &str) -> bool {
    let Some(mut members) = raw::members(json) else {
        return json.trim_ascii_start().starts_with('[');
    };
    members.any(|(name, value)| {
        let name = name.to_lowercase();
        let inner = path.strip_prefix(&*name).and_then(|rest| rest.strip_prefix('.'));
        // A name may have dots itself.
        is_within(&name, path) || inner.is_some_and(|inner| is_given(inner, value))
    })
}

/// Returns whether a JSON text that fits a schema may have a value at a path, in lower case.
fn may_be_in(path: &str, schema: &Value) -> bool {
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {}
        Some("string" | "number" | "integer" | "boolean" | "null") => return false,
        _ => return true,
    }
    let is_open = OPEN_MEMBERS.iter().any(|member| schema.get(member).is_some())
        || schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(properties) = properties.filter(|_| !is_open) else { return true };
    properties.iter().any(|(name, schema)| {
        let name = name.to_lowercase();
        let inner = path.strip_prefix(&*name).and_then(|rest| rest.strip_prefix('.'));
        is_within(&name, path) || inner.is_some_and(|inner| may_be_in(inner, schema))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn argument(path: &str) -> SinkArgument {
        SinkArgument::parse(path).expect("a path")
    }

    #[test]
    fn a_path_has_names() {
        for path in ["to", "message.body", "a b", "Über"] {
            assert!(SinkArgument::parse(path).is_ok(), "{path}");
        }
        for path in ["", ".", "a.", ".a", "a..b", " ", &"x".repeat(257)] {
            assert!(SinkArgument::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_value_has_the_sources_of_what_it_is_in_and_of_what_is_in_it() {
        let mut sources = ArgumentSources::default();
        sources.add("", &SourceSet::from_iter(["start"]));
        sources.add("Message.Body", &SourceSet::from_iter(["web"]));
        sources.add("message.to", &SourceSet::from_iter(["crm"]));
        sources.add("toast", &SourceSet::from_iter(["feed"]));
        for (path, expected) in [
            ("message.body", "start, web"),
            ("message.body.text", "start, web"),
            ("MESSAGE", "crm, start, web"),
            ("message.bod", "start"),
            ("to", "start"),
            ("toast", "feed, start"),
        ] {
            assert_eq!(sources.at(&argument(path)).to_string(), expected, "{path}");
        }
        assert_eq!(sources.mixed().at(&argument("to")).to_string(), "crm, feed, start, web");
    }

    #[test]
    fn sources_of_arguments_are_stored_beside_those_that_were_read() {
        let mut sources = ArgumentSources::default();
        let read = SourceSet::from_iter(["crm", "web"]);
        sources.add("to", &SourceSet::from_iter(["crm"]));
        sources.add("body", &SourceSet::default());
        let stored = sources.to_json(&read);
        assert_eq!(SourceSet::from_json(stored.as_deref()), read);
        assert_eq!(of_arguments(stored.as_deref()), Some(json!({"to": ["crm"]})));
        assert_eq!(of_arguments(read.to_json().as_deref()), None);
        assert_eq!(sources.to_json(&SourceSet::default()), None);
        sources.add("", &SourceSet::from_iter(["web"]));
        let of_all = sources.to_json(&read);
        let shown = json!({"": ["web"], "body": ["web"], "to": ["crm", "web"]});
        assert_eq!(of_arguments(of_all.as_deref()), Some(shown));
        let mixed = sources.mixed().to_json(&read);
        assert_eq!(of_arguments(mixed.as_deref()), Some(json!({"": ["crm", "web"]})));
    }

    /// Returns the sources of arguments that are stored.
    fn of_arguments(stored: Option<&str>) -> Option<Value> {
        SourcesByPath::from_stored(stored).map(|known| json!(known))
    }

    #[test]
    fn a_call_has_a_value_whose_names_it_has() {
        for (path, json, expected) in [
            ("to", r#"{"to": null}"#, true),
            ("to", r#"{"To": "x"}"#, true),
            ("to", r#"{"t\u006f": "x"}"#, true),
            ("to", r#"{"too": "x", "t": {"o": 1}}"#, false),
            ("to", "{}", false),
            ("message.body", r#"{"message": {"body": 1}}"#, true),
            ("message.body", r#"{"message": {"text": 1}}"#, false),
            ("message.body", r#"{"message": "x"}"#, false),
            ("message.body", r#"{"message": [{"text": 1}]}"#, true),
            ("message.body", r#"{"message.body": 1}"#, true),
            ("message", r#"{"message.body": 1}"#, true),
        ] {
            assert_eq!(argument(path).is_given(json), expected, "{path} {json}");
        }
    }

    #[test]
    fn a_schema_that_lists_its_members_has_no_others() {
        let message = json!({"type": "object", "properties": {"Body": {"type": "string"}}});
        let list = json!({"type": "array", "items": message});
        let schema = json!({"type": "object", "properties": {
            "to": {"type": "string"}, "message": message, "parts": list, "any": {}, "a.b": {"type": "object"},
        }});
        for (path, expected) in [
            ("to", true),
            ("TO", true),
            ("too", false),
            ("to.name", false),
            ("message", true),
            ("message.body", true),
            ("message.text", false),
            ("parts.text", true),
            ("any.text", true),
            ("a", true),
            ("a.b.c", true),
            ("a.c", false),
        ] {
            assert_eq!(argument(path).may_be_in(&schema), expected, "{path}");
        }
        let to = argument("to");
        for open in [
            json!({"type": "object"}),
            json!({"type": ["object", "null"], "properties": {}}),
            json!({"type": "object", "properties": {}, "allOf": [{"$ref": "#/$defs/a"}]}),
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            json!(true),
        ] {
            assert!(to.may_be_in(&open), "{open}");
        }
        for closed in [
            json!({"type": "object", "properties": {}}),
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        ] {
            assert!(!to.may_be_in(&closed), "{closed}");
        }
    }
}
