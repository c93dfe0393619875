//! Reasoning.
//!
//! Its text is that of `content`, or of `summary` if there is no content. `encrypted_content` is the
//! state that the gateway made from the members of a chat completion which must be returned unchanged:
//! Anthropic's signed `thinking_blocks`, and `OpenRouter`'s `reasoning_details`.

use std::borrow::Cow;

use airlock_json::{self as json, Caps, raw};
use serde_json::Value;

use crate::{
    Object, Reasoning, chat,
    read::{Members, Result, Untranslatable},
};

/// Members of a message in chat completions, each a list, that the model needs back unchanged.
const STATE: [&str; 2] = ["thinking_blocks", "reasoning_details"];
/// Limit on the memory of the state of one item as a tree, which can take 150 times the bytes of its
/// text.
const CAPS: Caps = Caps::memory(32 << 20);
/// Digits of an identifier that the gateway makes.
const ID_DIGITS: usize = 36;

/// Reads an item of reasoning. Fails if another service encrypted it.
pub(super) fn read(mut item: Members<'_>) -> Result<Vec<Reasoning>> {
    let content = part_texts(&mut item, "content", "reasoning_text")?;
    let summary = part_texts(&mut item, "summary", "summary_text")?;
    let text = if content.is_empty() { summary } else { content };
    let state = match item.text("encrypted_content")? {
        None => Object::new(),
        Some(encrypted) => read_state(&encrypted).ok_or_else(|| {
            let rule = "it was not made by this gateway, and another service's reasoning cannot be read. \
                        Leave this item out.";
            Untranslatable::invalid(&item.path("encrypted_content"), rule)
        })?,
    };
    Ok(chat::read_state(text, state))
}

/// Returns the texts of the parts of a reasoning item, joined.
fn part_texts(item: &mut Members<'_>, name: &str, kind: &str) -> Result<String> {
    let mut text = String::new();
    let list = item.list(name)?.unwrap_or_default();
    let path = item.path(name);
    for (index, part) in list.into_iter().enumerate() {
        let path = path.element(index);
        let mut part = Members::read(&path, part)?;
        let found = part.required_text("type")?;
        if found != kind {
            return Err(Untranslatable::invalid_value(&part.path("type"), &found, &[kind]));
        }
        if !text.is_empty() {
            text.push_str(chat::SEPARATOR);
        }
        text.push_str(&part.required_text("text")?);
    }
    Ok(text)
}

/// Returns whether the gateway made a reasoning item, JSON text, from the reply of another API.
pub fn is_own_reasoning(item: &str) -> bool {
    if text_of(item, "type").is_none_or(|kind| kind != "reasoning") {
        return false;
    }
    match text_of(item, "encrypted_content") {
        Some(state) => is_own_state(&state),
        None => text_of(item, "id").is_some_and(|id| is_own_id(&id)),
    }
}

fn text_of<'t>(item: &'t str, name: &str) -> Option<Cow<'t, str>> {
    raw::member(item, name).and_then(raw::string)
}

/// Returns whether an identifier of an item has the form of those that the gateway makes: the UUID of its
/// Response, a round and a place in hexadecimal behind a prefix.
pub fn is_own_id(id: &str) -> bool {
    let digits = id.split_once('_').map_or("", |(_, digits)| digits);
    digits.len() == ID_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the memory of the state in the reasoning of a request, which is read from texts, in bytes.
pub fn state_bytes(request: &Object) -> usize {
    let items = request.get("input").and_then(Value::as_array).into_iter().flatten();
    let states = items.filter_map(|item| item.get("encrypted_content")?.as_str());
    let states = states.filter(|state| is_own_state(state));
    states.map(|state| json::check(state.as_bytes(), &CAPS).map_or(0, |cost| cost.tree_bytes)).sum()
}

/// Returns whether the gateway wrote this `encrypted_content`.
fn is_own_state(encrypted: &str) -> bool {
    let Some(members) = raw::members(encrypted).filter(|_| is_json(encrypted)) else {
        return false;
    };
    let mut count = 0;
    let is_own = members
        .inspect(|_| count += 1)
        .all(|(name, value)| STATE.contains(&&*name) && value.starts_with('['));
    is_own && count > 0
}

fn is_json(text: &str) -> bool {
    json::check(text.as_bytes(), &CAPS).is_ok()
}

/// Reads `encrypted_content`; `None` if the gateway did not write it.
fn read_state(encrypted: &str) -> Option<Object> {
    if !is_own_state(encrypted) {
        return None;
    }
    serde_json::from_str(encrypted).ok()
}
