//! Pieces of a reply.
//!
//! A reply is [`Delta::Begin`], then pieces in any order, and last an [`Delta::End`] for each choice and
//! at most one [`Delta::Usage`]. A reply that was not streamed is read as the same sequence, so both
//! forms agree. A [`Delta::ChunkMember`] can come anywhere, also before the beginning.

use airlock_json::weight::{object_weight, weight};
use serde_json::Value;

use super::{FinishReason, Object, Reasoning, Usage, Wire};

/// One piece of a reply. `choice` counts from 0; only chat completions have more than one.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// The reply begins.
    Begin(Begin),
    /// A piece of the text.
    Text {
        /// The choice.
        choice: u64,
        /// The piece.
        text: String,
    },
    /// A piece of a text with which the model refuses.
    Refusal {
        /// The choice.
        choice: u64,
        /// The piece.
        text: String,
    },
    /// A piece of readable reasoning.
    Reasoning {
        /// The choice.
        choice: u64,
        /// The piece.
        text: String,
    },
    /// A part of the reasoning begins: one of the summaries of an item of the Responses API, or one of its own
    /// texts. The pieces after it belong to it.
    ReasoningPart {
        /// The choice.
        choice: u64,
        /// Identifier of the item.
        item_id: String,
        /// True if the part is a summary.
        is_summary: bool,
        /// Place of the part among the summaries or the texts of the item.
        index: u64,
    },
    /// A block of reasoning is complete. Its text was sent in pieces before, if it has one; it is here
    /// again because the seal is of the whole.
    ReasoningEnd {
        /// The choice.
        choice: u64,
        /// The block.
        reasoning: Reasoning,
    },
    /// A source of the text before it.
    Citation {
        /// The choice.
        choice: u64,
        /// The API in whose form it is.
        wire: Wire,
        /// The source.
        citation: Object,
    },
    /// The model begins to call a tool.
    Call {
        /// The choice.
        choice: u64,
        /// Place of the call among the calls of the choice, from 0.
        index: u64,
        /// Identifier of the call; empty if the provider sends none.
        id: String,
        /// Name of the tool.
        name: String,
        /// True if the tool is one of OpenAI's custom tools, whose input is text.
        is_custom: bool,
        /// Members that the reader does not know.
        extra: Object,
    },
    /// A piece of the arguments of a call, which are JSON text when they are complete, or of the text for
    /// a custom tool.
    Arguments {
        /// The choice.
        choice: u64,
        /// Place of the call.
        index: u64,
        /// The piece.
        text: String,
    },
    /// A member of the message that the reader does not know, as a piece. Chat's `logprobs`, a member of the
    /// choice, is one too; it comes before the text that it describes. Members of a call that come after its
    /// beginning are elements of `tool_calls` with the place of the call as `index`. A text as chat's `content`,
    /// and an empty one as its reasoning, tell only the form in which the server has its message.
    Member {
        /// The choice.
        choice: u64,
        /// The API that has it.
        wire: Wire,
        /// Its name.
        name: String,
        /// The piece.
        value: Value,
    },
    /// A member of a chunk of a chat completion, or of a choice in it, that the reader does not know, as it
    /// came. It follows the pieces of its chunk, or the end of its choice. Other APIs have none.
    ChunkMember {
        /// The choice; `None` for a member of the chunk itself.
        choice: Option<u64>,
        /// Its name.
        name: String,
        /// Its value.
        value: Value,
    },
    /// An output item of the Responses API is complete. Its pieces were sent before, unless only this API has
    /// items of its type.
    ItemEnd {
        /// The choice.
        choice: u64,
        /// Place of the item in the output.
        index: u64,
        /// The item as the provider sent it.
        item: Object,
    },
    /// Tier of service that was used, unless the beginning names it.
    ServiceTier(String),
    /// A choice is complete.
    End {
        /// The choice.
        choice: u64,
        /// Its reason.
        reason: FinishReason,
    },
    /// Tokens of the reply.
    Usage(Usage),
}

impl Delta {
    /// Returns the choice; `None` if the delta is about the whole reply.
    pub fn choice(&self) -> Option<u64> {
        match self {
            Self::Begin(_) | Self::ServiceTier(_) | Self::Usage(_) => None,
            Self::ChunkMember { choice, .. } => *choice,
            Self::Text { choice, .. }
            | Self::Refusal { choice, .. }
            | Self::Reasoning { choice, .. }
            | Self::ReasoningPart { choice, .. }
            | Self::ReasoningEnd { choice, .. }
            | Self::Citation { choice, .. }
            | Self::Call { choice, .. }
            | Self::Arguments { choice, .. }
            | Self::Member { choice, .. }
            | Self::ItemEnd { choice, .. }
            | Self::End { choice, .. } => Some(*choice),
        }
    }

    /// Returns an upper estimate of the memory that the delta takes, in bytes.
    pub fn bytes(&self) -> usize {
        let owned = match self {
            Self::Begin(Begin { id, model, extra, .. }) => {
                id.len() + model.len() + object_weight(extra)
            }
            Self::Text { text, .. }
            | Self::Refusal { text, .. }
            | Self::Reasoning { text, .. }
            | Self::Arguments { text, .. }
            | Self::ServiceTier(text) => text.len(),
            Self::ReasoningPart { item_id, .. } => item_id.len(),
            Self::ReasoningEnd { reasoning, .. } => reasoning.bytes(),
            Self::Citation { citation, .. } => object_weight(citation),
            Self::Call { id, name, extra, .. } => id.len() + name.len() + object_weight(extra),
            Self::Member { name, value, .. } | Self::ChunkMember { name, value, .. } => {
                name.len() + weight(value)
            }
            Self::ItemEnd { item, .. } => object_weight(item),
            Self::End { reason, .. } => reason.bytes(),
            Self::Usage(usage) => object_weight(&usage.extra),
        };
        size_of::<Self>() + owned
    }
}

/// Maximum bytes of an identifier or a name in a reply, or in a signature that comes back with it. Each chunk repeats
/// those of the reply and of its model, and the conversation those of calls. Those of providers have some 30 to 60
/// bytes, those of a proxy before one more.
pub const MAX_NAME_BYTES: usize = 256;

/// Largest number of choices of a request that OpenAI's API takes (`n`). A provider that takes a larger one gets the
/// request as it is.
pub const MAX_REQUESTED_CHOICES: u64 = 128;

/// Maximum number of choices of one reply. OpenAI's maximum is 128, and servers of other makers have none. Each keeps
/// a state until the reply ends, and a stream may name a new one in each chunk.
pub const MAX_CHOICES: usize = 1_024;

/// Maximum number of pieces of one response that are held at once: calls of a reply, or the parts, blocks, tokens or
/// deltas of a chunk. Each can become a chunk for the caller. A text has one more block for each passage that is cited.
pub(crate) const MAX_PIECES: usize = 8_192;

/// Maximum number of annotations of a text, such as citations, and of parts of an item that came whole. Each can become
/// a chunk. A text with a hundred sources is rare.
pub(crate) const MAX_ANNOTATIONS: usize = 1_024;

/// Maximum bytes of a block of thinking whose signature comes later, and of the input of a call whose name does: both are
/// kept until then. The longest output of a model, 128,000 tokens, is about a sixth of it.
pub(crate) const MAX_HELD_BYTES: usize = 4 << 20;

/// Maximum bytes of such texts of all choices of a reply, which are kept at the same time: four of the longest, or 128
/// KiB for each of the [most choices](MAX_REQUESTED_CHOICES) that are asked for.
pub(crate) const MAX_REPLY_HELD_BYTES: usize = 4 * MAX_HELD_BYTES;

/// Beginning of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Begin {
    /// Identifier of the reply.
    pub id: String,
    /// Model that writes it.
    pub model: String,
    /// Time, in seconds since 1970; 0 if the API does not tell.
    pub created: u64,
    /// Members of the whole reply that the reader does not know.
    pub extra: Object,
}

/// Reason why a reply was not read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplyError {
    /// The provider reported an error, as the response or as an event of a stream.
    #[error("the provider reported an error")]
    Reported {
        /// Its `error` object in the form of OpenAI's API: `message`, `type`, `code` and `param`.
        error: Object,
        /// Status of HTTP that fits the error; `None` if the provider's own status says it.
        status: Option<u16>,
    },
    /// The provider broke its protocol.
    #[error("{what}")]
    Invalid {
        /// Description of the violation, as a noun.
        what: &'static str,
    },
}

/// Returns the error of a provider that broke its protocol.
pub(crate) fn invalid(what: &'static str) -> ReplyError {
    ReplyError::Invalid { what }
}
