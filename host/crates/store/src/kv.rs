//! The plugins' stores of keys and values: `airlock:host/kv` of the plugin contract, without the
//! guest.
//!
//! A store is one plugin's, by its name: two plugins may have stores of the same name and see
//! nothing of each other. Who may open which store, and how much it may hold, is decided elsewhere
//! and handed in.

mod sql;

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use super::{Database, Unavailable};

/// The longest key, in bytes. The shortest has one.
pub const MAX_KEY_BYTES: usize = 512;
/// The largest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 20;
/// The most keys on a page.
pub const MAX_PAGE_KEYS: u32 = 1_000;
/// What an entry counts for beside its key and its value, roughly what it takes on the disk: a
/// million empty values are not free.
pub const ENTRY_OVERHEAD_BYTES: u64 = 64;

/// Why a store did not do what it was asked for: the part of the contract's `kv-error` that a
/// granted store can answer.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// The store would grow, and beyond its quota.
    #[error("the store would grow beyond its quota")]
    QuotaExceeded,
    /// The key or the value is out of bounds.
    #[error("a key has 1 to {MAX_KEY_BYTES} bytes, a value at most {MAX_VALUE_BYTES}")]
    TooLarge,
    /// The entry is not at the expected version.
    #[error("the entry is not at the expected version")]
    Conflict,
    /// The database cannot be used right now.
    #[error("the store cannot be reached right now")]
    Unavailable(#[from] Unavailable),
}

/// A value as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// Its version, from 1. It grows with every change of any entry of the store and never comes
    /// again.
    pub version: u64,
}

/// Some of a store's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Sorted by their bytes. There may be fewer than asked for, even none, before the last page.
    pub keys: Vec<String>,
    /// Where the next page begins; none on the last.
    pub next: Option<String>,
}

/// What a store holds right now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Whose it is.
    pub plugin: String,
    /// Its name.
    pub name: String,
    /// Bytes of its keys and values, with [`ENTRY_OVERHEAD_BYTES`] for each entry.
    pub bytes: u64,
    /// Its entries.
    pub entries: u64,
}

/// One plugin's store of one name, with its quota. Cheap to clone, and it takes no room before
/// something is written.
#[derive(Debug, Clone)]
pub struct Store {
    database: Database,
    id: Arc<Id>,
    max_bytes: u64,
}

#[derive(Debug)]
struct Id {
    plugin: String,
    name: String,
}

impl Database {
    /// The store `name` of `plugin`, which may hold `max_bytes`: the bytes of its keys and values,
    /// and [`ENTRY_OVERHEAD_BYTES`] for each entry.
    pub fn kv(&self, plugin: &str, name: &str, max_bytes: u64) -> Store {
        let id = Id { plugin: plugin.to_owned(), name: name.to_owned() };
        Store { database: self.clone(), id: Arc::new(id), max_bytes }
    }

    /// What each store holds, by plugin and name. What has expired does not count.
    pub async fn kv_usage(&self) -> Result<Vec<Usage>, Unavailable> {
        let now = self.now_ms();
        self.read(move |connection| sql::usage(connection, now)).await
    }
}

impl Store {
    /// Reads an entry; none where it is absent or has expired.
    pub async fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        check_key(key)?;
        let (id, key, now) = (self.id.clone(), key.to_owned(), self.database.now_ms());
        Ok(self.database.read(move |connection| sql::get(connection, &id, &key, now)).await?)
    }

    /// Writes an entry and answers its new version.
    ///
    /// `expect`: none writes in any case, `Some(0)` only where there is no entry, `Some(v)` only
    /// where it is at version `v`. With `ttl` the entry is gone after so much time, by the wall
    /// clock and to the millisecond; without, an entry that was to expire no longer does. A store
    /// that is over its quota, since that was lowered, still takes what does not grow it.
    ///
    /// An error changes nothing. When the future is dropped, the entry has been written or not, and
    /// never in part.
    pub async fn set(
        &self,
        key: &str,
        value: Vec<u8>,
        expect: Option<u64>,
        ttl: Option<Duration>,
    ) -> Result<u64, KvError> {
        check_key(key)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(KvError::TooLarge);
        }
        let now = self.database.now_ms();
        let expires =
            ttl.map(|ttl| now.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)));
        let change = sql::Change {
            key: key.to_owned(),
            value,
            expect,
            now,
            expires,
            max_bytes: self.max_bytes,
        };
        let id = self.id.clone();
        self.database.write(move |transaction| sql::set(transaction, &id, &change)).await?
    }

    /// Deletes an entry; answers whether there was one. When the future is dropped, it has been
    /// deleted or not.
    pub async fn delete(&self, key: &str) -> Result<bool, KvError> {
        check_key(key)?;
        let (id, key, now) = (self.id.clone(), key.to_owned(), self.database.now_ms());
        Ok(self.database.write(move |transaction| sql::delete(transaction, &id, &key, now)).await?)
    }

    /// Lists keys that begin with `prefix` and come after `cursor`, at most `limit` of them, which
    /// is taken as the nearest of 1 to [`MAX_PAGE_KEYS`].
    pub async fn keys(
        &self,
        prefix: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page, KvError> {
        if prefix.len() > MAX_KEY_BYTES || cursor.is_some_and(|cursor| cursor.len() > MAX_KEY_BYTES)
        {
            return Err(KvError::TooLarge);
        }
        let range = sql::Range::new(prefix, cursor);
        let (id, now, limit) =
            (self.id.clone(), self.database.now_ms(), limit.clamp(1, MAX_PAGE_KEYS));
        Ok(self
            .database
            .read(move |connection| sql::keys(connection, &id, &range, now, limit as usize))
            .await?)
    }
}

fn check_key(key: &str) -> Result<(), KvError> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) { Ok(()) } else { Err(KvError::TooLarge) }
}

#[cfg(test)]
mod tests;
