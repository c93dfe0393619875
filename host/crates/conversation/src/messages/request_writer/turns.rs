//! Items → `system` and `messages`.

use serde_json::Value;

use super::{
    super::object_of,
    content::{self, CACHE_CONTROL, ContentPlace},
    target::invalid,
};
use crate::{
    CallInput, Item, Message, NativeItem, Object, Part, Role, ToolCall, ToolResult, Wire,
    arguments_object, chat,
    read::{ItemSite, Result},
    thought_signature::EXTRA_CONTENT,
};

const SYSTEM: &str = "system";

/// Members of chat messages without a counterpart.
const WITHOUT_COUNTERPART: [(&str, &str); 3] = [
    ("name", "It has no counterpart in Anthropic's Messages API; write it in the text."),
    ("audio", "It has no counterpart in Anthropic's Messages API."),
    ("function_call", "It is replaced by `tool_calls`."),
];

/// The turns of a request, as they grow.
#[derive(Debug)]
pub(super) struct TurnWriter {
    /// Position of the item that is written.
    site: ItemSite,
    /// Text blocks of messages with instructions. Those of other APIs move here from the middle of the
    /// conversation.
    system: Vec<Value>,
    turns: Vec<MessageTurn>,
}

/// One message.
#[derive(Debug)]
struct MessageTurn {
    role: &'static str,
    /// Results of calls, which the API requires before the other blocks.
    results: Vec<Value>,
    blocks: Vec<Value>,
}

impl TurnWriter {
    pub(super) fn new(wire: Wire) -> Self {
        Self { site: ItemSite::list(wire), system: Vec::new(), turns: Vec::new() }
    }

    /// Adds an item.
    pub(super) fn add(&mut self, item: Item, site: ItemSite) -> Result<()> {
        self.site = site;
        match item {
            Item::Message(message) => self.add_message(message)?,
            // `None` for reasoning without a proof of Anthropic's.
            Item::Reasoning(reasoning) => {
                let block = chat::write_thinking_block(reasoning).map(Value::Object);
                self.push("assistant", block.into_iter().collect());
            }
            Item::ToolCall(call) => {
                let block = self.tool_use(call)?;
                self.push("assistant", vec![block.into()]);
            }
            Item::ToolResult(result) => {
                let block = self.tool_result(result)?;
                self.turn("user").results.push(block.into());
            }
            Item::Native(native) => self.add_native(native)?,
        }
        Ok(())
    }

    /// Writes `system` and `messages` into `body`. Fails if there are no messages.
    pub(super) fn finish(self, body: &mut Object) -> Result<()> {
        if self.turns.is_empty() {
            let rule = "it must have a user, assistant or tool message that is not empty.";
            return Err(invalid("messages", rule));
        }
        write_system(self.system, body)?;
        let messages: Vec<Value> =
            self.turns.into_iter().map(|turn| turn.into_message().into()).collect();
        body.insert("messages".to_owned(), messages.into());
        Ok(())
    }

    fn add_message(&mut self, message: Message) -> Result<()> {
        let Message { role, parts, extra } = message;
        for (name, advice) in WITHOUT_COUNTERPART {
            if extra.contains_key(name) {
                return Err(self.site.unsupported_member(name, advice));
            }
        }
        let place = match role {
            Role::System | Role::Developer => ContentPlace::System,
            Role::User => ContentPlace::User,
            Role::Assistant => ContentPlace::Assistant,
        };
        let mut blocks = self.blocks(parts, place)?;
        match place {
            ContentPlace::Assistant => self.push("assistant", blocks),
            // Its caller knows which models take instructions between messages.
            ContentPlace::System if self.is_own() && !self.turns.is_empty() => {
                self.push(SYSTEM, blocks);
            }
            ContentPlace::System => self.system.append(&mut blocks),
            ContentPlace::User | ContentPlace::ToolResult => self.push("user", blocks),
        }
        Ok(())
    }

    /// Adds a block of the model that only this API has. A message of chat is refused.
    fn add_native(&mut self, native: NativeItem) -> Result<()> {
        if native.wire == Wire::Messages {
            self.push("assistant", vec![native.object.into()]);
            return Ok(());
        }
        let rule = "it must be 'system', 'developer', 'user', 'assistant' or 'tool'.";
        Err(self.site.invalid_member("role", rule))
    }

    fn tool_use(&self, call: ToolCall) -> Result<Object> {
        let ToolCall { id, name, input, cache_control, mut extra } = call;
        let CallInput::Arguments(arguments) = input else {
            let rule = "it must be 'function' for Anthropic's models.";
            return Err(self.site.invalid_member("type", rule));
        };
        // The signature of another provider.
        extra.shift_remove(EXTRA_CONTENT);
        let mut block = object_of([
            ("type", "tool_use".into()),
            ("id", id.into()),
            ("name", name.into()),
            ("input", arguments_object(arguments).into()),
        ]);
        self.add_members(&mut block, extra, cache_control);
        Ok(block)
    }

    fn tool_result(&self, result: ToolResult) -> Result<Object> {
        let ToolResult { call_id, parts, is_error, cache_control, extra } = result;
        let mut block =
            object_of([("type", "tool_result".into()), ("tool_use_id", call_id.into())]);
        let content = self.blocks(parts, ContentPlace::ToolResult)?;
        if !content.is_empty() {
            block.insert("content".to_owned(), content.into());
        }
        block.extend(is_error.map(|is_error| ("is_error".to_owned(), is_error.into())));
        self.add_members(&mut block, extra, cache_control);
        Ok(block)
    }

    /// Adds the unknown members of an item, if they are those of this API, and its mark.
    fn add_members(&self, block: &mut Object, extra: Object, cache_control: Option<Value>) {
        if self.is_own() {
            block.extend(extra);
        }
        block.extend(cache_control.map(|mark| (CACHE_CONTROL.to_owned(), mark)));
    }

    /// Returns whether the request came in this API: the unknown members of its items are written.
    fn is_own(&self) -> bool {
        self.site.wire() == Wire::Messages
    }

    fn blocks(&self, parts: Vec<Part>, place: ContentPlace) -> Result<Vec<Value>> {
        content::blocks(parts, place, self.site)
    }

    /// Adds blocks to the turn of a role.
    fn push(&mut self, role: &'static str, mut blocks: Vec<Value>) {
        if !blocks.is_empty() {
            self.turn(role).blocks.append(&mut blocks);
        }
    }

    /// Returns the last turn if it has this role, and else a new one: the API merges consecutive turns of
    /// a role, and requires all results of a round of tools in one message.
    fn turn(&mut self, role: &'static str) -> &mut MessageTurn {
        if self.turns.last().is_none_or(|last| last.role != role) {
            self.turns.push(MessageTurn { role, results: Vec::new(), blocks: Vec::new() });
        }
        self.turns.last_mut().expect("one was added")
    }
}

impl MessageTurn {
    fn into_message(mut self) -> Object {
        self.results.append(&mut self.blocks);
        object_of([("role", self.role.into()), ("content", self.results.into())])
    }
}

/// Writes the instructions after the caller's own `system`.
fn write_system(mut blocks: Vec<Value>, body: &mut Object) -> Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    let mut system = match body.shift_remove(SYSTEM) {
        Some(Value::Array(system)) => system,
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![content::text_block(text).into()],
        None => Vec::new(),
        Some(_) => return Err(invalid(SYSTEM, "it must be a string or a list of text blocks.")),
    };
    system.append(&mut blocks);
    body.insert(SYSTEM.to_owned(), system.into());
    Ok(())
}

#[cfg(test)]
mod tests;
