//! A request to a model.

use super::{Item, Object, Settings, ToolChoice, ToolDefinition};

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

/// A request to a model: the conversation so far, and how it is to be continued.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// API in which the request came. Its `extra` members are those of this API.
    pub wire: Wire,
    /// Name of the model, as the caller wrote it.
    pub model: String,
    /// Items, the oldest first. Instructions are messages of the roles `System` and `Developer`.
    pub items: Vec<Item>,
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
            tools: Vec::new(),
            tool_choice: None,
            settings: Settings::default(),
            extra: Object::new(),
            hints: Object::new(),
        }
    }
}
