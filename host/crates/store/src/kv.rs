//! Key-value stores of plugins: `airlock:host/kv` of the plugin contract, without the guest.
//!
//! A store belongs to one plugin, has a name, and has a holder: one tenant, or all tenants if the
//! operator shares it. Two plugins may have stores of the same name, and neither sees the other's
//! entries; the same holds for two tenants of one plugin. The caller of this module decides which
//! plugin may open which store for whom, and how much the store may hold.

mod sql;
mod sweep;

use std::{panic::resume_unwind, path::Path, sync::Arc, thread, time::Duration};

use crate::database::Database;
use airlock_database::{
    error::{OpenError, Unavailable},
    location::Location,
    open,
    owner::OwnerId,
    settings::Settings,
    sql::Subject,
};

/// First version of the schema in which a store has a holder.
const HOLDERS_SINCE: i32 = 8;

/// Longest key, in bytes. The shortest has one byte. Part of the plugin contract (`kv` in
/// `host.wit`), as are the three limits below.
pub const MAX_KEY_BYTES: usize = 512;
/// Largest value, in bytes: a plugin chooses it, and each of its instances may wait with one for its
/// change.
pub const MAX_VALUE_BYTES: usize = 1 << 20;
/// Most keys on a page, which is copied to the guest at once: 512 KB.
pub const MAX_PAGE_KEYS: u32 = 1_000;
/// Most keys of one [`PluginStore::get_many`]. Each is a look-up in the same transaction, which
/// delays the reads of others.
pub const MAX_KEYS: usize = 1_000;
/// Bytes that an entry counts besides its key and its value, roughly its overhead on disk. So a
/// million empty values are not free.
pub const ENTRY_OVERHEAD_BYTES: u64 = 64;

/// Error of an operation on a store: the part of the contract's `kv-error` that a granted store can
/// return.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// The change would grow the store beyond its quota.
    #[error("the store would grow beyond its quota")]
    QuotaExceeded,
    /// The entry alone is larger than the quota, so that no deletion makes room for it.
    #[error("the entry alone counts {bytes} bytes, more than the store's quota of {quota} bytes")]
    LargerThanQuota {
        /// Bytes that the entry counts.
        bytes: u64,
        /// The quota.
        quota: u64,
    },
    /// A key, a value, the number of keys or the values together are out of bounds.
    #[error(
        "a key has 1 to {MAX_KEY_BYTES} bytes, a value at most {MAX_VALUE_BYTES}; one read has at most {MAX_KEYS} keys, and values of limited size"
    )]
    TooLarge,
    /// The entry is not at the expected version.
    #[error("the entry is not at the expected version")]
    Conflict,
    /// The database cannot be used right now.
    #[error("the store cannot be reached right now")]
    Unavailable(#[from] Unavailable),
}

/// An entry as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// Its version, from 1. Every write of any entry of the store takes a greater version than the
    /// one before, and no version is used again.
    pub version: u64,
}

/// One page of a store's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys, sorted by their bytes. A page before the last may have fewer keys than the limit, even
    /// none.
    pub keys: Vec<String>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// Those whose entries a store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// One tenant. No other reads or writes them.
    Tenant(OwnerId),
    /// All tenants: each reads and writes the entries of all others.
    Everyone,
    /// No holder: the entries are from a version in which all tenants shared every store, and the
    /// operator has not decided yet whose they are.
    Unassigned,
}

/// The tenant that opens a store, and the store's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opener {
    /// The tenant opens its own store.
    Own(OwnerId),
    /// The tenant opens the store of all tenants.
    Shared(OwnerId),
}

/// Reason that a store did not get another holder.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The new holder has entries in its store of this name already.
    #[error("its new holder already has a store of this name, with {entries} entries")]
    Occupied {
        /// Number of them.
        entries: u64,
    },
    /// The database cannot be used right now.
    #[error("the store cannot be reached right now")]
    Unavailable(#[from] Unavailable),
}

/// Usage of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUsage {
    /// Plugin that owns the store.
    pub plugin: String,
    /// Name of the store.
    pub name: String,
    /// Those whose entries it has.
    pub holder: Holder,
    /// Bytes of its keys and values, with [`ENTRY_OVERHEAD_BYTES`] for each entry.
    pub bytes: u64,
    /// Number of its entries.
    pub entries: u64,
}

/// One store of a plugin, with its quota. Cheap to clone. It takes no space before an entry is
/// written.
#[derive(Debug, Clone)]
pub struct PluginStore {
    database: Database,
    id: Arc<Id>,
    max_bytes: u64,
}

#[derive(Debug)]
struct Id {
    plugin: String,
    name: String,
    /// The holder, as the database has it: see [`Holder::column`].
    holder: Option<Vec<u8>>,
}

impl Id {
    fn new(plugin: &str, name: &str, holder: Holder) -> Self {
        Self { plugin: plugin.to_owned(), name: name.to_owned(), holder: holder.column() }
    }

    fn subject(&self) -> Subject {
        Subject::kv(&self.plugin, &self.name, self.holder.as_deref())
    }
}

impl Holder {
    /// Returns the value of the column: `NULL` for no holder, an empty blob for all tenants.
    fn column(self) -> Option<Vec<u8>> {
        match self {
            Self::Tenant(scope) => Some(scope.to_vec()),
            Self::Everyone => Some(Vec::new()),
            Self::Unassigned => None,
        }
    }

    /// Reads a column that is not `NULL`.
    fn from_column(column: &[u8]) -> Self {
        column.try_into().map_or(Self::Everyone, Self::Tenant)
    }
}

impl Database {
    /// Returns the store `name` of `plugin` for one tenant. The store may hold `max_bytes`: the bytes
    /// of its keys and values, and [`ENTRY_OVERHEAD_BYTES`] for each entry. The operations wait for
    /// those of the same tenant, also if the store is shared.
    pub fn kv(&self, plugin: &str, name: &str, opener: Opener, max_bytes: u64) -> PluginStore {
        let (holder, tenant) = match opener {
            Opener::Own(tenant) => (Holder::Tenant(tenant), tenant),
            Opener::Shared(tenant) => (Holder::Everyone, tenant),
        };
        let id = Id::new(plugin, name, holder);
        PluginStore { database: self.of_party(tenant), id: Arc::new(id), max_bytes }
    }

    /// Returns the usage of each store, sorted by plugin, name and holder. Expired entries do not
    /// count.
    pub async fn kv_usage(&self) -> Result<Vec<StoreUsage>, Unavailable> {
        self.read(sql::usage).await
    }

    /// Gives the store `name` of `plugin` another holder; deletes it if `to` is
    /// [`Holder::Unassigned`]. Returns false if `from` has no such store. Fails if the new holder has
    /// entries in one already.
    pub async fn transfer_kv(
        &self,
        plugin: &str,
        name: &str,
        from: Holder,
        to: Holder,
    ) -> Result<bool, TransferError> {
        let id = Id::new(plugin, name, from);
        let to = (to != Holder::Unassigned).then(|| Id::new(plugin, name, to));
        let mut subjects = vec![id.subject()];
        subjects.extend(to.as_ref().map(Id::subject));
        self.attempt(subjects, move |sql| sql::transfer(sql, &id, to.as_ref())).await?
    }
}

/// Returns the usage of each store in a database, which is not changed, not even to migrate it;
/// nothing if there is no such file, or if the database has no tables yet. Blocks.
pub fn usage(settings: &Settings) -> Result<Vec<StoreUsage>, OpenError> {
    match &settings.location {
        Location::File(path) => usage_at(path),
        // On a thread of its own: a connection has a runtime, and the caller's thread may run another one.
        Location::Server(url) => thread::scope(|scope| {
            let reading = scope.spawn(|| open::read_server(url, settings, sql::usage));
            reading.join().unwrap_or_else(|panic| resume_unwind(panic))
        }),
    }
}

/// Returns the usage of each store in the database at `path`, which is not changed, not even to
/// migrate it; nothing if there is no such file. Blocks.
fn usage_at(path: &Path) -> Result<Vec<StoreUsage>, OpenError> {
    open::read_file(path, |sql, version| match version {
        0 => Ok(Vec::new()),
        1..HOLDERS_SINCE => sql::usage_without_holders(sql),
        _ => sql::usage(sql),
    })
}

impl PluginStore {
    /// Reads an entry; `None` if it is absent or has expired.
    pub async fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        check_key(key)?;
        let id = self.id.clone();
        let key = key.to_owned();
        Ok(self.database.read(move |sql| sql::get(sql, &id, &key)).await?)
    }

    /// Reads several entries as they are at one moment, in the order of `keys`; `None` for each that
    /// is absent or has expired. Fails if the keys are more than [`MAX_KEYS`], or if the values
    /// together have more than `max_bytes`: then read fewer at once.
    pub async fn get_many(
        &self,
        keys: Vec<String>,
        max_bytes: usize,
    ) -> Result<Vec<Option<Entry>>, KvError> {
        if keys.len() > MAX_KEYS {
            return Err(KvError::TooLarge);
        }
        keys.iter().try_for_each(|key| check_key(key))?;
        let id = self.id.clone();
        self.database.read_snapshot(move |sql| sql::get_many(sql, &id, &keys, max_bytes)).await?
    }

    /// Writes an entry and returns its new version.
    ///
    /// `if_version` is a condition: `None` writes in any case, `Some(0)` only if there is no entry,
    /// `Some(v)` only if the entry is at version `v`. With `ttl`, the entry expires after that
    /// time, by the wall clock and to the millisecond; what has expired is removed by later changes of
    /// the store, or by [`Database::remove_expired_kv`]. Without `ttl`, the entry does not expire,
    /// even if it had a `ttl` before. A store beyond its quota, because the quota was lowered,
    /// still accepts changes that do not grow it.
    ///
    /// An error changes no entry that has not expired. If the future is dropped, the entry is
    /// written completely or not at all.
    pub async fn set(
        &self,
        key: &str,
        value: Vec<u8>,
        if_version: Option<u64>,
        ttl: Option<Duration>,
    ) -> Result<u64, KvError> {
        check_key(key)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(KvError::TooLarge);
        }
        let key = key.to_owned();
        let max_bytes = self.max_bytes;
        let change = sql::SetEntry { key, value, if_version, ttl, max_bytes };
        let id = self.id.clone();
        self.database.write(id.subject(), move |sql| sql::set(sql, &id, &change)).await?
    }

    /// Deletes an entry. Returns whether there was one. `if_version` is a condition as in
    /// [`Self::set`]: with `Some(0)`, it fails if there is an entry, and returns false otherwise. If
    /// the future is dropped, the entry is deleted or not.
    pub async fn delete(&self, key: &str, if_version: Option<u64>) -> Result<bool, KvError> {
        check_key(key)?;
        let id = self.id.clone();
        let key = key.to_owned();
        self.database
            .write(id.subject(), move |sql| sql::delete(sql, &id, &key, if_version))
            .await?
    }

    /// Lists keys that begin with `prefix` and come after `cursor`, at most `limit` of them. A
    /// `limit` outside 1 to [`MAX_PAGE_KEYS`] is clamped.
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
        let id = self.id.clone();
        let limit = limit.clamp(1, MAX_PAGE_KEYS);
        let listing = self.database.read(move |sql| sql::keys(sql, &id, range, limit));
        Ok(listing.await?)
    }
}

fn check_key(key: &str) -> Result<(), KvError> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) { Ok(()) } else { Err(KvError::TooLarge) }
}

#[cfg(test)]
mod tests;
