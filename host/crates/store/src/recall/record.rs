//! Records, and the bounds on them.

use std::time::Duration;

/// Bytes that are counted for a record besides its text: roughly its overhead on disk.
pub const OVERHEAD_BYTES: u64 = 256;
/// Maximum number of anchors of one record, and so of rows that it takes. Further ones are ignored:
/// a client sends all of a record's calls back, and one of them finds it.
pub const MAX_ANCHORS: usize = 16;

/// Digest of what a client sends back.
pub type Anchor = [u8; 32];

/// Bounds on all records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecallBounds {
    /// Time until the text of a record expires.
    pub expire_after: Duration,
    /// Maximum number of records of one owner.
    pub owner_records: u32,
    /// Maximum bytes of one owner.
    pub owner_bytes: u64,
    /// Maximum bytes of all owners together.
    pub total_bytes: u64,
}

/// A record to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// Digests of the contents that a client sends back. An anchor of an earlier record now belongs
    /// to this one.
    pub anchors: Vec<Anchor>,
    /// The text; `None` if it may not be stored. A text that exceeds the bounds of one owner is not
    /// stored.
    pub text: Option<String>,
}

/// A record that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Position of the first anchor that belongs to it.
    pub position: usize,
    /// The text; `None` if it has expired, was evicted or was not stored.
    pub text: Option<String>,
}
