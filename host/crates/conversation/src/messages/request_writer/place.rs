//! Places of items in the caller's request, for errors.
//!
//! Items do not tell from which message they came, so messages are counted as the readers split them. All
//! errors about items are made here.

use crate::{
    Item, Role, Wire,
    read::{Path, Untranslatable},
};

/// Place of the item that is written.
#[derive(Debug)]
pub(super) struct ItemPlace {
    wire: Wire,
    /// Number of messages up to that of the item.
    messages: usize,
    stage: Option<MessageStage>,
    /// Blocks of the message before the item; in chat, calls before it.
    before: usize,
    /// Blocks of the item.
    blocks: usize,
}

/// Place of a part of the item.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartPlace<'a> {
    item: &'a ItemPlace,
    index: usize,
}

/// Kind of an item in its message. Those of the model are in the order of a chat message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MessageStage {
    Reasoning,
    Content,
    Call,
    Result,
    Input,
    Other,
}

impl ItemPlace {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, messages: 0, stage: None, before: 0, blocks: 0 }
    }

    /// Moves on to the next item.
    pub(super) fn advance(&mut self, item: &Item) {
        let stage = MessageStage::from(item);
        if self.stage.is_some_and(|last| last.is_followed_by(stage, self.wire)) {
            let is_counted = self.is_own() || self.stage == Some(stage);
            self.before = if is_counted { self.before + self.blocks } else { 0 };
        } else {
            self.messages += usize::from(!self.is_system_prompt(item));
            self.before = 0;
        }
        self.stage = Some(stage);
        self.blocks = match item {
            Item::Message(message) => message.parts.len(),
            _ => 1,
        };
    }

    /// Returns whether the request came in this API: the unknown members of its items are written.
    pub(super) fn is_own(&self) -> bool {
        self.wire == Wire::Messages
    }

    pub(super) fn part(&self, index: usize) -> PartPlace<'_> {
        PartPlace { item: self, index }
    }

    /// Returns the error of a member that breaks a rule. `rule` is a sentence.
    pub(super) fn invalid(&self, member: &str, rule: &str) -> Untranslatable {
        Untranslatable::invalid(&Path::Root.member(&self.name(None, member)), rule)
    }

    /// Returns the error of a member that has no counterpart. `advice` is a sentence.
    pub(super) fn unsupported(&self, member: &str, advice: &str) -> Untranslatable {
        let name = self.name(None, member);
        Untranslatable::unsupported_parameter(&Path::Root.member(&name), advice)
    }

    /// Returns whether an item is `system`, which this API has apart from the messages.
    fn is_system_prompt(&self, item: &Item) -> bool {
        let is_first = self.is_own() && self.stage.is_none();
        is_first && matches!(item, Item::Message(message) if message.role == Role::System)
    }

    /// Returns the name of a member of the item, or of one of its parts.
    fn name(&self, part: Option<usize>, member: &str) -> String {
        let Some(message) = self.messages.checked_sub(1) else {
            return format!("system[{}].{member}", part.unwrap_or_default());
        };
        let message = format!("messages[{message}]");
        let is_chat = !self.is_own();
        match (self.stage, part) {
            (Some(MessageStage::Call), _) if is_chat => {
                format!("{message}.tool_calls[{}].{member}", self.before)
            }
            (_, None) if is_chat => format!("{message}.{member}"),
            (_, Some(part)) if is_chat => format!("{message}.content[{part}].{member}"),
            (Some(MessageStage::Result), Some(part)) => {
                format!("{message}.content[{}].content[{part}].{member}", self.before)
            }
            (_, part) => {
                let index = self.before + part.unwrap_or_default();
                format!("{message}.content[{index}].{member}")
            }
        }
    }
}

impl PartPlace<'_> {
    /// Returns the error of a member that breaks a rule. `rule` is a sentence.
    pub(super) fn invalid(self, member: &str, rule: &str) -> Untranslatable {
        let name = self.item.name(Some(self.index), member);
        Untranslatable::invalid(&Path::Root.member(&name), rule)
    }

    /// Returns the error of an image or a document. `in_chat` is its member in chat.
    pub(super) fn invalid_source(self, in_chat: &str, rule: &str) -> Untranslatable {
        self.invalid(if self.item.is_own() { "source" } else { in_chat }, rule)
    }
}

impl MessageStage {
    /// Returns whether an item is in the same message as the one before it.
    fn is_followed_by(self, next: Self, wire: Wire) -> bool {
        if wire == Wire::Messages {
            let is_of_model = self <= Self::Call && next <= Self::Call;
            return is_of_model || (self == Self::Result && next <= Self::Input && next >= self);
        }
        let is_later = next > self || (next == self && self != Self::Content);
        is_later && next <= Self::Call
    }
}

impl From<&Item> for MessageStage {
    fn from(item: &Item) -> Self {
        match item {
            Item::Message(message) if message.role == Role::Assistant => Self::Content,
            Item::Message(_) => Self::Input,
            Item::Reasoning(_) => Self::Reasoning,
            Item::ToolCall(_) => Self::Call,
            Item::ToolResult(_) => Self::Result,
            Item::Native(native) if native.wire == Wire::Messages => Self::Content,
            Item::Native(_) => Self::Other,
        }
    }
}
