//! Responses, the bounds on them, and the reasons that one is not stored or read.

use std::time::Duration;

use airlock_database::error::Unavailable;

/// Bytes that are counted for a response besides its texts: roughly its overhead on disk.
pub const OVERHEAD_BYTES: u64 = 256;

/// Bounds on all stored responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseBounds {
    /// Time from the last response of a conversation until it expires.
    pub expire_after: Duration,
    /// Maximum bytes of one owner.
    pub owner_bytes: u64,
    /// Maximum bytes of all owners together.
    pub total_bytes: u64,
}

/// A response to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResponse {
    /// Identifier. It must be unique among all owners.
    pub id: String,
    /// Identifier of the response that this one continues; `None` for a new conversation.
    pub previous: Option<String>,
    /// Texts of the response.
    pub texts: Texts,
}

/// Texts of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// Items that it responds to, without those of earlier responses.
    pub input: String,
    /// Items that it consists of.
    pub output: String,
    /// The other members of the response.
    pub body: String,
}

/// Items of one turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTurn {
    /// Items that the response responds to.
    pub input: String,
    /// Items that it consists of.
    pub output: String,
}

/// List of items of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResponseList {
    /// Items that it responds to.
    Input,
    /// Items that it consists of.
    Output,
}

/// Reason that a response was not stored.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The response that it continues was deleted, evicted or has expired.
    #[error("the previous response is no longer stored")]
    PreviousGone,
    /// The conversation would be larger than the bounds permit for one owner, so that no eviction
    /// makes room for it.
    #[error(
        "the conversation would take {bytes} bytes, and one caller may store at most {limit} bytes"
    )]
    TooLarge {
        /// Bytes of the conversation with the response.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The database cannot be used right now.
    #[error("the store cannot be reached right now")]
    Unavailable(#[from] Unavailable),
}

/// Reason that a response was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<E> {
    /// There is no such response: it never existed, belongs to another owner, was deleted or
    /// evicted, or has expired.
    #[error("there is no response {id:?}")]
    Unknown {
        /// Its identifier.
        id: String,
    },
    /// `admit` failed, with this reason.
    #[error("the responses are too large")]
    Refused(E),
    /// The database cannot be used right now.
    #[error("the store cannot be reached right now")]
    Unavailable(#[from] Unavailable),
}
