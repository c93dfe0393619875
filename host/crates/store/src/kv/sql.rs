//! SQL statements of the stores. Each function runs within one transaction, or is one statement.

mod read;

use std::time::Duration;

pub(super) use self::read::{Range, get, get_many, keys, usage, usage_without_holders};
use super::{ENTRY_OVERHEAD_BYTES, Id, KvError, TransferError};
use crate::{
    columns::{first, milliseconds, signed, unsigned},
    sql::{Sql, SqlError, params},
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

/// Writes an entry, or returns the reason for a refusal. Expired entries are purged in both cases.
pub(super) fn set(
    sql: &Sql<'_>,
    id: &Id,
    change: &SetEntry,
) -> Result<Result<u64, KvError>, SqlError> {
    let store = find_or_make(sql, id)?;
    let key = change.key.as_bytes();
    purge(sql, store, key)?;
    let select = "SELECT version, cost FROM kv_entry WHERE store = ?1 AND key = ?2";
    let current = sql.find(select, params![store, key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let added = u32::from(current.is_none());
    let (version, cost): (i64, i64) = current.unwrap_or_default();
    if change.if_version.is_some_and(|expected| expected != unsigned(version)) {
        return Ok(Err(KvError::Conflict));
    }
    let grows_by = change.cost() - cost;
    if let Some(refusal) = change.refusal(sql, store, grows_by)? {
        return Ok(Err(refusal));
    }
    let next = "UPDATE kv_store SET version = version + 1, bytes = bytes + ?2, entries = entries + ?3 \
                WHERE id = ?1 RETURNING version";
    let version: i64 = sql.one(next, params![store, grows_by, added], first)?;
    change.write(sql, store, version)?;
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
        store: i64,
        grows_by: i64,
    ) -> Result<Option<KvError>, SqlError> {
        if grows_by <= 0 {
            return Ok(None);
        }
        if self.cost() > signed(self.max_bytes) {
            let bytes = unsigned(self.cost());
            return Ok(Some(KvError::LargerThanQuota { bytes, quota: self.max_bytes }));
        }
        let exceeds = used(sql, store, self)? + grows_by > signed(self.max_bytes);
        Ok(exceeds.then_some(KvError::QuotaExceeded))
    }

    fn write(&self, sql: &Sql<'_>, store: i64, version: i64) -> Result<(), SqlError> {
        let expires = self.ttl.map(|ttl| sql.now().saturating_add(milliseconds(ttl)));
        let upsert = "INSERT INTO kv_entry (store, key, version, cost, expires, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                      ON CONFLICT (store, key) DO UPDATE SET version = excluded.version, cost = excluded.cost, \
                      expires = excluded.expires, value = excluded.value";
        let key = self.key.as_bytes();
        sql.run(upsert, params![store, key, version, self.cost(), expires, &self.value]).map(drop)
    }
}

/// Returns the id of a store; `None` if it has no row yet.
fn find(sql: &Sql<'_>, id: &Id) -> Result<Option<i64>, SqlError> {
    let select = "SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder = ?3";
    sql.find(select, params![&id.plugin, &id.name, id.holder.as_ref()], first)
}

fn find_or_make(sql: &Sql<'_>, id: &Id) -> Result<i64, SqlError> {
    if let Some(store) = find(sql, id)? {
        return Ok(store);
    }
    let insert = "INSERT INTO kv_store (plugin, name, holder) VALUES (?1, ?2, ?3) RETURNING id";
    sql.one(insert, params![&id.plugin, &id.name, id.holder.as_ref()], first)
}

/// Removes the entry at `key` if it has expired, and up to [`PURGED_AT_ONCE`] other expired
/// entries.
fn purge(sql: &Sql<'_>, store: i64, key: &[u8]) -> Result<(), SqlError> {
    let some = "DELETE FROM kv_entry WHERE id IN \
                (SELECT id FROM kv_entry WHERE store = ?1 AND key = ?2 AND expires <= ?3) \
                OR id IN (SELECT id FROM kv_entry WHERE store = ?1 AND key <> ?2 AND expires <= ?3 LIMIT ?4) \
                RETURNING cost";
    let removed = sql.all(some, params![store, key, sql.now(), PURGED_AT_ONCE], first)?;
    shrink(sql, store, &removed)
}

/// Takes entries of these costs, which were removed, off the sums of a store.
fn shrink(sql: &Sql<'_>, store: i64, removed: &[i64]) -> Result<(), SqlError> {
    if removed.is_empty() {
        return Ok(());
    }
    let update = "UPDATE kv_store SET bytes = bytes - ?2, entries = entries - ?3 WHERE id = ?1";
    let bytes: i64 = removed.iter().sum();
    sql.run(update, params![store, bytes, signed(removed.len() as u64)]).map(drop)
}

/// Returns the bytes that a store holds. Expired entries do not count, purged or not. They are
/// summed up only if the change might exceed the quota otherwise.
fn used(sql: &Sql<'_>, store: i64, change: &SetEntry) -> Result<i64, SqlError> {
    let held: i64 = sql.one("SELECT bytes FROM kv_store WHERE id = ?1", params![store], first)?;
    if held.saturating_add(change.cost()) <= signed(change.max_bytes) {
        return Ok(held);
    }
    let expired = "SELECT CAST(coalesce(sum(cost), 0) AS BIGINT) FROM kv_entry \
                   WHERE store = ?1 AND expires <= ?2";
    let expired: i64 = sql.one(expired, params![store, sql.now()], first)?;
    Ok(held - expired)
}

/// Deletes an entry and returns whether there was one, or returns the reason for a refusal. Expired
/// entries are purged in both cases.
pub(super) fn delete(
    sql: &Sql<'_>,
    id: &Id,
    key: &str,
    if_version: Option<u64>,
) -> Result<Result<bool, KvError>, SqlError> {
    let key = key.as_bytes();
    let Some(store) = find(sql, id)? else {
        return Ok(if is_met(if_version, 0) { Ok(false) } else { Err(KvError::Conflict) });
    };
    purge(sql, store, key)?;
    let select = "SELECT version FROM kv_entry WHERE store = ?1 AND key = ?2";
    let version: Option<i64> = sql.find(select, params![store, key], first)?;
    if !is_met(if_version, version.unwrap_or_default()) {
        return Ok(Err(KvError::Conflict));
    }
    let delete = "DELETE FROM kv_entry WHERE store = ?1 AND key = ?2 RETURNING cost";
    let removed = sql.all(delete, params![store, key], first)?;
    shrink(sql, store, &removed)?;
    Ok(Ok(!removed.is_empty()))
}

fn is_met(if_version: Option<u64>, version: i64) -> bool {
    if_version.is_none_or(|expected| expected == unsigned(version))
}

/// Moves a store to another holder, or deletes it. Returns false if there is no such store.
pub(super) fn transfer(
    sql: &Sql<'_>,
    id: &Id,
    to: Option<&Id>,
) -> Result<Result<bool, TransferError>, SqlError> {
    let select = "SELECT id FROM kv_store \
                  WHERE plugin = ?1 AND name = ?2 AND holder IS NOT DISTINCT FROM ?3";
    let key = params![&id.plugin, &id.name, id.holder.as_ref()];
    let Some(store) = sql.find::<i64>(select, key, first)? else { return Ok(Ok(false)) };
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
