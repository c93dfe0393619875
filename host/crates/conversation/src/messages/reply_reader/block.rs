//! The block of content that is open.

use serde_json::Value;

use super::invalid;
use crate::{Delta, Object, Reasoning, ReplyError, Seal, delta::MAX_HELD_BYTES};

/// State of a block. Its size is bounded by [`MAX_HELD_BYTES`] and the size of the event that
/// opened it.
#[derive(Debug)]
pub(super) enum Block {
    Text,
    /// The block as it can be sent back.
    Thinking(Object),
    /// A call, and its input if no piece of it has been streamed.
    Call {
        index: u64,
        input: Option<Value>,
    },
    /// A block of a type that has no form in other APIs.
    Ignored,
}

impl Block {
    /// Returns the state of a block of thinking that starts.
    pub(super) fn thinking(block: &Object) -> Result<Self, ReplyError> {
        check_thinking(thinking_bytes(block))?;
        Ok(Self::Thinking(block.clone()))
    }

    /// Adds a delta of type `kind`. Deltas of types that are not known are ignored.
    pub(super) fn extend(
        &mut self,
        kind: &str,
        delta: &Object,
    ) -> Result<Option<Delta>, ReplyError> {
        match (kind, self) {
            (_, Self::Ignored) => Ok(None),
            ("text_delta", Self::Text) => Ok(text_delta(delta)),
            ("thinking_delta", Self::Thinking(block)) => {
                let piece = text(delta, "thinking");
                check_thinking(thinking_bytes(block) + piece.len())?;
                append(block, "thinking", &piece);
                Ok(reasoning_delta(piece))
            }
            ("signature_delta", Self::Thinking(block)) => {
                // The signature comes whole; Anthropic's SDKs replace an earlier one, too.
                block.remove("signature");
                let signature = text(delta, "signature");
                check_thinking(thinking_bytes(block) + signature.len())?;
                block.insert("signature".to_owned(), signature.into());
                Ok(None)
            }
            ("input_json_delta", Self::Call { index, input }) => {
                let json = text(delta, "partial_json");
                if json.is_empty() {
                    return Ok(None);
                }
                *input = None;
                Ok(Some(Delta::Arguments { choice: 0, index: *index, text: json }))
            }
            ("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta", _) => {
                Err(invalid("a delta that does not fit the type of its content block"))
            }
            _ => Ok(None),
        }
    }
}

/// Returns the delta of a member `text`; `None` if it is empty.
pub(super) fn text_delta(object: &Object) -> Option<Delta> {
    let text = Some(text(object, "text")).filter(|text| !text.is_empty());
    text.map(|text| Delta::Text { choice: 0, text })
}

/// Returns the delta of readable thinking; `None` if it is empty.
pub(super) fn reasoning_delta(thinking: String) -> Option<Delta> {
    let text = Some(thinking).filter(|text| !text.is_empty());
    text.map(|text| Delta::Reasoning { choice: 0, text })
}

/// Returns the reasoning of a complete block of thinking.
pub(super) fn reasoning(mut block: Object) -> Reasoning {
    let is_redacted = block.get("type").is_some_and(|kind| kind == "redacted_thinking");
    let [text, signature, data] =
        ["thinking", "signature", "data"].map(|name| match block.shift_remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        });
    let seal = if is_redacted { Seal::Redacted(data) } else { Seal::Signature(signature) };
    block.retain(|name, _| name != "type" && name != "index");
    Reasoning { text, seal: Some(seal), extra: block, ..Reasoning::default() }
}

/// Returns a member that is a string; empty if it is absent.
pub(super) fn text(object: &Object, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn append(block: &mut Object, name: &str, piece: &str) {
    match block.get_mut(name) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => drop(block.insert(name.to_owned(), piece.into())),
    }
}

fn thinking_bytes(block: &Object) -> usize {
    text_bytes(block, "thinking") + text_bytes(block, "signature")
}

fn text_bytes(block: &Object, name: &str) -> usize {
    block.get(name).and_then(Value::as_str).map_or(0, str::len)
}

fn check_thinking(bytes: usize) -> Result<(), ReplyError> {
    if bytes > MAX_HELD_BYTES {
        return Err(invalid("a block of thinking of excessive length"));
    }
    Ok(())
}
