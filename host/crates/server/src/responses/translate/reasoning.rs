//! Reasoning in both directions.
//!
//! Chat completions have no standard for reasoning. Common servers send its text as
//! `reasoning_content` or `reasoning`, which becomes the `reasoning_text` of a reasoning item. Some
//! also send members that must be returned unchanged in the next request: Anthropic's signed
//! `thinking_blocks`, and `OpenRouter`'s `reasoning_details`. They become `encrypted_content`, the
//! member for state that clients return without reading it.

use serde_json::Value;

use airlock_conversation::read::{Members, Untranslatable};
use airlock_model::Object;

/// Member of a message with the text of the reasoning.
const TEXT: &str = "reasoning_content";
/// Members of a message, each a list, that the model needs back unchanged.
const STATE: [&str; 2] = ["thinking_blocks", "reasoning_details"];
/// Text between two parts of reasoning.
const SEPARATOR: &str = "\n\n";

/// Returns whether a member is state that the model needs back.
pub(super) fn is_state(name: &str) -> bool {
    STATE.contains(&name)
}

/// State that the model needs back, collected from deltas.
#[derive(Debug, Default)]
pub(super) struct State(Object);

impl State {
    /// Appends a piece of a member.
    pub(super) fn add(&mut self, name: &str, mut more: Vec<Value>) {
        let list = self.0.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.append(&mut more);
        }
    }

    /// Returns the state as `encrypted_content`.
    pub(super) fn into_encrypted_content(self) -> Value {
        if self.0.is_empty() { Value::Null } else { Value::Object(self.0).to_string().into() }
    }
}

/// Reasoning of an assistant message.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    text: String,
    state: Object,
}

impl Reasoning {
    /// Adds a reasoning item. Its text is that of `content`, or of `summary` if there is no
    /// content.
    pub(super) fn add(&mut self, mut item: Members<'_>) -> Result<(), Untranslatable> {
        let content = part_texts(&mut item, "content", "reasoning_text")?;
        let summary = part_texts(&mut item, "summary", "summary_text")?;
        self.add_text(if content.is_empty() { &summary } else { &content });
        if let Some(encrypted) = item.text("encrypted_content")? {
            let state = read_state(&encrypted).ok_or_else(|| {
                let path = item.path("encrypted_content");
                Untranslatable::invalid(
                    &path,
                    "it was not made by this gateway, and another service's reasoning cannot be read. \
                     Leave this item out.",
                )
            })?;
            self.add_state(state);
        }
        Ok(())
    }

    /// Appends more reasoning of the same message.
    pub(super) fn append(&mut self, more: Self) {
        self.add_text(&more.text);
        self.add_state(more.state);
    }

    fn add_text(&mut self, text: &str) {
        if !self.text.is_empty() && !text.is_empty() {
            self.text.push_str(SEPARATOR);
        }
        self.text.push_str(text);
    }

    fn add_state(&mut self, state: Object) {
        for (name, value) in state {
            match (self.state.get_mut(&name), value) {
                (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
                (_, value) => drop(self.state.insert(name, value)),
            }
        }
    }

    /// Puts the reasoning into an assistant message.
    pub(super) fn put_into(self, message: &mut Object) {
        if !self.text.is_empty() {
            message.insert(TEXT.to_owned(), self.text.into());
        }
        message.extend(self.state);
    }
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
            text.push_str(SEPARATOR);
        }
        text.push_str(&part.required_text("text")?);
    }
    Ok(text)
}

/// Returns whether `encrypted_content` is one of this gateway's.
pub(super) fn is_own_state(encrypted: &str) -> bool {
    read_state(encrypted).is_some()
}

/// Reads `encrypted_content`; `None` if this gateway did not write it.
fn read_state(encrypted: &str) -> Option<Object> {
    let state: Object = serde_json::from_str(encrypted).ok()?;
    let is_ours = !state.is_empty()
        && state.iter().all(|(name, value)| STATE.contains(&name.as_str()) && value.is_array());
    is_ours.then_some(state)
}
