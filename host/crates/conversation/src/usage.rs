//! Tokens of a reply, and the reason of its end.

use super::Object;

/// Tokens of a reply. The counts of one reply are cumulative: a later one replaces an earlier one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Tokens of the whole request, those from a cache included.
    pub input: u64,
    /// Tokens of the request that were read from a cache.
    pub cache_reads: Option<u64>,
    /// Tokens of the request that were written to a cache.
    pub cache_writes: Option<u64>,
    /// Tokens of the reply, reasoning included.
    pub output: u64,
    /// Tokens of the reply that are reasoning.
    pub reasoning: Option<u64>,
    /// Members of chat's `usage` that have no field here.
    pub extra: Object,
    /// Chunk of a chat completion that had the usage; `None` in other APIs, and for a whole reply.
    pub chunk: Option<UsageChunk>,
}

/// Chunk of a chat completion with the usage. Some providers send one that was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageChunk {
    /// A chunk of its own, without choices.
    Own,
    /// A chunk with choices.
    OfChoices,
}

impl Usage {
    /// Returns the sum of input and output.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Reason why a reply ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// It is complete.
    Stop,
    /// It is complete: the model wrote this text, one of those that end it.
    StopSequence(String),
    /// A limit on tokens was reached.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The provider or the model refuses to continue.
    ContentFilter,
    /// Another reason, in the words of chat completions.
    Other(String),
}

impl FinishReason {
    /// Returns the memory that the reason owns, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::StopSequence(text) | Self::Other(text) => text.len(),
            Self::Stop | Self::Length | Self::ToolCalls | Self::ContentFilter => 0,
        }
    }
}
