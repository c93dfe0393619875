//! Parts of a response of the Responses API.

use super::Object;
use airlock_json::weight::object_weight;

/// Part of a response of the Responses API that a chunk of a chat completion carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The chunk's text joins texts that the Responses API keeps apart.
    Joint,
    /// A piece of reasoning.
    Reasoning {
        /// Identifier of the reasoning item.
        item_id: String,
        /// Number of the summary that it is a piece of; `None` for the model's own reasoning.
        summary: Option<u64>,
        /// The piece.
        text: String,
    },
    /// An output item is complete.
    Item {
        /// Its place in the output.
        index: u64,
        /// The item as the provider sent it.
        item: Object,
    },
}

impl Part {
    /// Returns an upper estimate of the memory that the part owns, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Joint => 0,
            Self::Reasoning { item_id, text, .. } => item_id.len() + text.len(),
            Self::Item { item, .. } => object_weight(item),
        }
    }
}
