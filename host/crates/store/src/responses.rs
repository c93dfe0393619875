//! Stored responses of the Responses API, and the conversations that they form.
//!
//! A response belongs to one owner; for any other owner it does not exist. A response and all that
//! continue it are one conversation. It expires as a whole, because a later turn needs the earlier
//! ones. The texts are JSON, which this module does not parse.

mod sql;

use std::{sync::Arc, time::Duration};

use self::sql::ResponseProgress;
use crate::{database::Database, error::Unavailable, owner::OwnerId, sql::Subject};

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

/// The responses of one owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Responses {
    database: Database,
    scope: OwnerId,
    bounds: ResponseBounds,
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

impl Database {
    /// Returns the responses of an owner. Nothing is read or written yet.
    pub fn responses(&self, scope: OwnerId, bounds: ResponseBounds) -> Responses {
        Responses { database: self.of_party(scope), scope, bounds }
    }
}

impl Responses {
    /// Stores a response and extends the time until its conversation expires.
    ///
    /// To make room for it, the conversations of this owner that were not continued for longest are
    /// evicted; if all owners together exceed their bound, those of the owner that stores most. Many
    /// are evicted in several changes, between which other operations run. If the future is dropped,
    /// the response is stored completely or not at all.
    ///
    /// Fails if the response that it continues is gone, if its conversation alone exceeds a bound,
    /// or if the database cannot be used.
    pub async fn put(&self, response: NewResponse) -> Result<(), PutError> {
        let put = Arc::new(sql::Put { response, bounds: self.bounds });
        let scope = self.scope;
        loop {
            let put = put.clone();
            let subject = Subject::responses(&scope);
            let change = self.database.write(subject, move |sql| sql::put(sql, &scope, &put));
            match change.await?? {
                ResponseProgress::Stored => return Ok(()),
                ResponseProgress::MadeRoom => {}
            }
        }
    }

    /// Reads a response. `admit` is called with its size in bytes before it is copied, on a
    /// blocking thread. Fails if the owner has no such response, if `admit` fails, or if the
    /// database cannot be used.
    pub async fn get<E: Send + 'static>(
        &self,
        id: &str,
        admit: impl FnOnce(u64) -> Result<(), E> + Send + 'static,
    ) -> Result<Texts, ReadError<E>> {
        let scope = self.scope;
        let id = id.to_owned();
        self.database.read(move |sql| sql::get(sql, &scope, &id, admit)).await?
    }

    /// Reads a response and all that it continues, and returns the oldest first. `admit` is called
    /// with the size of each in bytes, the newest first, before it is copied, on a blocking thread.
    /// Fails if one of the responses is gone, if `admit` fails, or if the database cannot be used.
    pub async fn conversation<E: Send + 'static>(
        &self,
        id: &str,
        admit: impl FnMut(u64) -> Result<(), E> + Send + 'static,
    ) -> Result<Vec<StoredTurn>, ReadError<E>> {
        let scope = self.scope;
        let id = id.to_owned();
        self.database.read_snapshot(move |sql| sql::conversation(sql, &scope, &id, admit)).await?
    }

    /// Reads lists of items of responses; `None` in the place of a response that the owner does not
    /// have. `admit` is called with the size of each list in bytes before it is copied, on a blocking
    /// thread. Fails if `admit` fails, or if the database cannot be used.
    pub async fn lists<E: Send + 'static>(
        &self,
        wanted: Vec<(String, ResponseList)>,
        admit: impl FnMut(u64) -> Result<(), E> + Send + 'static,
    ) -> Result<Vec<Option<String>>, ReadError<E>> {
        let scope = self.scope;
        self.database.read_snapshot(move |sql| sql::lists(sql, &scope, &wanted, admit)).await?
    }

    /// Deletes a response. Returns whether there was one. Responses that continue it can be read,
    /// but no longer continued. If the future is dropped, the response may or may not be deleted.
    /// Fails if the database cannot be used.
    pub async fn delete(&self, id: &str) -> Result<bool, Unavailable> {
        let scope = self.scope;
        let id = id.to_owned();
        let subject = Subject::responses(&scope);
        self.database.write(subject, move |sql| sql::delete(sql, &scope, &id)).await
    }
}

#[cfg(test)]
mod tests;
