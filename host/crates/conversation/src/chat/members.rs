//! Names of members that several files read and write, and the members that no field has.

use serde_json::{Number, Value};

use crate::{
    Object,
    read::{Members, Result, Untranslatable},
};

/// Member that marks the end of a cached prefix.
pub(super) const CACHE_CONTROL: &str = "cache_control";
/// Member of a choice with the log probabilities of its text.
pub(super) const LOGPROBS: &str = "logprobs";
/// Member of a message with the model's calls.
pub(super) const TOOL_CALLS: &str = "tool_calls";

/// Takes a text; `None` if the member is absent or has another type, with which it stays.
pub(super) fn take_string(object: &mut Object, name: &str) -> Option<String> {
    match object.get_mut(name)?.take() {
        Value::String(text) => {
            object.shift_remove(name);
            Some(text)
        }
        other => {
            object.insert(name.to_owned(), other);
            None
        }
    }
}

/// Takes a list; an empty one if the member is absent or has another type, with which it stays.
pub(super) fn take_list(object: &mut Object, name: &str) -> Vec<Value> {
    let Some(Value::Array(list)) = object.get_mut(name) else { return Vec::new() };
    let list = std::mem::take(list);
    object.shift_remove(name);
    list
}

/// Returns the members that were not taken, without those that are null.
pub(crate) fn rest(members: Members<'_>) -> Object {
    let mut rest = members.into_rest();
    rest.retain(|_, value| !value.is_null());
    rest
}

/// Keeps the unknown members of an inner object, such as `function`, under its name.
pub(super) fn keep_inner(extra: &mut Object, name: &str, inner: Members<'_>) {
    let rest = rest(inner);
    if !rest.is_empty() {
        extra.insert(name.to_owned(), rest.into());
    }
}

/// Puts the members that [`keep_inner`] kept back into the inner object.
pub(super) fn restore_inner(inner: &mut Object, extra: &mut Object, name: &str) {
    if let Some(Value::Object(_)) = extra.get(name)
        && let Some(Value::Object(rest)) = extra.shift_remove(name)
    {
        inner.extend(rest);
    }
}

/// Takes a number. Fails if the member has another type.
pub(crate) fn read_number(request: &mut Members<'_>, name: &str) -> Result<Option<Number>> {
    match request.take(name) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number)),
        Some(other) => Err(Untranslatable::invalid_type(&request.path(name), "a number", &other)),
    }
}

/// Takes a boolean. Fails if the member has another type.
pub(crate) fn read_boolean(members: &mut Members<'_>, name: &str) -> Result<Option<bool>> {
    match members.take(name) {
        None => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(value)),
        Some(other) => Err(Untranslatable::invalid_type(&members.path(name), "a boolean", &other)),
    }
}
