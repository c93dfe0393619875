//! The schema of a tool's arguments as models get it.
//!
//! Providers of models refuse a whole request for one schema that they do not take: OpenAI and
//! Anthropic refuse `anyOf`, `oneOf` and `allOf` at the root, OpenAI also `enum`, `const` and `not`
//! there, a missing `properties`, arrays without `items` and references without a target; Anthropic
//! refuses forms of older drafts. A schema without these is left as it is. MCP clients and
//! operators get every schema as it is.

mod merge;
mod walk;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::{merge::Merge, walk::ParameterWalk};
use crate::{JsonText, schema::MAX_SCHEMA_BYTES};
use airlock_strings::cut;

/// Members of the root that combine or restrict whole schemas.
const COMBINATORS: [&str; 6] = ["anyOf", "oneOf", "allOf", "not", "enum", "const"];
/// The longest text about alternatives, in bytes: some twenty sets of names. It is part of every
/// request to a model.
const MAX_ALTERNATIVES: usize = 512;

/// Returns the schema that models get, and adds the changes to `repairs`; `None` if it is the same.
/// Takes memory in proportion to the schema, and about 0.1 s at most.
pub fn repaired(schema: &JsonText, repairs: &mut Vec<String>) -> Option<JsonText> {
    let Ok(Value::Object(mut root)) = schema.to_value() else { return None };
    let mut made = BTreeSet::new();
    ParameterWalk::new(schema, &root, &mut made).object(&mut root);
    if flattened(&mut root, &mut made) {
        // References may have led into what is gone now.
        let text = JsonText::from(Value::Object(root.clone()));
        ParameterWalk::new(&text, &root.clone(), &mut made).object(&mut root);
    }
    if made.is_empty() {
        return None;
    }
    let mut json = JsonText::from(Value::Object(root));
    if json.as_str().len() > MAX_SCHEMA_BYTES || json.to_value().is_err() {
        json = Value::Object(any_object()).into();
        made = BTreeSet::from([
            "arguments not described, because the schema is too large or too deep",
        ]);
    }
    repairs.extend(made.into_iter().map(|repair| format!("for models: {repair}")));
    Some(json)
}

/// Resolves what combines schemas at the root: the properties of all alternatives are offered.
/// Returns whether it was there.
fn flattened(root: &mut Map<String, Value>, made: &mut BTreeSet<&'static str>) -> bool {
    let combines = COMBINATORS.iter().any(|name| root.contains_key(*name));
    let refers = root.contains_key("$ref") && !root.contains_key("properties");
    if combines || refers {
        let document = Value::Object(root.clone());
        let mut merge = Merge::new(&document);
        let (properties, required) = merge.root().into_members();
        let alternatives = merge.alternatives();
        if merge.is_cut() {
            made.insert("some alternatives left out, because there are too many");
        }
        for name in COMBINATORS {
            root.shift_remove(name);
        }
        root.shift_remove("$ref");
        root.insert("properties".into(), Value::Object(properties));
        root.shift_remove("required");
        if !required.is_empty() {
            root.insert("required".into(), required.into());
        }
        describe(root, &alternatives);
        made.insert(if combines {
            "`anyOf`, `oneOf`, `allOf`, `not`, `enum` and `const` at the root resolved"
        } else {
            "`$ref` at the root resolved"
        });
    }
    if !root.contains_key("properties") {
        root.insert("properties".into(), Value::Object(Map::new()));
        made.insert("`properties` added");
    }
    combines || refers
}

/// Describes for the model which arguments belong together, if there are alternatives.
fn describe(root: &mut Map<String, Value>, alternatives: &[Vec<String>]) {
    if alternatives.iter().filter(|names| !names.is_empty()).count() < 2 {
        return;
    }
    let sets: Vec<_> = alternatives.iter().map(|names| format!("({})", names.join(", "))).collect();
    let sets = format!("Needs one of these sets of arguments: {}", sets.join(" or "));
    let sets = cut(sets, MAX_ALTERNATIVES);
    let description = match root.get("description").and_then(Value::as_str) {
        Some(own) => format!("{own}\n{sets}"),
        None => sets,
    };
    root.insert("description".into(), description.into());
}

fn any_object() -> Map<String, Value> {
    let members = [("type", "object".into()), ("properties", Value::Object(Map::new()))];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests;
