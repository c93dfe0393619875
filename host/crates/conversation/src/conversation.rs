//! A request to a model.

use super::{
    CallInput, Item, Object, Settings, ToolCall, ToolChoice, ToolDefinition, arguments_bytes,
};

/// API in which a request or a reply is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Gemini's `generateContent`.
    Gemini,
}

/// Place of an item in the request of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemPlace {
    /// In the list of messages or items.
    Listed {
        /// Element of the list.
        index: u32,
        /// First block of the content, or element of `tool_calls`, that the item was read from.
        offset: u32,
    },
    /// Before the list: instructions that have a member of their own.
    Instructions,
    /// In a stored response that the request continues.
    Stored,
    /// In no request: the gateway added the item.
    Added,
}

/// A request to a model: the conversation so far, and how it is to be continued.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// API in which the request came. Its `extra` members are those of this API.
    pub wire: Wire,
    /// Name of the model, as the caller wrote it.
    pub model: String,
    /// Items, the oldest first. Instructions are messages of the roles `System` and `Developer`.
    pub items: Vec<Item>,
    /// Places of the items in the request, for errors. Items beyond them were added to it.
    pub places: Vec<ItemPlace>,
    /// Tools that the caller offers.
    pub tools: Vec<ToolDefinition>,
    /// Choice among the tools; `None` if the request has none, which means `Auto` in all APIs.
    pub tool_choice: Option<ToolChoice>,
    /// Settings that more than one API has.
    pub settings: Settings,
    /// Members that the reader does not know, and those of its API alone that change the reply. A
    /// writer of the same API writes them as they are. Another one writes what the provider may
    /// know, and refuses what it certainly does not.
    pub extra: Object,
    /// Members of its API alone that do not change the reply, such as hints for a cache. Only a
    /// writer of the same API writes them.
    pub hints: Object,
}

impl Conversation {
    /// Creates a request without items, tools and settings.
    pub fn new(wire: Wire, model: impl Into<String>) -> Self {
        Self {
            wire,
            model: model.into(),
            items: Vec::new(),
            places: Vec::new(),
            tools: Vec::new(),
            tool_choice: None,
            settings: Settings::default(),
            extra: Object::new(),
            hints: Object::new(),
        }
    }

    /// Returns the memory of the arguments of all calls as objects, in bytes, without that of their texts.
    pub fn arguments_bytes(&self) -> usize {
        let calls = self.items.iter().filter_map(|item| match item {
            Item::ToolCall(ToolCall { input: CallInput::Arguments(text), .. }) => Some(text),
            _ => None,
        });
        calls.map(|text| arguments_bytes(text)).fold(0, usize::saturating_add)
    }

    /// Adds an item that was read at a place of the request.
    pub fn push(&mut self, item: Item, place: ItemPlace) {
        self.places.resize(self.items.len(), ItemPlace::Added);
        self.items.push(item);
        self.places.push(place);
    }
}

impl ItemPlace {
    /// Returns the place of the item that is an element of the list.
    pub fn listed(index: usize) -> Self {
        Self::within(index, 0)
    }

    /// Returns the place of the item that begins at `offset` in an element of the list.
    pub fn within(index: usize, offset: usize) -> Self {
        let [index, offset] = [index, offset].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        Self::Listed { index, offset }
    }
}
