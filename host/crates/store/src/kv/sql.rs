//! SQL statements of the stores. Each function runs within one transaction, or is one statement.

mod read;
mod sweep;

use std::time::Duration;

pub(super) use self::{
    read::{Range, get, get_many, keys, usage, usage_without_holders},
    sweep::{purge_store, stores_with_expired},
};
use super::{ENTRY_OVERHEAD_BYTES, Id, KvError, TransferError};
use airlock_database::{
    columns::{milliseconds, signed, unsigned},
    sql::{Row, Sql, SqlResult, first, params},
};

/// Most expired entries that one change removes. This is more than it can add, so that their number
/// falls, and little enough that the change stays quick.
const PURGED_AT_ONCE: u32 = 100;

/// Arguments of `set`.
pub(super) struct SetEntry {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    pub(super) if_version: Option<u64>,
    pub(super) ttl: Option<Duration>,
    pub(super) max_bytes: u64,
}

/// A store, and the entry at a key, without those that have expired.
struct FoundStore {
    id: i64,
    /// Bytes that all entries count.
    bytes: i64,
    /// Version of the entry, and bytes that it counts; `None` if it is absent.
    entry: Option<(i64, i64)>,
}

/// Finds a store and the entry at a key; `None` if the store has no row yet. Purges expired entries, if
/// there are some.
fn find_entry(sql: &Sql<'_>, id: &Id, key: &[u8]) -> SqlResult<Option<FoundStore>> {
    let select = "SELECT s.id, s.bytes, e.version, e.cost, EXISTS \
                  (SELECT 1 FROM kv_entry x WHERE x.store = s.id AND x.expires <= ?5) \
                  FROM kv_store s LEFT JOIN kv_entry e ON e.store = s.id AND e.key = ?4 \
                  WHERE s.plugin = ?1 AND s.name = ?2 AND s.holder = ?3";
    let values = params![&id.plugin, &id.name, id.holder.as_ref(), key, sql.now()];
    let found = sql.find(select, values, found_store)?;
    match found {
        Some((store, true)) => {
            purge(sql, store.id, key)?;
            // What is left of the expired is not at this key.
            Ok(sql.find(select, values, found_store)?.map(|(store, _)| store))
        }
        found => Ok(found.map(|(store, _)| store)),
    }
}

/// Reads a store, and whether it has entries that have expired.
fn found_store(row: &Row<'_>) -> SqlResult<(FoundStore, bool)> {
    let version: Option<i64> = row.get(2)?;
    let cost: Option<i64> = row.get(3)?;
    let store = FoundStore { id: row.get(0)?, bytes: row.get(1)?, entry: version.zip(cost) };
    Ok((store, row.get(4)?))
}

/// Writes an entry, or returns the reason for a refusal. Expired entries are purged in both cases.
pub(super) fn set(sql: &Sql<'_>, id: &Id, change: &SetEntry) -> SqlResult<Result<u64, KvError>> {
    let store = match find_entry(sql, id, change.key.as_bytes())? {
        Some(store) => store,
        None => FoundStore { id: make(sql, id)?, bytes: 0, entry: None },
    };
    let (version, cost) = store.entry.unwrap_or_default();
    if change.if_version.is_some_and(|expected| expected != unsigned(version)) {
        return Ok(Err(KvError::Conflict));
    }
    let grows_by = change.cost() - cost;
    if let Some(refusal) = change.refusal(sql, &store, grows_by)? {
        return Ok(Err(refusal));
    }
    let next = "UPDATE kv_store SET version = version + 1, bytes = bytes + ?2, entries = entries + ?3 \
                WHERE id = ?1 RETURNING version";
    let added = u32::from(store.entry.is_none());
    let version: i64 = sql.one(next, params![store.id, grows_by, added], first)?;
    change.write(sql, store.id, version)?;
    Ok(Ok(unsigned(version)))
}

impl SetEntry {
    /// Returns the bytes that the entry will count.
    fn cost(&self) -> i64 {
        signed(ENTRY_OVERHEAD_BYTES + (self.key.len() + self.value.len()) as u64)
    }

    /// Returns the reason that a store does not take the entry, by which it would grow.
    fn refusal(
        &self,
        sql: &Sql<'_>,
        store: &FoundStore,
        grows_by: i64,
    ) -> SqlResult<Option<KvError>> {
        if grows_by <= 0 {
            return Ok(None);
        }
        if self.cost() > signed(self.max_bytes) {
            let bytes = unsigned(self.cost());
            return Ok(Some(KvError::LargerThanQuota { bytes, quota: self.max_bytes }));
        }
        let lacking = store.bytes.saturating_add(grows_by).saturating_sub(signed(self.max_bytes));
        // Expired entries do not count, purged or not.
        let exceeds = lacking > 0 && expired_bytes(sql, store.id, lacking)? < lacking;
        Ok(exceeds.then_some(KvError::QuotaExceeded))
    }

    fn write(&self, sql: &Sql<'_>, store: i64, version: i64) -> SqlResult<()> {
        let expires = self.ttl.map(|ttl| sql.now().saturating_add(milliseconds(ttl)));
        let upsert = "INSERT INTO kv_entry (store, key, version, cost, expires, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                      ON CONFLICT (store, key) DO UPDATE SET version = excluded.version, cost = excluded.cost, \
                      expires = excluded.expires, value = excluded.value";
        let key = self.key.as_bytes();
        sql.run(upsert, params![store, key, version, self.cost(), expires, &self.value]).map(drop)
    }
}

/// Returns the id of a store; `None` if it has no row yet.
fn find(sql: &Sql<'_>, id: &Id) -> SqlResult<Option<i64>> {
    let select = "SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder = ?3";
    sql.find(select, params![&id.plugin, &id.name, id.holder.as_ref()], first)
}

/// Returns the id of a store, also of one without a holder; `None` if it has no row.
fn find_any(sql: &Sql<'_>, id: &Id) -> SqlResult<Option<i64>> {
    let select = "SELECT id FROM kv_store \
                  WHERE plugin = ?1 AND name = ?2 AND holder IS NOT DISTINCT FROM ?3";
    sql.find(select, params![&id.plugin, &id.name, id.holder.as_ref()], first)
}

fn make(sql: &Sql<'_>, id: &Id) -> SqlResult<i64> {
    let insert = "INSERT INTO kv_store (plugin, name, holder) VALUES (?1, ?2, ?3) RETURNING id";
    sql.one(insert, params![&id.plugin, &id.name, id.holder.as_ref()], first)
}

/// Removes the entry at `key` if it has expired, and up to [`PURGED_AT_ONCE`] other expired
/// entries. Returns the number of all of them.
fn purge(sql: &Sql<'_>, store: i64, key: &[u8]) -> SqlResult<usize> {
    let some = "DELETE FROM kv_entry WHERE id IN \
                (SELECT id FROM kv_entry WHERE store = ?1 AND key = ?2 AND expires <= ?3) \
                OR id IN (SELECT id FROM kv_entry WHERE store = ?1 AND key <> ?2 AND expires <= ?3 LIMIT ?4) \
                RETURNING cost";
    let removed = sql.all(some, params![store, key, sql.now(), PURGED_AT_ONCE], first)?;
    shrink(sql, store, &removed)?;
    Ok(removed.len())
}

/// Takes entries of these costs, which were removed, off the sums of a store.
fn shrink(sql: &Sql<'_>, store: i64, removed: &[i64]) -> SqlResult<()> {
    if removed.is_empty() {
        return Ok(());
    }
    let update = "UPDATE kv_store SET bytes = bytes - ?2, entries = entries - ?3 WHERE id = ?1";
    let bytes: i64 = removed.iter().sum();
    sql.run(update, params![store, bytes, signed(removed.len() as u64)]).map(drop)
}

/// Returns the bytes that the expired entries of a store count. Of a store with millions of them, only as
/// many are summed up as surely count `wanted` bytes: the sum delays the changes of all stores.
pub(super) fn expired_bytes(sql: &Sql<'_>, store: i64, wanted: i64) -> SqlResult<i64> {
    let sum = "SELECT CAST(coalesce(sum(cost), 0) AS BIGINT) FROM \
               (SELECT cost FROM kv_entry WHERE store = ?1 AND expires <= ?2 LIMIT ?3) AS expired";
    let most = wanted / signed(ENTRY_OVERHEAD_BYTES) + 1;
    sql.one(sum, params![store, sql.now(), most], first)
}

/// Deletes an entry and returns whether there was one, or returns the reason for a refusal. Expired
/// entries are purged in both cases.
pub(super) fn delete(
    sql: &Sql<'_>,
    id: &Id,
    key: &str,
    if_version: Option<u64>,
) -> SqlResult<Result<bool, KvError>> {
    let key = key.as_bytes();
    let Some(store) = find_entry(sql, id, key)? else {
        return Ok(if is_met(if_version, 0) { Ok(false) } else { Err(KvError::Conflict) });
    };
    let (version, cost) = store.entry.unwrap_or_default();
    if !is_met(if_version, version) {
        return Ok(Err(KvError::Conflict));
    }
    if store.entry.is_none() {
        return Ok(Ok(false));
    }
    let delete = "DELETE FROM kv_entry WHERE store = ?1 AND key = ?2";
    sql.run(delete, params![store.id, key])?;
    shrink(sql, store.id, &[cost])?;
    Ok(Ok(true))
}

fn is_met(if_version: Option<u64>, version: i64) -> bool {
    if_version.is_none_or(|expected| expected == unsigned(version))
}

/// Moves a store to another holder, or deletes it. Returns false if there is no such store.
pub(super) fn transfer(
    sql: &Sql<'_>,
    id: &Id,
    to: Option<&Id>,
) -> SqlResult<Result<bool, TransferError>> {
    let Some(store) = find_any(sql, id)? else { return Ok(Ok(false)) };
    let Some(to) = to else {
        sql.run("DELETE FROM kv_store WHERE id = ?1", params![store])?;
        return Ok(Ok(true));
    };
    if let Some(taken) = find(sql, to)? {
        let select = "SELECT entries FROM kv_store WHERE id = ?1";
        let entries = unsigned(sql.one(select, params![taken], first)?);
        if entries > 0 {
            return Ok(Err(TransferError::Occupied { entries }));
        }
        sql.run("DELETE FROM kv_store WHERE id = ?1", params![taken])?;
    }
    let update = "UPDATE kv_store SET holder = ?2 WHERE id = ?1";
    sql.run(update, params![store, to.holder.as_ref()])?;
    Ok(Ok(true))
}
