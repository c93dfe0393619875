//! Texts that are found again by what a client sends back: the calls of the gateway's tools, with
//! their results, beside the calls that the client answers.
//!
//! A record belongs to one owner; for any other owner it does not exist. It has a few *anchors*:
//! digests, of which a later request has one. The text of a record is removed when it expires, or
//! when its owner stores too much. The record itself stays as long again, so that a request learns
//! that there was a text. This module does not know what the texts and the digests are.

mod record;
mod sql;

use std::sync::Arc;

pub use self::record::{
    Anchor, MAX_ANCHORS, NewRecord, OVERHEAD_BYTES, RecallBounds, StoredRecord,
};
use self::sql::RecordProgress;
use crate::database::Database;
use airlock_database::{error::Unavailable, owner::OwnerId, sql::Subject};

/// The records of one owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recall {
    database: Database,
    scope: OwnerId,
    bounds: RecallBounds,
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
