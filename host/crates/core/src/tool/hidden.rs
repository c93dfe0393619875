//! Removes hidden characters from the texts of a definition.

use std::borrow::Cow;

use serde_json::{Map, Value};

use airlock_json::JsonText;
use airlock_strings::{MAX_NAME_BYTES, cut, stripped, visible};

/// A JSON value has a member with hidden characters in its name: the name, cut.
pub(super) struct HiddenKey(pub(super) String);

/// Returns a text without hidden characters; `None` if it has none.
pub(super) fn text_of(text: &str) -> Option<String> {
    match stripped(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(stripped) => (stripped != text).then_some(stripped),
    }
}

/// Returns a value whose texts have no hidden characters; `None` if it is the same. Fails if the
/// name of a member has some. The value is not changed if it is nested too deep to be parsed, which
/// only one of the gateway's own can be.
pub(super) fn json_of(json: &JsonText) -> Result<Option<JsonText>, HiddenKey> {
    // Other characters are neither hidden nor escaped.
    if json.as_str().bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\' || byte == b' ') {
        return Ok(None);
    }
    let Ok(mut value) = json.to_value() else { return Ok(None) };
    let is_changed = strip(&mut value)?;
    Ok(is_changed.then(|| value.into()))
}

/// Returns a value whose texts have no hidden characters. `None` if the name of a member has some.
pub fn without_hidden(json: JsonText) -> Option<JsonText> {
    match json_of(&json) {
        Ok(None) => Some(json),
        Ok(stripped) => stripped,
        Err(HiddenKey(_)) => None,
    }
}

/// Returns a value whose texts and names have their hidden characters made visible.
pub(super) fn made_visible(json: &JsonText) -> JsonText {
    fn shown(value: Value) -> Value {
        match value {
            Value::String(text) => visible(&text).into(),
            Value::Array(items) => items.into_iter().map(shown).collect(),
            Value::Object(members) => {
                let named = members.into_iter().map(|(name, value)| (visible(&name), shown(value)));
                Value::Object(named.collect::<Map<_, _>>())
            }
            other => other,
        }
    }
    json.to_value().map_or_else(|_| json.clone(), |value| shown(value).into())
}

/// Strips the texts of a value. Returns whether any had hidden characters. The depth is that of
/// parsed JSON, at most 128.
fn strip(value: &mut Value) -> Result<bool, HiddenKey> {
    let mut is_changed = false;
    match value {
        Value::String(text) => {
            if let Some(stripped) = text_of(text) {
                *text = stripped;
                is_changed = true;
            }
        }
        Value::Array(items) => {
            for item in items {
                is_changed |= strip(item)?;
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                if text_of(name).is_some() {
                    return Err(HiddenKey(cut(name.clone(), MAX_NAME_BYTES)));
                }
                is_changed |= strip(value)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(is_changed)
}
