//! A configuration in the making, and the lines about it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::report::{SettingOutcome, SettingReport};
use airlock_config_file::{
    error::Problem,
    json,
    key_path::{KeyPath, Segment, segments},
    refused::NamedPart,
    unsupported,
};

/// Parts whose elements are reported as a whole: the member with their names, if they are a list.
const COLLECTIONS: [(NamedPart, Option<&str>); 6] = [
    (NamedPart::Clients, Some("name")),
    (NamedPart::VirtualMcps, Some("name")),
    (NamedPart::VirtualKeys, Some("name")),
    (NamedPart::Teams, Some("name")),
    (NamedPart::Customers, Some("name")),
    (NamedPart::Providers, None),
];

/// A configuration in the making.
pub(super) struct Draft {
    pub(super) file: Value,
    pub(super) lines: Vec<SettingReport>,
    /// The same lines.
    noted: BTreeSet<SettingReport>,
}

impl Draft {
    pub(super) fn new(file: Value) -> Self {
        Self { file, lines: Vec::new(), noted: BTreeSet::new() }
    }

    pub(super) fn note(
        &mut self,
        key: KeyPath,
        outcome: SettingOutcome,
        message: impl Into<String>,
    ) {
        let line = SettingReport { key, outcome, message: message.into() };
        if self.noted.insert(line.clone()) {
            self.lines.push(line);
        }
    }

    /// Removes the members of an object without a meaning for the gateway, and notes the reasons. `owner`
    /// is the name of the object's type in [`file`](airlock_config_file::file).
    pub(super) fn drop_without_meaning(&mut self, object: &KeyPath, owner: &str) {
        let names = self.object(object).into_iter().flat_map(|members| members.keys().cloned());
        for name in names.collect::<Vec<_>>() {
            if let Some(reason) = unsupported::without_meaning(owner, &name)
                && self.take(object, &name).is_some()
            {
                let message = format!("{}{reason}", self.label(object));
                self.note(object.member(&name), SettingOutcome::NoMeaning, message);
            }
        }
    }

    /// Removes a member. Returns its value unless it is absent or `null`.
    pub(super) fn take(&mut self, owner: &KeyPath, name: &str) -> Option<Value> {
        let value = self.object(owner)?.shift_remove(name)?;
        (!value.is_null()).then_some(value)
    }

    /// Sets a member, and the objects around it, unless it has a value already. Returns whether the
    /// member has this value now.
    pub(super) fn set(&mut self, path: &[&str], value: Value) -> bool {
        let [objects @ .., name] = path else { return false };
        let mut object = &mut self.file;
        for name in objects {
            let Some(members) = object.as_object_mut() else { return false };
            object = members.entry(*name).or_insert(Value::Null);
            if object.is_null() {
                *object = Value::Object(Map::new());
            }
        }
        let Some(members) = object.as_object_mut() else { return false };
        let present = members.entry(*name).or_insert(Value::Null);
        if present.is_null() {
            *present = value;
            return true;
        }
        *present == value
    }

    /// Returns the elements of the list at `key`.
    pub(super) fn elements(&self, key: &KeyPath) -> Vec<KeyPath> {
        let list = find(&self.file, segments(key)).and_then(Value::as_array);
        (0..list.map_or(0, Vec::len)).map(|index| key.element(index)).collect()
    }

    pub(super) fn object(&mut self, key: &KeyPath) -> Option<&mut Map<String, Value>> {
        json::get_mut(&mut self.file, segments(key))?.as_object_mut()
    }

    /// Removes what a reading refused: the values with `problems`, and the `unusable` ones without
    /// them. Returns whether anything was removed.
    pub(super) fn refuse(&mut self, problems: Vec<Problem>, unusable: Vec<KeyPath>) -> bool {
        let mut keys = unusable;
        for problem in problems {
            keys.push(problem.key.clone());
            let message = format!("{}{}", self.label(&problem.key), problem.message);
            self.note(problem.key, SettingOutcome::Refused, message);
        }
        // From the end, so that the indices before an element stay.
        keys.sort_unstable();
        let mut is_changed = false;
        for key in keys.iter().rev() {
            is_changed |= self.remove(key);
        }
        is_changed
    }

    /// Returns the name of the client or virtual key that a key is in, for the beginning of a message:
    /// an index says little to people, and moves when an element is removed.
    pub(super) fn label(&self, key: &KeyPath) -> String {
        let segments = segments(key);
        let end = segments.iter().position(|segment| matches!(segment, Segment::Element(_)));
        let element = end.and_then(|end| find(&self.file, &segments[..=end]));
        let name = element.and_then(|element| element.get("name")).and_then(Value::as_str);
        name.map(|name| format!("{name:?}: ")).unwrap_or_default()
    }

    /// Removes a value. Returns whether there was one.
    pub(super) fn remove(&mut self, key: &KeyPath) -> bool {
        json::remove(&mut self.file, segments(key))
    }

    /// Notes what the result has: each client, provider and virtual key as a whole, and each other
    /// setting. What has to be corrected has its line already.
    pub(super) fn note_taken(&mut self) {
        let mut taken = Vec::new();
        collect(&self.file, &KeyPath::default(), &mut taken);
        let invalid = self.lines.iter().filter(|line| line.outcome == SettingOutcome::Invalid);
        let invalid: Vec<_> = invalid.map(|line| line.key.clone()).collect();
        for (key, message) in taken {
            if !invalid.iter().any(|other| other.below(&key).is_some()) {
                self.note(key, SettingOutcome::Taken, message);
            }
        }
    }
}

fn find<'v>(value: &'v Value, segments: &[Segment]) -> Option<&'v Value> {
    segments.iter().try_fold(value, |value, segment| match segment {
        Segment::Member(name) => value.get(name),
        Segment::Element(index) => value.get(index),
        Segment::Named(_) => None,
    })
}

fn collect(value: &Value, key: &KeyPath, taken: &mut Vec<(KeyPath, String)>) {
    let collection = COLLECTIONS.iter().find(|(part, _)| *key == part.key());
    match (collection, value) {
        (Some((_, Some(name))), Value::Array(elements)) => {
            for (index, element) in elements.iter().enumerate() {
                let label = element.get(name).and_then(Value::as_str).unwrap_or_default();
                taken.push((key.element(index), label.to_owned()));
            }
        }
        (Some((_, None)), Value::Object(members)) => {
            taken.extend(members.keys().map(|name| (key.member(name), String::new())));
        }
        (None, Value::Object(members)) => {
            for (name, value) in members {
                collect(value, &key.member(name), taken);
            }
        }
        _ => taken.push((key.clone(), String::new())),
    }
}
