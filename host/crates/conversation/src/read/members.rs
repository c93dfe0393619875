//! Reads the members of an object of a request.

use serde_json::Value;

use super::{Path, Untranslatable};
use crate::Object;

/// The members of an object. They are taken one by one; those that are left at the end are not
/// defined by the Responses API.
///
/// A member that is `null` counts as absent, as in OpenAI's API.
#[derive(Debug)]
pub struct Members<'a> {
    path: &'a Path<'a>,
    members: Object,
}

impl<'a> Members<'a> {
    /// Reads the members of an object at `path`.
    pub fn new(path: &'a Path<'a>, members: Object) -> Self {
        Self { path, members }
    }

    /// Reads the members of a value. Fails if it is not an object.
    pub fn read(path: &'a Path<'a>, value: Value) -> Result<Self, Untranslatable> {
        match value {
            Value::Object(members) => Ok(Self::new(path, members)),
            other => Err(Untranslatable::invalid_type(path, "an object", &other)),
        }
    }

    /// Returns the position of a member.
    pub fn path<'b>(&self, name: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        Path::Member(self.path, name)
    }

    /// Returns a member without taking it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Returns the name of a member that is like `name` but not equal: it differs in one or two
    /// places. Stricter than `text::nearest`, whose result is a proposal and no reason to refuse.
    pub fn like(&self, name: &str) -> Option<&str> {
        let like = self.members.keys().find(|found| {
            *found != name
                && found.len().abs_diff(name.len()) <= 2
                && strsim::osa_distance(found, name) <= 2
        });
        like.map(String::as_str)
    }

    /// Takes a member.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.members.shift_remove(name).filter(|value| !value.is_null())
    }

    /// Takes a member that must be there.
    pub fn required(&mut self, name: &str) -> Result<Value, Untranslatable> {
        self.take(name).ok_or_else(|| Untranslatable::missing(&self.path(name)))
    }

    /// Takes a text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Untranslatable> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", &other)),
        }
    }

    /// Takes a text that must be there.
    pub fn required_text(&mut self, name: &str) -> Result<String, Untranslatable> {
        self.text(name)?.ok_or_else(|| Untranslatable::missing(&self.path(name)))
    }

    /// Takes a boolean, or its default.
    pub fn flag(&mut self, name: &str, default: bool) -> Result<bool, Untranslatable> {
        match self.take(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.wrong(name, "a boolean", &other)),
        }
    }

    /// Takes an integer that is not negative.
    pub fn count(&mut self, name: &str) -> Result<Option<u64>, Untranslatable> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.as_u64() {
            Some(count) => Ok(Some(count)),
            None => Err(self.wrong(name, "an integer that is not negative", &value)),
        }
    }

    /// Takes a list.
    pub fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, Untranslatable> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(self.wrong(name, "an array", &other)),
        }
    }

    /// Takes a list, and reads each element. A list that is absent has none.
    pub fn elements<T>(
        &mut self,
        name: &str,
        read: impl Fn(Value, &Path<'_>) -> Result<T, Untranslatable>,
    ) -> Result<Vec<T>, Untranslatable> {
        let elements = self.list(name)?.unwrap_or_default();
        let path = self.path(name);
        let elements = elements.into_iter().enumerate();
        elements.map(|(index, element)| read(element, &path.element(index))).collect()
    }

    /// Refuses a member that has no counterpart. `advice` is a sentence.
    pub fn refuse(&mut self, name: &str, advice: &str) -> Result<(), Untranslatable> {
        match self.take(name) {
            None => Ok(()),
            Some(_) => Err(Untranslatable::unsupported_parameter(&self.path(name), advice)),
        }
    }

    /// Refuses every value of a member but one that changes nothing. `advice` is a sentence.
    pub fn refuse_unless(
        &mut self,
        name: &str,
        harmless: &Value,
        advice: &str,
    ) -> Result<(), Untranslatable> {
        match self.take(name) {
            Some(found) if found != *harmless => {
                Err(Untranslatable::unsupported_value(&self.path(name), &found, advice))
            }
            _ => Ok(()),
        }
    }

    /// Returns the members that were not taken.
    pub fn into_rest(self) -> Object {
        self.members
    }

    /// Fails if a member was not taken.
    pub fn finish(self) -> Result<(), Untranslatable> {
        match self.members.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => Err(Untranslatable::unsupported_parameter(
                &self.path(&super::excerpt(name)),
                "It has no counterpart in chat completions.",
            )),
        }
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> Untranslatable {
        Untranslatable::invalid_type(&self.path(name), expected, found)
    }
}
