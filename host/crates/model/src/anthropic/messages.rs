//! Messages of a chat → `system` and `messages` of the Messages API.

use serde_json::Value;

use super::content::{self, CACHE_CONTROL, ContentPlace};
use crate::{
    Object,
    translation::{Unsupported, object_of, take, take_text},
};
use airlock_conversation::arguments_object;

/// A conversation of the Messages API.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Text blocks of all system and developer messages. The API has one system prompt before the
    /// conversation, so messages from its middle move there.
    pub(super) system: Vec<Value>,
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Turn {
    role: &'static str,
    blocks: Vec<Value>,
}

impl Conversation {
    /// Translates the `messages` of a chat request.
    pub(super) fn new(messages: Option<Value>) -> Result<Self, Unsupported> {
        let Some(Value::Array(messages)) = messages else {
            return Err(Unsupported::new("messages", "must be a list of messages"));
        };
        let mut this = Self::default();
        for (index, message) in messages.into_iter().enumerate() {
            this.add(message).map_err(|error| error.within(format_args!("messages[{index}]")))?;
        }
        if this.turns.is_empty() {
            let problem = "must have a user, assistant or tool message that is not empty";
            return Err(Unsupported::new("messages", problem));
        }
        Ok(this)
    }

    /// Returns `messages`.
    pub(super) fn into_messages(self) -> Vec<Value> {
        let messages = self.turns.into_iter().map(|Turn { role, blocks }| {
            object_of([("role", role.into()), ("content", blocks.into())]).into()
        });
        messages.collect()
    }

    fn add(&mut self, message: Value) -> Result<(), Unsupported> {
        let Value::Object(mut message) = message else {
            return Err(Unsupported::new("", "must be an object"));
        };
        let cache_control = take(&mut message, CACHE_CONTROL);
        let role = take_text(&mut message, "role")?;
        let (turn, mut blocks) = match role.as_str() {
            "system" | "developer" => (None, plain(&mut message, ContentPlace::System)?),
            "user" => (Some("user"), plain(&mut message, ContentPlace::User)?),
            "assistant" => (Some("assistant"), assistant(&mut message)?),
            // The Messages API has results of tools in messages of the user.
            "tool" => (Some("user"), vec![tool_result(message)?]),
            _ => {
                let problem =
                    "must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"";
                return Err(Unsupported::new("role", problem));
            }
        };
        content::mark_last(&mut blocks, cache_control);
        match turn {
            Some(role) => self.push(role, blocks),
            None => self.system.append(&mut blocks),
        }
        Ok(())
    }

    /// Adds blocks to the last turn if it has the same role: the API merges consecutive turns of a
    /// role, and requires all results of a round of tools in one message.
    fn push(&mut self, role: &'static str, mut blocks: Vec<Value>) {
        match self.turns.last_mut() {
            Some(last) if last.role == role => last.blocks.append(&mut blocks),
            _ if blocks.is_empty() => {}
            _ => self.turns.push(Turn { role, blocks }),
        }
    }
}

/// Returns the blocks of a message that has only content.
fn plain(message: &mut Object, place: ContentPlace) -> Result<Vec<Value>, Unsupported> {
    refuse(
        message,
        "name",
        "has no counterpart in Anthropic's Messages API; write it in the text",
    )?;
    content::blocks(take(message, "content"), place)
}

/// Returns the blocks of a message of the model: its thinking, which must come first, its text, and
/// its calls.
fn assistant(message: &mut Object) -> Result<Vec<Value>, Unsupported> {
    refuse(message, "audio", "has no counterpart in Anthropic's Messages API")?;
    refuse(message, "function_call", "is replaced by `tool_calls`")?;
    let mut blocks = thinking(take(message, "thinking_blocks"))?;
    blocks.append(&mut plain(message, ContentPlace::Assistant)?);
    if let Some(refusal) = take(message, "refusal") {
        let refusal = content::blocks(Some(refusal), ContentPlace::Assistant);
        blocks.append(&mut refusal.map_err(|_| Unsupported::new("refusal", "must be a string"))?);
    }
    for (index, call) in list(message, "tool_calls")?.into_iter().enumerate() {
        let block =
            tool_use(call).map_err(|error| error.within(format_args!("tool_calls[{index}]")))?;
        blocks.push(block);
    }
    Ok(blocks)
}

/// Returns signed thinking as the model sent it. `reasoning_content` is not sent: the API accepts
/// thinking only in its signed blocks, which repeat the same text.
fn thinking(blocks: Option<Value>) -> Result<Vec<Value>, Unsupported> {
    let blocks = match blocks {
        None => return Ok(Vec::new()),
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(Unsupported::new("thinking_blocks", "must be a list")),
    };
    let unmodified = blocks.into_iter().enumerate().map(|(index, block)| match block {
        Value::Object(mut block) if content::is_thinking(&block) => {
            // Clients that collect a stream keep the position of each block.
            block.shift_remove("index");
            Ok(Value::Object(block))
        }
        _ => Err(Unsupported::new(
            format_args!("thinking_blocks[{index}].type"),
            "must be \"thinking\" or \"redacted_thinking\"",
        )),
    });
    unmodified.collect()
}

fn tool_use(call: Value) -> Result<Value, Unsupported> {
    let Value::Object(mut call) = call else {
        return Err(Unsupported::new("", "must be an object"));
    };
    let Some(Value::Object(mut function)) = call.shift_remove("function") else {
        return Err(Unsupported::new("type", "must be \"function\" for Anthropic's models"));
    };
    let name = take_text(&mut function, "name").map_err(|error| error.within("function"))?;
    let arguments =
        take_text(&mut function, "arguments").map_err(|error| error.within("function"))?;
    let id = take_text(&mut call, "id")?;
    let mut block = object_of([
        ("type", "tool_use".into()),
        ("id", id.into()),
        ("name", name.into()),
        ("input", arguments_object(arguments).into()),
    ]);
    if let Some(cache_control) = take(&mut call, CACHE_CONTROL) {
        block.insert(CACHE_CONTROL.to_owned(), cache_control);
    }
    Ok(Value::Object(block))
}

fn tool_result(mut message: Object) -> Result<Value, Unsupported> {
    let id = take_text(&mut message, "tool_call_id")?;
    let mut block = object_of([("type", "tool_result".into()), ("tool_use_id", id.into())]);
    let content = content::blocks(take(&mut message, "content"), ContentPlace::ToolResult)?;
    if !content.is_empty() {
        block.insert("content".to_owned(), content.into());
    }
    match take(&mut message, "is_error") {
        None => {}
        Some(is_error @ Value::Bool(_)) => drop(block.insert("is_error".to_owned(), is_error)),
        Some(_) => return Err(Unsupported::new("is_error", "must be true or false")),
    }
    Ok(Value::Object(block))
}

fn list(message: &mut Object, name: &'static str) -> Result<Vec<Value>, Unsupported> {
    match take(message, name) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(Unsupported::new(name, "must be a list")),
    }
}

fn refuse(message: &mut Object, name: &str, problem: &str) -> Result<(), Unsupported> {
    take(message, name).map_or(Ok(()), |_| Err(Unsupported::new(name, problem)))
}

#[cfg(test)]
mod tests;
