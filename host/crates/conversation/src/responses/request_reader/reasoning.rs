//! Reasoning.
//!
//! Its text is that of `content`, or of `summary` if there is no content. `encrypted_content` is the
//! state that the gateway made from the members of a chat completion which must be returned unchanged:
//! Anthropic's signed `thinking_blocks`, and `OpenRouter`'s `reasoning_details`.

use crate::{
    Object, Reasoning, chat,
    read::{Members, Untranslatable},
};

/// Members of a message in chat completions, each a list, that the model needs back unchanged.
const STATE: [&str; 2] = ["thinking_blocks", "reasoning_details"];

/// Reads an item of reasoning. Fails if another service encrypted it.
pub(super) fn read(mut item: Members<'_>) -> Result<Vec<Reasoning>, Untranslatable> {
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
fn part_texts(item: &mut Members<'_>, name: &str, kind: &str) -> Result<String, Untranslatable> {
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

/// Returns whether the gateway made this `encrypted_content`.
pub fn is_own_state(encrypted: &str) -> bool {
    read_state(encrypted).is_some()
}

/// Reads `encrypted_content`; `None` if the gateway did not write it.
fn read_state(encrypted: &str) -> Option<Object> {
    let state: Object = serde_json::from_str(encrypted).ok()?;
    let is_ours = !state.is_empty()
        && state.iter().all(|(name, value)| STATE.contains(&name.as_str()) && value.is_array());
    is_ours.then_some(state)
}
