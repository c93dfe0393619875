//! Removes the note about an approval from the messages of a client.

use std::sync::Arc;

use serde_json::Value;

use super::{calls, has_role, messages, object};
use crate::recall::note;
use airlock_core::{tenant::Tenant, threads};
use airlock_json::{RawObject, raw};

/// Removes the note about an approval from the messages of the model that have calls. The results of the
/// calls follow them, so the note is no longer true. `charge` is called with the bytes that this takes.
/// Fails if `charge` fails, and then changes nothing.
pub async fn remove_notes<E: Send + 'static>(
    tenant: &Tenant,
    body: &mut RawObject,
    charge: impl Fn(usize) -> Result<(), E> + Send + 'static,
) -> Result<(), E> {
    let Some(text) = body.get("messages").filter(|text| text.contains(note::BEGIN)) else {
        return Ok(());
    };
    let bytes = text.len();
    let sent = body.clone();
    let changed = threads::read(tenant, bytes, move || without_notes(&sent, bytes, charge)).await?;
    if let Some(changed) = changed {
        body.set("messages", changed);
    }
    Ok(())
}

/// Returns the JSON text of the messages without notes, of which there are `bytes`; `None` if none has
/// a note.
fn without_notes<E>(
    body: &RawObject,
    bytes: usize,
    charge: impl Fn(usize) -> Result<(), E>,
) -> Result<Option<Arc<str>>, E> {
    // Once as it is made, and once as it is shared.
    charge(2 * bytes)?;
    let mut text = String::with_capacity(bytes);
    let mut is_changed = false;
    for message in messages(body) {
        text.push(if text.is_empty() { '[' } else { ',' });
        let changed = without_note(message);
        is_changed |= changed.is_some();
        text.push_str(changed.as_deref().unwrap_or(message));
    }
    text.push(']');
    Ok(is_changed.then(|| text.into()))
}

/// Returns a message of the model with calls without the note about an approval; `None` for any other
/// message.
fn without_note(message: &str) -> Option<String> {
    let has_note = message.contains(note::BEGIN) && has_role(message, "assistant");
    if !has_note || calls(message).next().is_none() {
        return None;
    }
    let content = content_without_note(raw::member(message, "content")?)?;
    let mut message = object(message)?;
    message.set("content", content);
    Some(message.to_text())
}

/// Returns the JSON text of content, a text or a list of parts, without the note at its end: `null` if
/// nothing is left. `None` if there is no note.
fn content_without_note(content: &str) -> Option<String> {
    if let Some(text) = raw::string(content) {
        let before = note::before_approval(&text)?;
        let rest = if before.is_empty() { Value::Null } else { Value::from(before) };
        return Some(rest.to_string());
    }
    let mut parts: Vec<&str> = raw::elements(content)?.collect();
    let last = parts.pop()?;
    let text = raw::member(last, "text").and_then(raw::string)?;
    let before = note::before_approval(&text)?;
    let mut joined = parts.join(",");
    if !before.is_empty() {
        let mut part = object(last)?;
        part.set("text", Value::from(before).to_string());
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(&part.to_text());
    }
    Some(if joined.is_empty() { "null".to_owned() } else { format!("[{joined}]") })
}
