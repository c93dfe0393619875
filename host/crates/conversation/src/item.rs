//! The items of a conversation.

use airlock_json::weight::object_weight;
use serde_json::Value;

use super::{Object, Wire};

/// One item of a conversation.
///
/// A turn of a model can be several items: reasoning, a message, calls. Items of the
/// model that follow one another without a result or a message of another role between them are one
/// turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A message.
    Message(Message),
    /// Reasoning of the model.
    Reasoning(Reasoning),
    /// A call of a tool by the model.
    ToolCall(ToolCall),
    /// The result of a call.
    ToolResult(ToolResult),
    /// An item that only one API has.
    Native(NativeItem),
}

/// Role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions; OpenAI's older name.
    System,
    /// Instructions; OpenAI's newer name.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its role.
    pub role: Role,
    /// Its content, in order.
    pub parts: Vec<Part>,
    /// Members that the reader does not know, such as chat's `name`.
    pub extra: Object,
}

/// A part of a message or of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its content.
    pub content: Content,
    /// Anthropic's mark of the end of a prefix to cache, which chat clients send too.
    pub cache_control: Option<Value>,
    /// Members that the reader does not know, such as the citations of a text.
    pub extra: Object,
}

/// Content of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text.
    Text(String),
    /// Text with which the model refuses.
    Refusal(String),
    /// An image.
    Image {
        /// The image.
        media: Media,
        /// Detail in which it is read, in the words of OpenAI's API; `None` for the default.
        detail: Option<String>,
    },
    /// Sound.
    Audio(Media),
    /// A document.
    File {
        /// The document.
        media: Media,
        /// Its name.
        name: Option<String>,
    },
    /// A part that only one API has, as it came.
    Native(NativeItem),
}

/// Data of an image, a sound or a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Media {
    /// An address, which the provider fetches.
    Url(String),
    /// The data.
    Base64 {
        /// Media type, such as `image/png`; empty if it is not known.
        media_type: String,
        /// Base64 of the data.
        data: String,
    },
    /// A document in plain text.
    Text(String),
    /// Identifier of a file at the provider.
    FileId(String),
}

/// Reasoning of a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reasoning {
    /// Identifier of the item, in APIs that have one.
    pub id: Option<String>,
    /// The reasoning in readable form.
    pub text: String,
    /// Summaries of it.
    pub summary: Vec<String>,
    /// Proof of the provider that it wrote the reasoning; without it, some refuse to receive it back.
    pub seal: Option<Seal>,
    /// Members that the reader does not know.
    pub extra: Object,
}

/// Proof of a provider that it wrote a piece of reasoning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seal {
    /// Anthropic's signature of the text.
    Signature(String),
    /// Anthropic's reasoning in encrypted form alone (`redacted_thinking`).
    Redacted(String),
    /// OpenAI's `encrypted_content`.
    Encrypted(String),
}

/// Input of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallInput {
    /// Arguments of a function as JSON text, as the model wrote them: it may be invalid JSON.
    Arguments(String),
    /// Text for a custom tool of OpenAI.
    Text(String),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Identifier of the call, by which its result is found.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Input of the tool.
    pub input: CallInput,
    /// Anthropic's mark of the end of a prefix to cache.
    pub cache_control: Option<Value>,
    /// Members that the reader does not know, such as `extra_content`, in which Gemini's chat endpoint
    /// sends the signature of the thought before the call.
    pub extra: Object,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Identifier of the call.
    pub call_id: String,
    /// Content of the result.
    pub parts: Vec<Part>,
    /// True if the call failed; `None` if the API does not say.
    pub is_error: Option<bool>,
    /// Anthropic's mark of the end of a prefix to cache.
    pub cache_control: Option<Value>,
    /// Members that the reader does not know.
    pub extra: Object,
}

/// An item or a part that only one API has, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeItem {
    /// The API.
    pub wire: Wire,
    /// Its `type` in that API.
    pub kind: String,
    /// The whole object.
    pub object: Object,
}

impl Part {
    /// Creates a part without other members.
    pub fn new(content: Content) -> Self {
        Self { content, cache_control: None, extra: Object::new() }
    }

    /// Returns the text; `None` if the part is none.
    pub fn as_text(&self) -> Option<&str> {
        if let Content::Text(text) = &self.content { Some(text) } else { None }
    }

    /// Returns an estimate of the memory that the part takes, in bytes.
    pub fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Text(text) | Content::Refusal(text) => text.len(),
            Content::Image { media, .. } | Content::Audio(media) | Content::File { media, .. } => {
                media.text().len()
            }
            Content::Native(native) => object_weight(&native.object),
        };
        size_of::<Self>() + content + object_weight(&self.extra)
    }

    /// Creates a part with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Content::Text(text.into()))
    }
}

impl CallInput {
    /// Returns the input as text.
    pub fn text(&self) -> &str {
        let (Self::Arguments(text) | Self::Text(text)) = self;
        text
    }
}

impl Media {
    /// Returns the data, the address or the identifier.
    fn text(&self) -> &str {
        match self {
            Self::Base64 { data: text, .. }
            | Self::Url(text)
            | Self::Text(text)
            | Self::FileId(text) => text,
        }
    }
}

impl Seal {
    fn text(&self) -> &str {
        match self {
            Self::Signature(text) | Self::Redacted(text) | Self::Encrypted(text) => text,
        }
    }
}

impl Message {
    /// Creates a message without other members.
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, extra: Object::new() }
    }
}

impl ToolCall {
    /// Creates a call of a function, with its arguments as JSON text.
    pub fn function(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            input: CallInput::Arguments(arguments.into()),
            cache_control: None,
            extra: Object::new(),
        }
    }
}

impl ToolResult {
    /// Creates a result without other members.
    pub fn new(call_id: impl Into<String>, parts: Vec<Part>) -> Self {
        Self {
            call_id: call_id.into(),
            parts,
            is_error: None,
            cache_control: None,
            extra: Object::new(),
        }
    }
}

impl Reasoning {
    /// Returns an upper estimate of the memory that the reasoning owns, in bytes.
    pub fn bytes(&self) -> usize {
        let Self { id, text, summary, seal, extra } = self;
        let summary = summary.iter().map(|text| 2 * size_of::<String>() + text.len());
        let seal = seal.as_ref().map_or(0, |seal| match seal {
            Seal::Signature(data) | Seal::Redacted(data) | Seal::Encrypted(data) => data.len(),
        });
        let id = id.as_ref().map_or(0, String::len);
        id + text.len() + summary.sum::<usize>() + seal + object_weight(extra)
    }
}

impl Item {
    /// Returns whether the model wrote the item.
    pub fn is_of_model(&self) -> bool {
        match self {
            Self::Message(message) => message.role == Role::Assistant,
            Self::Reasoning(_) | Self::ToolCall(_) => true,
            Self::ToolResult(_) | Self::Native(_) => false,
        }
    }

    /// Returns an estimate of the memory that the item takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Message(Message { parts, extra, .. }) => {
                    parts.iter().map(Part::bytes).sum::<usize>() + object_weight(extra)
                }
                Self::Reasoning(Reasoning { text, summary, seal, extra, .. }) => {
                    let seal = seal.as_ref().map_or(0, |seal| seal.text().len());
                    let summary = summary.iter().map(String::len).sum::<usize>();
                    text.len() + summary + seal + object_weight(extra)
                }
                Self::ToolCall(ToolCall { id, name, input, extra, .. }) => {
                    let (CallInput::Arguments(input) | CallInput::Text(input)) = input;
                    id.len() + name.len() + input.len() + object_weight(extra)
                }
                Self::ToolResult(ToolResult { call_id, parts, extra, .. }) => {
                    let parts = parts.iter().map(Part::bytes).sum::<usize>();
                    call_id.len() + parts + object_weight(extra)
                }
                Self::Native(native) => object_weight(&native.object),
            }
    }
}

/// Returns base64 as a `data:` URL.
pub(crate) fn data_url(media_type: &str, mut data: String) -> String {
    data.insert_str(0, &format!("data:{media_type};base64,"));
    data
}
