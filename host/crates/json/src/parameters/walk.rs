//! Repairs each schema of a document by itself.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::JsonText;
use airlock_strings::percent_decoded;

/// Members that hold one schema. `items` of older drafts may be a list.
const SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Members that hold a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Members that hold schemas by name.
const NAMED: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Walks the schemas of a document. Values such as `default` and `enum` are data and are not
/// visited. The depth is that of parsed JSON, at most 128.
pub(super) struct ParameterWalk<'m> {
    /// The document that references lead into; `None` if it has none.
    document: Option<Value>,
    made: &'m mut BTreeSet<&'static str>,
}

impl<'m> ParameterWalk<'m> {
    pub(super) fn new(
        text: &JsonText,
        root: &Map<String, Value>,
        made: &'m mut BTreeSet<&'static str>,
    ) -> Self {
        let has_references = text.as_str().contains("\"$ref\"");
        Self { document: has_references.then(|| Value::Object(root.clone())), made }
    }

    fn schema(&mut self, schema: &mut Value) {
        if let Value::Object(members) = schema {
            self.object(members);
        }
    }

    /// Repairs one schema and those in it.
    pub(super) fn object(&mut self, schema: &mut Map<String, Value>) {
        self.reference(schema);
        self.members(schema);
        self.items(schema);
        for name in SCHEMA {
            if let Some(inner) = schema.get_mut(name) {
                self.schema(inner);
            }
        }
        for name in LIST {
            for inner in schema.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
                self.schema(inner);
            }
        }
        for name in NAMED {
            let named = schema.get_mut(name).and_then(Value::as_object_mut);
            for (_, inner) in named.into_iter().flatten() {
                self.schema(inner);
            }
        }
    }

    /// Removes a reference that leads out of the document, which is never fetched, or to nothing.
    fn reference(&mut self, schema: &mut Map<String, Value>) {
        let Some(reference) = schema.get("$ref") else { return };
        let pointer = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
        let repair = match (pointer, &self.document) {
            (Some(pointer), Some(document)) => {
                if target(document, pointer).is_some() {
                    return;
                }
                "`$ref` without a target removed"
            }
            _ => "`$ref` to another document removed",
        };
        schema.shift_remove("$ref");
        self.made.insert(repair);
    }

    /// Repairs members that have another form than the drafts since 2019 give them.
    fn members(&mut self, schema: &mut Map<String, Value>) {
        if schema.get("properties").is_some_and(|properties| !properties.is_object()) {
            schema.shift_remove("properties");
            self.made.insert("`properties` that is not an object removed");
        }
        if schema.get("required").is_some_and(|required| !is_list_of_names(required)) {
            schema.shift_remove("required");
            self.made.insert("`required` that is not a list of names removed");
        }
        for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")]
        {
            let Some(Value::Bool(is_exclusive)) = schema.get(exclusive).cloned() else { continue };
            schema.shift_remove(exclusive);
            if is_exclusive && let Some(limit) = schema.shift_remove(bound) {
                schema.insert(exclusive.to_owned(), limit);
            }
            self.made.insert("exclusive bounds of draft 4 changed to those of draft 6");
        }
    }

    fn items(&mut self, schema: &mut Map<String, Value>) {
        if matches!(schema.get("items"), Some(Value::Array(_))) {
            let items = schema.shift_remove("items").unwrap_or_default();
            let rest = schema.shift_remove("additionalItems");
            schema.insert("prefixItems".to_owned(), items);
            schema.insert("items".to_owned(), rest.unwrap_or_else(|| Value::Object(Map::new())));
            self.made.insert("lists of `items` changed to `prefixItems`");
        }
        let is_array = match schema.get("type") {
            Some(Value::String(kind)) => kind == "array",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
            _ => false,
        };
        if is_array && !schema.contains_key("items") {
            schema.insert("items".to_owned(), Value::Object(Map::new()));
            self.made.insert("`items` added to arrays");
        }
    }
}

fn is_list_of_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

/// Returns the value that the fragment of a reference points to; `None` if there is none.
pub(super) fn target<'d>(document: &'d Value, fragment: &str) -> Option<&'d Value> {
    let found = document.pointer(fragment);
    found.or_else(|| document.pointer(&String::from_utf8(percent_decoded(fragment)?).ok()?))
}
