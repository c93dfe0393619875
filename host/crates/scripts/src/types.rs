//! Renders JSON Schemas as Python types, for models to read.
//!
//! Schemas are untrusted and of any depth and width. References may form cycles or lead to one
//! large object repeatedly. Every type is bounded in the schemas that it reads and in its length,
//! and all types of one tool share a [`RenderBudget`] for everything that is read. Beyond a bound,
//! a type is rendered as `Any` or `dict`.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::{
    budget::RenderBudget,
    classes::{ClassFields, ClassName, Classes},
    literal::{self, MAX_TEXT},
};

/// Maximum number of schemas that the types of one [`TypeWriter`] read: a thirty-second of a tool's
/// [`RenderBudget`], so that one parameter leaves enough for the others.
const MAX_SCHEMAS: u32 = 512;
/// Maximum nesting of schemas. References can lead on for as many as [`MAX_SCHEMAS`], each a few frames
/// of the stack.
const MAX_DEPTH: usize = 12;
/// Maximum number of alternatives of a union that is shown. Each can be a class of its own, of which a
/// side has 16.
const MAX_ALTERNATIVES: usize = 12;
/// Maximum number of items of a tuple that is shown; longer ones are lists. Eight types of 80 bytes already take as
/// many bytes as a type may have before it is `Any`.
const MAX_ITEMS: usize = 8;
/// Maximum number of fields of an object that is read. References can lead to one object once for
/// each schema, so larger ones are not read at all.
const MAX_FIELDS: usize = 256;
/// Maximum number of references followed in a row. They can form a cycle, and with [`MAX_REFERENCE`], 4 KB are read
/// before it is left.
const MAX_REFERENCES: usize = 8;
/// Maximum bytes of a reference. Each resolution reads all of it, and looks up its segments one by one.
const MAX_REFERENCE: usize = 512;
/// Segments of a reference that are looked up for one unit of the budget.
const SEGMENTS_OF_UNIT: usize = 2;
/// Maximum number of members of an `allOf`, those of nested ones included. So it bounds the nesting
/// too.
const MAX_PARTS: usize = 8;

/// Types of one schema document. References are resolved in `root`.
#[derive(Clone, Copy)]
pub(super) struct Types<'a> {
    root: &'a Value,
    budget: &'a RenderBudget,
}

/// A property of an object.
pub(super) struct SchemaField<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
    pub(super) is_required: bool,
}

impl<'a> Types<'a> {
    /// Creates the types of `root`. Everything read from it is paid from `budget`.
    pub(super) fn new(root: &'a Value, budget: &'a RenderBudget) -> Self {
        Self { root, budget }
    }

    /// Returns the properties of an object, those of its `allOf` included: required ones first, each
    /// group sorted by name. `None` if the budget does not cover them.
    pub(super) fn fields(self, schema: &'a Value) -> Option<Vec<SchemaField<'a>>> {
        let parts = self.parts(schema);
        let units = parts.iter().map(|part| {
            properties(part).map_or(0, Map::len) + required_names(part).map_or(0, Vec::len)
        });
        if !self.budget.pay(units.sum()) || !self.budget.pay_read(name_bytes(&parts)) {
            return None;
        }
        let required = parts.iter().filter_map(|part| required_names(part)).flatten();
        let required: HashSet<&str> = required.filter_map(Value::as_str).collect();
        let mut seen = HashSet::new();
        let mut fields: Vec<_> = parts
            .iter()
            .filter_map(|part| properties(part))
            .flatten()
            .filter(|(name, _)| seen.insert(name.as_str()))
            .map(|(name, schema)| SchemaField {
                name,
                schema,
                is_required: required.contains(name.as_str()),
            })
            .collect();
        fields.sort_by_key(|field| (!field.is_required, field.name));
        Some(fields)
    }

    /// Returns the fields of a value of this type; or of its items if it is an array, of its values
    /// if it is a map, and of the only alternative besides `null`. `None` if the budget does not
    /// cover them.
    pub(super) fn inner_fields(self, schema: &'a Value) -> Option<Vec<SchemaField<'a>>> {
        let mut schema = self.resolve(schema);
        for _ in 0..2 {
            if has_fields(schema) || schema.get("allOf").is_some() {
                break;
            }
            let inner = only_alternative(schema)
                .or_else(|| schema.get("items"))
                .or_else(|| schema.get("additionalProperties"));
            match inner.filter(|inner| inner.is_object()) {
                Some(inner) => schema = self.resolve(inner),
                None => break,
            }
        }
        self.fields(schema)
    }

    /// Pays for reading so many bytes of texts or values of lists. Returns false if the budget does not
    /// cover them.
    pub(super) fn pay_read(self, read: usize) -> bool {
        self.budget.pay_read(read)
    }

    /// Follows the references of a schema, as far as they lead into the same document and the budget
    /// covers them.
    pub(super) fn resolve(self, schema: &'a Value) -> &'a Value {
        self.resolve_named(schema).0
    }

    /// Does the same, and returns the last segment of the last reference, which often is the name of
    /// a type.
    fn resolve_named(self, mut schema: &'a Value) -> (&'a Value, Option<&'a str>) {
        let mut name = None;
        for _ in 0..MAX_REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let reference = reference.filter(|reference| reference.len() <= MAX_REFERENCE);
            let Some(pointer) = reference.and_then(|reference| reference.strip_prefix('#')) else {
                break;
            };
            let segments = pointer.matches('/').count().div_ceil(SEGMENTS_OF_UNIT);
            if !self.budget.pay(segments) || !self.budget.pay_read(pointer.len()) {
                break;
            }
            let Some(target) = self.root.pointer(pointer) else { break };
            name = pointer.rsplit('/').next().filter(|segment| !segment.is_empty()).or(name);
            schema = target;
        }
        (schema, name)
    }

    /// Renders a schema as a type in which objects are `dict`.
    pub(super) fn outline(self, schema: &'a Value) -> String {
        TypeWriter::new(self, None).text(schema, "")
    }

    /// Returns an object and the members of its `allOf`, at most [`MAX_PARTS`], the nearest first: own
    /// properties come before those of ancestors.
    fn parts(self, schema: &'a Value) -> Vec<&'a Map<String, Value>> {
        let mut parts: Vec<&Map<_, _>> = Vec::new();
        let mut next = VecDeque::from([schema]);
        while let Some(schema) = next.pop_front().filter(|_| parts.len() < MAX_PARTS) {
            let Some(schema) = self.resolve(schema).as_object() else { continue };
            if parts.iter().any(|part| std::ptr::eq(*part, schema)) {
                continue;
            }
            parts.push(schema);
            let members = schema.get("allOf").and_then(Value::as_array);
            next.extend(members.into_iter().flatten().take(MAX_PARTS));
        }
        parts
    }
}

/// Renders types. Objects with known fields become classes, if it has a place for them.
pub(super) struct TypeWriter<'a, 'c> {
    types: Types<'a>,
    classes: Option<&'c mut Classes>,
    /// Names of the objects that are classes, by the address of their schema. A recursive type ends
    /// here.
    named: HashMap<usize, ClassName>,
    /// Addresses of the schemas that are being rendered.
    open: Vec<usize>,
    left: u32,
}

impl<'a, 'c> TypeWriter<'a, 'c> {
    /// Creates a writer that puts classes into `classes`; without it objects are `dict`.
    pub(super) fn new(types: Types<'a>, classes: Option<&'c mut Classes>) -> Self {
        Self { types, classes, named: HashMap::new(), open: Vec::new(), left: MAX_SCHEMAS }
    }

    /// Renders a schema as a type. A class for it is named after `hint`, unless a reference names it.
    pub(super) fn text(&mut self, schema: &'a Value, hint: &str) -> String {
        if self.left == 0 || self.open.len() == MAX_DEPTH || !self.types.budget.pay(1) {
            return anything();
        }
        self.left -= 1;
        let (schema, name) = self.types.resolve_named(schema);
        let address = address(schema);
        if self.open.contains(&address) && !self.named.contains_key(&address) {
            return anything();
        }
        self.open.push(address);
        let text = self.resolved(schema, name.unwrap_or(hint));
        self.open.pop();
        text
    }

    /// Renders the fields of an object as a class, whatever their number. `None` if there is no room.
    pub(super) fn class(
        &mut self,
        schema: &'a Value,
        fields: &[SchemaField<'a>],
        hint: &str,
    ) -> Option<String> {
        let name = self.classes.as_mut()?.reserve(hint)?;
        self.named.insert(address(schema), name.clone());
        let mut lines = ClassFields::default();
        for field in fields {
            if !lines.has_room(field.name) {
                break;
            }
            let kind = self.text(field.schema, field.name);
            if !lines.add(field.name, &kind, field.is_required) {
                break;
            }
        }
        self.classes.as_mut()?.define(&name, lines, fields.len());
        Some(name.to_string())
    }

    fn resolved(&mut self, value: &'a Value, hint: &str) -> String {
        let Some(schema) = value.as_object() else { return anything() };
        if let Some(options) =
            schema.get("enum").and_then(Value::as_array).filter(|options| !options.is_empty())
        {
            // Many options take longer to read than one schema.
            let is_paid = self.types.budget.pay(options.len() / 8);
            return if is_paid { self.literal(options) } else { anything() };
        }
        if let Some(only) = schema.get("const") {
            return self.literal(std::slice::from_ref(only));
        }
        let mut alternatives = self.alternatives(value, schema, hint);
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            alternatives.push("None".to_owned());
        }
        union(alternatives)
    }

    /// Renders permitted values.
    fn literal(&self, options: &[Value]) -> String {
        let is_paid = self.types.pay_read(literal::read_bytes(options));
        if is_paid { union(literal::alternatives(options)) } else { anything() }
    }

    fn alternatives(
        &mut self,
        value: &'a Value,
        schema: &'a Map<String, Value>,
        hint: &str,
    ) -> Vec<String> {
        match schema.get("type") {
            Some(Value::String(kind)) => vec![self.kind(kind, value, schema, hint)],
            Some(Value::Array(kinds)) if kinds.len() <= MAX_ALTERNATIVES => kinds
                .iter()
                .map(|kind| self.kind(kind.as_str().unwrap_or_default(), value, schema, hint))
                .collect(),
            _ => match alternatives(value) {
                Some(schemas) if schemas.len() <= MAX_ALTERNATIVES => {
                    schemas.iter().map(|schema| self.text(schema, hint)).collect()
                }
                Some(_) => vec![anything()],
                None => vec![self.untyped(value, schema, hint)],
            },
        }
    }

    /// Renders a schema without `type` by its other keywords.
    fn untyped(&mut self, value: &'a Value, schema: &'a Map<String, Value>, hint: &str) -> String {
        if has_fields(value) || schema.contains_key("patternProperties") {
            return self.object(value, schema, hint);
        }
        if schema.contains_key("items") || schema.contains_key("prefixItems") {
            return self.array(schema, hint);
        }
        match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => self.text(only, hint),
            Some(parts)
                if parts
                    .iter()
                    .take(MAX_PARTS)
                    .any(|part| has_fields(self.types.resolve(part))) =>
            {
                self.object(value, schema, hint)
            }
            _ => anything(),
        }
    }

    fn kind(
        &mut self,
        kind: &str,
        value: &'a Value,
        schema: &'a Map<String, Value>,
        hint: &str,
    ) -> String {
        let name = match kind {
            "string" => "str",
            "number" => "float",
            "integer" => "int",
            "boolean" => "bool",
            "null" => "None",
            "array" => return self.array(schema, hint),
            "object" => return self.object(value, schema, hint),
            _ => "Any",
        };
        name.to_owned()
    }

    /// Renders `list[T]`, or `tuple[A, B]` if each item has a type of its own.
    fn array(&mut self, schema: &'a Map<String, Value>, hint: &str) -> String {
        let items = schema.get("items");
        let prefix = schema.get("prefixItems").or(items).and_then(Value::as_array);
        match prefix {
            Some(prefix) if prefix.is_empty() || prefix.len() > MAX_ITEMS => "list[Any]".to_owned(),
            Some(prefix) => {
                let mut kinds: Vec<_> = prefix.iter().map(|item| self.text(item, hint)).collect();
                let more = items.filter(|items| items.is_object());
                match more {
                    None => format!("tuple[{}]", kinds.join(", ")),
                    Some(more) => {
                        kinds.push(self.text(more, hint));
                        format!("list[{}]", union(kinds))
                    }
                }
            }
            None => match items {
                Some(items) => format!("list[{}]", self.text(items, hint)),
                None => "list[Any]".to_owned(),
            },
        }
    }

    /// Renders the name of a class, `dict[str, T]`, or `dict`.
    fn object(&mut self, value: &'a Value, schema: &'a Map<String, Value>, hint: &str) -> String {
        if let Some(name) = self.named.get(&address(value)) {
            return name.to_string();
        }
        let has_known = has_fields(value) || schema.contains_key("allOf");
        if let (false, Some(schemas)) = (has_known, alternatives(value))
            && schemas.len() <= MAX_ALTERNATIVES
        {
            return union(schemas.iter().map(|schema| self.text(schema, hint)).collect());
        }
        if self.classes.is_none() || !has_known {
            return self.map(schema, hint).unwrap_or_else(dict);
        }
        if properties(schema).map_or(0, Map::len) > MAX_FIELDS
            || self.classes.as_ref().is_none_or(|classes| classes.is_full())
        {
            return dict();
        }
        match self.types.fields(value) {
            Some(fields) if (1..=MAX_FIELDS).contains(&fields.len()) => {
                self.class(value, &fields, hint).unwrap_or_else(dict)
            }
            _ => dict(),
        }
    }

    /// Renders `dict[str, T]`. `None` if the schema does not tell the type of the values.
    fn map(&mut self, schema: &'a Map<String, Value>, hint: &str) -> Option<String> {
        if properties(schema).is_some_and(|fields| !fields.is_empty()) {
            return None;
        }
        let mut kinds = Vec::new();
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        for values in patterns.into_iter().flat_map(Map::values).take(MAX_ALTERNATIVES) {
            kinds.push(self.text(values, hint));
        }
        if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
            kinds.push(self.text(values, hint));
        }
        let values = union(kinds);
        (values != "Any").then(|| format!("dict[str, {values}]"))
    }
}

fn properties(schema: &Map<String, Value>) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn has_fields(schema: &Value) -> bool {
    schema.as_object().and_then(properties).is_some_and(|fields| !fields.is_empty())
}

/// Identifies a schema of a document that outlives the writer.
fn address(schema: &Value) -> usize {
    std::ptr::from_ref(schema).addr()
}

/// Returns the alternatives of a union.
pub(super) fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array)
}

/// Returns the alternative of a union that is not `null`, if there is only one.
fn only_alternative(schema: &Value) -> Option<&Value> {
    let alternatives = alternatives(schema)?.iter().take(MAX_ALTERNATIVES);
    let mut rest =
        alternatives.filter(|schema| schema.get("type").and_then(Value::as_str) != Some("null"));
    let only = rest.next()?;
    rest.next().is_none().then_some(only)
}

/// Renders a union of distinct alternatives, with `None` last.
fn union(alternatives: Vec<String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for alternative in alternatives {
        if !distinct.contains(&alternative) {
            distinct.push(alternative);
        }
    }
    distinct.sort_by_key(|alternative| alternative == "None");
    let text = distinct.join(" | ");
    let is_any = distinct.iter().any(|alternative| alternative == "Any");
    if distinct.is_empty() || is_any || text.len() > 2 * MAX_TEXT { anything() } else { text }
}

/// Returns the bytes of the names of all properties, and of those in `required`. The parts of an object may be read once for
/// each reference to it.
fn name_bytes(parts: &[&Map<String, Value>]) -> usize {
    let names = parts.iter().filter_map(|part| properties(part)).flat_map(Map::keys);
    let required = parts.iter().filter_map(|part| required_names(part)).flatten();
    let required = required.filter_map(Value::as_str).map(str::len);
    names.map(String::len).chain(required).sum()
}

/// Returns the names in `required` of one part of a schema.
fn required_names(part: &Map<String, Value>) -> Option<&Vec<Value>> {
    part.get("required").and_then(Value::as_array)
}

fn dict() -> String {
    "dict".to_owned()
}

fn anything() -> String {
    "Any".to_owned()
}

#[cfg(test)]
pub(super) mod tests;
