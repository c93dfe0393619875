//! The shape of observed values: kinds and keys, never values.
//!
//! A key of an object may be data: a user's name, an identifier. Objects with many keys, with keys
//! that look like data, or with the same kind of value under each key are kept as maps without keys.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Maximum number of shapes in one shape: about 50 KB. A value with more is not read to its end.
pub(super) const MAX_NODES: usize = 256;
/// Maximum nesting of a shape. Types show 12 levels at most, and a shape is read by recursion.
const MAX_DEPTH: usize = 8;
/// Maximum number of keys of an object whose keys are kept. Objects with more are mostly indexes, whose
/// keys are data.
const MAX_KEYS: usize = 40;
/// Maximum bytes of a key that is kept. Longer ones are rather texts than names of fields.
const MAX_KEY: usize = 40;
/// Maximum number of digits in a key that is kept. `sha256` and `line_1024` are names; identifiers and
/// dates have more.
const MAX_KEY_DIGITS: usize = 4;
/// Maximum number of items of a list that are read. A list can have a million, and most lists have
/// items of one shape.
const MAX_ITEMS: usize = 16;
/// Minimum number of keys of a map. With two, objects of one shape are more often two fields, such as
/// `head` and `base`.
const MIN_MAP: usize = 3;
/// Minimum number of values of an object after which keys that are never the same are data. Two values
/// of a field can differ by chance.
const MIN_VALUES: u32 = 3;

/// Shape of one or more values. Nothing is known of a default one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ResultShape {
    /// JSON types of the plain values.
    kinds: BTreeSet<&'static str>,
    /// Shape of the items of lists.
    items: Option<Box<ResultShape>>,
    object: Option<Box<ObjectShape>>,
}

/// Shape of one or more objects.
#[derive(Debug, Clone, PartialEq)]
struct ObjectShape {
    /// Number of objects.
    values: u32,
    keys: ObjectKeys,
}

#[derive(Debug, Clone, PartialEq)]
enum ObjectKeys {
    /// The keys that objects had, with the number of objects that had them.
    Known(BTreeMap<String, (u32, ResultShape)>),
    /// Keys are data. The shape of all values.
    Data(ResultShape),
}

impl ResultShape {
    /// Returns the shape of a value.
    pub(super) fn new(value: &Value) -> Self {
        let mut left = MAX_NODES;
        Self::read(value, &mut left, MAX_DEPTH)
    }

    /// Returns the shape of a text.
    pub(super) fn text() -> Self {
        Self::plain("string")
    }

    fn plain(kind: &'static str) -> Self {
        Self { kinds: BTreeSet::from([kind]), ..Self::default() }
    }

    fn read(value: &Value, left: &mut usize, depth: usize) -> Self {
        if *left == 0 || depth == 0 {
            return Self::default();
        }
        *left -= 1;
        match value {
            Value::Null => Self::plain("null"),
            Value::Bool(_) => Self::plain("boolean"),
            Value::Number(number) if number.is_f64() => Self::plain("number"),
            Value::Number(_) => Self::plain("integer"),
            Value::String(_) => Self::text(),
            Value::Array(items) => {
                let mut shape = Self::default();
                for item in items.iter().take(MAX_ITEMS) {
                    shape.merge(Self::read(item, left, depth - 1));
                }
                Self { items: Some(Box::new(shape)), ..Self::default() }
            }
            Value::Object(members) => {
                let object = ObjectShape::read(members, left, depth);
                Self { object: Some(Box::new(object)), ..Self::default() }
            }
        }
    }

    /// Adds the shape of further values.
    pub(super) fn merge(&mut self, other: Self) {
        self.kinds.extend(other.kinds);
        match (&mut self.items, other.items) {
            (Some(items), Some(others)) => items.merge(*others),
            (items @ None, others) => *items = others,
            (Some(_), None) => {}
        }
        match (&mut self.object, other.object) {
            (Some(object), Some(others)) => object.merge(*others),
            (object @ None, others) => *object = others,
            (Some(_), None) => {}
        }
    }

    /// Returns whether values of another shape fit the type that this one is shown as. A new key
    /// does: a script that does not know it reads what it read before.
    pub(super) fn accepts(&self, other: &Self) -> bool {
        if *self == Self::default() {
            return true;
        }
        let mut kinds = other.kinds.iter();
        let accepts_kinds = kinds.all(|kind| {
            self.kinds.contains(kind) || *kind == "integer" && self.kinds.contains("number")
        });
        let accepts_items = match (&self.items, &other.items) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(items), Some(others)) => items.accepts(others),
        };
        let accepts_object = match (&self.object, &other.object) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(object), Some(others)) => object.accepts(others),
        };
        accepts_kinds && accepts_items && accepts_object
    }

    /// Returns the number of shapes in it, itself included.
    pub(super) fn nodes(&self) -> usize {
        let object = self.object.as_ref().map_or(0, |object| match &object.keys {
            ObjectKeys::Known(fields) => fields.values().map(|(_, shape)| shape.nodes()).sum(),
            ObjectKeys::Data(shape) => shape.nodes(),
        });
        1 + self.items.as_ref().map_or(0, |items| items.nodes()) + object
    }

    /// Returns the JSON Schema of the values, as far as they were observed.
    pub(super) fn schema(&self) -> Value {
        let mut alternatives = Vec::new();
        for kind in &self.kinds {
            // A whole number is a number too.
            if *kind != "integer" || !self.kinds.contains("number") {
                alternatives.push(json!({"type": kind}));
            }
        }
        if let Some(items) = &self.items {
            alternatives.push(json!({"type": "array", "items": items.schema()}));
        }
        alternatives.extend(self.object.as_ref().map(|object| object.schema()));
        match alternatives.len() {
            0 => json!({}),
            1 => alternatives.remove(0),
            _ => json!({"anyOf": alternatives}),
        }
    }
}

impl ObjectShape {
    fn read(members: &Map<String, Value>, left: &mut usize, depth: usize) -> Self {
        let are_names = members.len() <= MAX_KEYS && members.keys().all(|key| is_name(key));
        let keys = if are_names {
            let fields = members
                .iter()
                .map(|(key, value)| (key.clone(), (1, ResultShape::read(value, left, depth - 1))));
            ObjectKeys::Known(fields.collect())
        } else {
            let mut shape = ResultShape::default();
            for value in members.values().take(MAX_ITEMS) {
                shape.merge(ResultShape::read(value, left, depth - 1));
            }
            ObjectKeys::Data(shape)
        };
        let mut object = Self { values: 1, keys };
        object.check_keys();
        object
    }

    fn merge(&mut self, other: Self) {
        self.values = self.values.saturating_add(other.values);
        match (&mut self.keys, other.keys) {
            (ObjectKeys::Known(fields), ObjectKeys::Known(others)) => {
                for (key, (count, shape)) in others {
                    let field = fields.entry(key).or_default();
                    field.0 = field.0.saturating_add(count);
                    field.1.merge(shape);
                }
            }
            (ObjectKeys::Known(_), ObjectKeys::Data(shape)) => {
                self.forget_keys();
                if let ObjectKeys::Data(all) = &mut self.keys {
                    all.merge(shape);
                }
            }
            (ObjectKeys::Data(all), others) => all.merge(others.values()),
        }
        self.check_keys();
    }

    fn accepts(&self, other: &Self) -> bool {
        match (&self.keys, &other.keys) {
            (ObjectKeys::Known(fields), ObjectKeys::Known(others)) => {
                fields.iter().all(|(key, (count, shape))| match others.get(key) {
                    Some((_, other)) => shape.accepts(other),
                    None => *count < self.values,
                })
            }
            (ObjectKeys::Data(all), others) => all.accepts(&others.clone().values()),
            // The keys are not compared: some of them may be data.
            (ObjectKeys::Known(_), ObjectKeys::Data(_)) => true,
        }
    }

    /// Turns the object into a map if its keys are data.
    fn check_keys(&mut self) {
        let ObjectKeys::Known(fields) = &self.keys else { return };
        let never_same = self.values >= MIN_VALUES
            && fields.len() >= MIN_MAP
            && fields.values().all(|(count, _)| *count < self.values);
        if fields.len() > MAX_KEYS || never_same || are_alike(fields) {
            self.forget_keys();
        }
    }

    fn forget_keys(&mut self) {
        let keys = std::mem::replace(&mut self.keys, ObjectKeys::Data(ResultShape::default()));
        self.keys = ObjectKeys::Data(keys.values());
    }

    fn schema(&self) -> Value {
        match &self.keys {
            ObjectKeys::Data(shape) => {
                json!({"type": "object", "additionalProperties": shape.schema()})
            }
            ObjectKeys::Known(fields) => {
                let required: Vec<_> = fields
                    .iter()
                    .filter(|(_, (count, _))| *count == self.values)
                    .map(|(key, _)| key)
                    .collect();
                let properties: Map<_, _> =
                    fields.iter().map(|(key, (_, shape))| (key.clone(), shape.schema())).collect();
                json!({"type": "object", "properties": properties, "required": required})
            }
        }
    }
}

impl ObjectKeys {
    /// Returns the shape of all values.
    fn values(self) -> ResultShape {
        match self {
            Self::Data(shape) => shape,
            Self::Known(fields) => {
                fields.into_values().fold(ResultShape::default(), |mut all, (_, shape)| {
                    all.merge(shape);
                    all
                })
            }
        }
    }
}

/// Returns whether a key looks like the name of a field, and not like data.
fn is_name(key: &str) -> bool {
    let mut bytes = key.bytes();
    bytes.next().is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'@'))
        && bytes.all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-'))
        && key.len() <= MAX_KEY
        && key.bytes().filter(u8::is_ascii_digit).count() <= MAX_KEY_DIGITS
}

/// Returns whether all values are objects with the same two or more keys: the rows of a table under
/// their identifiers.
fn are_alike(fields: &BTreeMap<String, (u32, ResultShape)>) -> bool {
    let mut shapes = fields.values().map(|(_, shape)| shape);
    let Some(first) = shapes.next().and_then(known_keys).filter(|keys| keys.len() >= 2) else {
        return false;
    };
    fields.len() >= MIN_MAP && shapes.all(|shape| known_keys(shape).as_ref() == Some(&first))
}

/// Returns the keys of a shape, if it is of objects with known keys.
fn known_keys(shape: &ResultShape) -> Option<Vec<String>> {
    match shape.object.as_ref().map(|object| &object.keys) {
        Some(ObjectKeys::Known(fields)) => Some(fields.keys().cloned().collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schema(values: &[Value]) -> String {
        let shape = values.iter().fold(ResultShape::default(), |mut all, value| {
            all.merge(ResultShape::new(value));
            all
        });
        shape.schema().to_string()
    }

    #[test]
    fn a_shape_has_kinds_and_keys_and_no_values() {
        let first = json!({"id": 7, "name": "ann", "tags": ["a", "b"], "owner": {"login": "bob"}});
        let second = json!({"id": 7.5, "tags": [], "owner": null});
        insta::assert_snapshot!(schema(&[first, second]), @r#"{"type":"object","properties":{"id":{"type":"number"},"name":{"type":"string"},"owner":{"anyOf":[{"type":"null"},{"type":"object","properties":{"login":{"type":"string"}},"required":["login"]}]},"tags":{"type":"array","items":{"type":"string"}}},"required":["id","owner","tags"]}"#);
        assert_eq!(schema(&[json!([])]), r#"{"type":"array","items":{}}"#);
        assert_eq!(
            schema(&[json!("a"), json!(1)]),
            r#"{"anyOf":[{"type":"integer"},{"type":"string"}]}"#
        );
    }

    #[test]
    fn a_value_fits_a_shape_if_nothing_that_was_always_there_is_missing_or_of_another_kind() {
        let seen = [
            json!({"id": 7, "name": "ann", "tags": ["a"], "note": null}),
            json!({"id": 8, "tags": [], "note": "x", "size": 1.5}),
        ];
        let shape = seen.iter().fold(ResultShape::default(), |mut all, value| {
            all.merge(ResultShape::new(value));
            all
        });
        for (value, fits) in [
            (json!({"id": 9, "tags": [], "note": null}), true),
            (json!({"id": 9, "tags": ["b"], "note": "y", "new": [1]}), true),
            (json!({"id": 9, "tags": [], "note": null, "size": 2}), true),
            (json!({"id": 9.5, "tags": [], "note": null}), false),
            (json!({"id": null, "tags": [], "note": null}), false),
            (json!({"tags": [], "note": null}), false),
            (json!({"id": 9, "tags": [1], "note": null}), false),
            (json!({"id": 9, "tags": "b", "note": null}), false),
            (json!({"id": 9, "tags": [], "note": {}}), false),
            (json!([]), false),
            (json!("text"), false),
        ] {
            assert_eq!(shape.accepts(&ResultShape::new(&value)), fits, "{value}");
        }
        assert!(
            ResultShape::new(&json!([])).accepts(&ResultShape::new(&json!([1]))),
            "nothing is known of items"
        );
        let map = ResultShape::new(&json!({"ann@x.org": 1}));
        assert!(map.accepts(&ResultShape::new(&json!({"bob@x.org": 2, "name": 3}))));
        assert!(!map.accepts(&ResultShape::new(&json!({"bob@x.org": "2"}))));
    }

    #[test]
    fn keys_that_look_like_data_are_not_kept() {
        assert!(schema(&[many(MAX_KEYS)]).contains("properties"));
        for value in [
            many(MAX_KEYS + 1),
            json!({"ann@example.com": 1}),
            json!({"user_12345": 1}),
            json!({"with blank": 1}),
            json!({"ä": 1}),
            json!({"": 1}),
            json!({"7": 1}),
            json!({"x".repeat(MAX_KEY + 1): 1}),
            json!({"\"\"\"\nignore": 1}),
        ] {
            let schema = schema(std::slice::from_ref(&value));
            assert_eq!(
                schema, r#"{"type":"object","additionalProperties":{"type":"integer"}}"#,
                "{value}"
            );
        }
        assert!(
            schema(&[json!({"x".repeat(MAX_KEY): 1, "sha256": 2, "$ref": 3, "line-no": 4})])
                .contains("properties")
        );
    }

    /// Returns an object with so many keys of two letters.
    fn many(keys: usize) -> Value {
        let keys = (0..keys).map(|n| format!("{}{}", letter(n), letter(n / 26)));
        Value::Object(keys.map(|key| (key, json!(1))).collect())
    }

    fn letter(n: usize) -> char {
        char::from(b'a' + u8::try_from(n % 26).expect("a letter"))
    }

    #[test]
    fn objects_of_one_shape_under_each_key_are_a_map() {
        assert!(schema(&[json!({"head": row(1), "base": row(2)})]).contains("head"));
        insta::assert_snapshot!(schema(&[json!({"ann": row(1), "bob": row(2), "eve": row(3)})]), @r#"{"type":"object","additionalProperties":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"}},"required":["id","name"]}}"#);
    }

    fn row(n: u32) -> Value {
        json!({"id": n, "name": "x"})
    }

    #[test]
    fn keys_that_no_two_values_share_are_data() {
        let values = ["ann", "bob", "eve"].map(|name| json!({name: 1}));
        assert!(schema(&values[..2]).contains("ann"));
        assert_eq!(
            schema(&values),
            r#"{"type":"object","additionalProperties":{"type":"integer"}}"#
        );
        // A field that all values have shows that keys are names.
        let values = ["ann", "bob", "eve"].map(|name| json!({"kind": 1, name: 1}));
        assert!(schema(&values).contains("eve"));
    }

    #[test]
    fn a_value_is_read_up_to_a_number_of_shapes_and_a_depth() {
        let wide =
            json!([(0..100).map(|_| json!([(0..100).collect::<Vec<_>>()])).collect::<Vec<_>>()]);
        assert!(ResultShape::new(&wide).nodes() <= MAX_NODES);
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(ResultShape::new(&deep).nodes(), MAX_DEPTH + 1);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|flag| json!(flag)),
            any::<i32>().prop_map(|number| json!(number)),
            "[a-z]{3}".prop_map(|word| json!(format!("secret {word}"))),
        ];
        leaf.prop_recursive(5, 300, 50, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..30).prop_map(|items| json!(items)),
                prop::collection::btree_map("[a-e]{1,2}|\\PC{0,50}", inner, 0..50)
                    .prop_map(|members| json!(members)),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_value_is_in_a_shape(values in prop::collection::vec(values(), 1..6)) {
            let schema = schema(&values);
            prop_assert!(!schema.contains("secret "), "{}", schema);
        }

        #[test]
        fn the_order_of_values_does_not_change_known_keys(mut values in prop::collection::vec(values(), 2..3)) {
            let one = schema(&values);
            values.reverse();
            prop_assert_eq!(one, schema(&values));
        }
    }
}
