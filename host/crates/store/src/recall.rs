//! Texts that are found again by what a client sends back: the calls of the gateway's tools, with
//! their results, beside the calls that the client answers.
//!
//! A record belongs to one owner; for any other owner it does not exist. It has a few *anchors*:
//! digests, of which a later request has one. The text of a record is removed when it expires, or
//! when its owner stores too much. The record itself stays as long again, so that a request learns
//! that there was a text. This module does not know what the texts and the digests are.

mod sql;

use std::{sync::Arc, time::Duration};

use self::sql::RecordProgress;
use crate::{database::Database, error::Unavailable, owner::OwnerId, sql::Subject};

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

/// The records of one owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recall {
    database: Database,
    scope: OwnerId,
    bounds: RecallBounds,
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

impl Database {
    /// Returns the records of an owner. Nothing is read or written yet.
    pub fn recall(&self, scope: OwnerId, bounds: RecallBounds) -> Recall {
        Recall { database: self.of_party(scope), scope, bounds }
    }
}

impl Recall {
    /// Stores a record.
    ///
    /// To make room, the oldest records of this owner are removed beyond
    /// [`owner_records`](RecallBounds::owner_records), and its oldest texts beyond its bytes; if
    /// all owners together exceed their bound, the oldest texts of the owner that stores most. If
    /// the future is dropped, the record is stored completely or not at all. Fails if the database
    /// cannot be used.
    pub async fn put(&self, record: NewRecord) -> Result<(), Unavailable> {
        let put = Arc::new(sql::Put::new(record, self.bounds));
        let scope = self.scope;
        loop {
            let put = put.clone();
            let subject = Subject::recall(&scope);
            let change = self.database.write(subject, move |sql| sql::put(sql, &scope, &put));
            match change.await? {
                RecordProgress::Stored => return Ok(()),
                RecordProgress::MadeRoom => {}
            }
        }
    }

    /// Returns the records that have one of these anchors, each once, in the order of the anchors.
    /// `admit` is called with the size of each text in bytes before it is copied, on a blocking
    /// thread. Fails if `admit` fails, or if the database cannot be used.
    pub async fn find<E: Send + 'static>(
        &self,
        anchors: Vec<Anchor>,
        admit: impl FnMut(u64) -> Result<(), E> + Send + 'static,
    ) -> Result<Result<Vec<StoredRecord>, E>, Unavailable> {
        let scope = self.scope;
        self.database.read_snapshot(move |sql| sql::find(sql, &scope, &anchors, admit)).await
    }
}

#[cfg(test)]
mod tests;
