//! Stored responses of the Responses API, and the conversations that they form.
//!
//! A response belongs to one owner; for any other owner it does not exist. A response and all that
//! continue it are one conversation. It expires as a whole, because a later turn needs the earlier
//! ones. The texts are JSON, which this module does not parse.

mod response;
mod sql;

use std::sync::Arc;

pub use self::response::{
    NewResponse, OVERHEAD_BYTES, PutError, ReadError, ResponseBounds, ResponseList, StoredTurn,
    Texts,
};
use self::sql::ResponseProgress;
use crate::database::Database;
use airlock_database::{error::Unavailable, owner::OwnerId, sql::Subject};

/// The responses of one owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Responses {
    database: Database,
    scope: OwnerId,
    bounds: ResponseBounds,
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
