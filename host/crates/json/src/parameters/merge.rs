//! Merges the schemas that a root combines into one list of properties.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::walk::target;

/// Values that are copied at most. A schema of 256 KiB has at most 130,000, so each can be copied
/// once; references can lead to one schema many times.
const MAX_COPIED: usize = 200_000;
/// Schemas that are merged at most. A union of 200 forms passes; schemas with few properties but
/// many references do not use up [`MAX_COPIED`].
const MAX_MERGED: usize = 256;
/// The deepest schema that is merged, counted in combinations and references. Each level groups the
/// properties below it again. Generators write two or three levels: a reference to a union of
/// references.
const MAX_DEPTH: usize = 8;

/// The properties of an object, and the names of those that it needs.
#[derive(Default)]
pub(super) struct MergedFields {
    /// Schemas by name; a value is valid against all of them.
    properties: Vec<(String, Vec<Value>)>,
    required: Vec<String>,
}

/// A merge in progress.
pub(super) struct Merge<'d> {
    document: &'d Value,
    /// Values that may still be copied.
    copies_left: usize,
    schemas_left: usize,
    is_cut: bool,
    alternatives: Vec<Vec<String>>,
}

impl<'d> Merge<'d> {
    pub(super) fn new(document: &'d Value) -> Self {
        Self {
            document,
            copies_left: MAX_COPIED,
            schemas_left: MAX_MERGED,
            is_cut: false,
            alternatives: Vec::new(),
        }
    }

    /// Returns whether schemas were left out, because there are too many or they are too deep.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the names that each alternative of the root needs.
    pub(super) fn alternatives(&mut self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.alternatives)
    }

    /// Returns the fields of the document with those of the schemas that it combines. A field of
    /// several alternatives may have the value of any of them, and is needed if each needs it.
    pub(super) fn root(&mut self) -> MergedFields {
        self.document.as_object().map_or_else(MergedFields::default, |root| self.fields(root, 0))
    }

    fn fields(&mut self, schema: &'d Map<String, Value>, depth: usize) -> MergedFields {
        let is_small = depth <= MAX_DEPTH
            && self.schemas_left > 0
            && ["properties", "required"]
                .iter()
                .filter_map(|name| schema.get(*name))
                .all(|copied| fits(copied, &mut self.copies_left));
        if !is_small {
            self.is_cut = true;
            return MergedFields::default();
        }
        self.schemas_left -= 1;
        let mut fields = MergedFields::own(schema);
        if let Some(target) = self.referenced(schema) {
            fields = fields.and(self.fields(target, depth + 1));
        }
        for branch in objects(schema, "allOf") {
            fields = fields.and(self.fields(branch, depth + 1));
        }
        for name in ["anyOf", "oneOf"] {
            let branches: Vec<_> =
                objects(schema, name).map(|branch| self.fields(branch, depth + 1)).collect();
            if depth == 0 && self.alternatives.is_empty() {
                self.alternatives = branches.iter().map(|branch| branch.required.clone()).collect();
            }
            if !branches.is_empty() {
                fields = fields.and(MergedFields::any(branches));
            }
        }
        fields
    }

    fn referenced(&self, schema: &Map<String, Value>) -> Option<&'d Map<String, Value>> {
        let fragment = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        target(self.document, fragment)?.as_object()
    }
}

impl MergedFields {
    /// Returns the members `properties` and `required`.
    pub(super) fn into_members(self) -> (Map<String, Value>, Vec<String>) {
        let properties = self.properties.into_iter();
        (
            properties.map(|(name, schemas)| (name, joined("allOf", schemas))).collect(),
            self.required,
        )
    }

    /// Returns the fields of a schema itself.
    fn own(schema: &Map<String, Value>) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut seen = BTreeSet::new();
        let required = required.filter_map(Value::as_str).filter(|name| seen.insert(*name));
        Self {
            properties: properties
                .map(|(name, schema)| (name.clone(), vec![schema.clone()]))
                .collect(),
            required: required.map(str::to_owned).collect(),
        }
    }

    /// Returns the fields of an object that both describe.
    fn and(self, other: Self) -> Self {
        let names: BTreeSet<_> = self.required.iter().cloned().collect();
        let mut required = self.required;
        required.extend(other.required.into_iter().filter(|name| !names.contains(name)));
        let properties = grouped(self.properties.into_iter().chain(other.properties));
        Self { properties, required }
    }

    /// Returns the fields of an object that one of several describes.
    fn any(branches: Vec<Self>) -> Self {
        let mut required: Option<Vec<String>> = None;
        let mut properties = Vec::new();
        for branch in branches {
            let names: BTreeSet<_> = branch.required.iter().cloned().collect();
            match &mut required {
                None => required = Some(branch.required),
                Some(required) => required.retain(|name| names.contains(name)),
            }
            let own = branch.properties.into_iter();
            properties.extend(own.map(|(name, schemas)| (name, vec![joined("allOf", schemas)])));
        }
        Self {
            properties: grouped(properties)
                .into_iter()
                .map(|(name, schemas)| (name, vec![joined("anyOf", schemas)]))
                .collect(),
            required: required.unwrap_or_default(),
        }
    }
}

/// Collects the schemas of each name, without repeated ones, in the order of the names.
fn grouped(
    properties: impl IntoIterator<Item = (String, Vec<Value>)>,
) -> Vec<(String, Vec<Value>)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<Value>)> = Vec::new();
    for (name, schemas) in properties {
        if let Some((_, group)) = places.get(&name).and_then(|place| groups.get_mut(*place)) {
            for schema in schemas {
                if !group.contains(&schema) {
                    group.push(schema);
                }
            }
        } else {
            places.insert(name.clone(), groups.len());
            groups.push((name, schemas));
        }
    }
    groups
}

/// Returns one schema for several.
fn joined(how: &str, mut schemas: Vec<Value>) -> Value {
    if schemas.len() == 1 { schemas.pop().unwrap_or_default() } else { json!({how: schemas}) }
}

/// Takes the number of values in `value` from `left`; a long text counts as several. Returns whether
/// there were enough.
fn fits(value: &Value, left: &mut usize) -> bool {
    let text = value.as_str().map_or(0, str::len);
    let Some(rest) = left.checked_sub(1 + text / 32) else { return false };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, left)),
        Value::Object(members) => members.values().all(|member| fits(member, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn objects<'s>(
    schema: &'s Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'s Map<String, Value>> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}
