//! SQL statements of the stores. Each function runs within one transaction, or is one statement.

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::{ENTRY_OVERHEAD_BYTES, Entry, Holder, Id, KvError, Page, TransferError, Usage};
use crate::columns::{signed, unsigned};

/// Most expired entries that one change removes. This is more than it can add, so that their number
/// falls, and little enough that the change stays quick.
const PURGED_AT_ONCE: u32 = 100;
/// Most entries that one page examines. So a reader does not scan a whole store in which every
/// entry has expired.
const LOOKED_AT: usize = 10_000;

/// Arguments of `set`.
pub(super) struct SetEntry {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    pub(super) if_version: Option<u64>,
    pub(super) now: i64,
    pub(super) expires: Option<i64>,
    pub(super) max_bytes: u64,
}

/// Keys from the first bound, inclusive, to the second, exclusive.
pub(super) struct Range {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Range {
    /// Returns the range of keys that begin with `prefix` and come after `cursor`.
    pub(super) fn new(prefix: &str, cursor: Option<&str>) -> Self {
        // No key sorts between a key and that key followed by a NUL.
        let after = cursor.map(|cursor| [cursor.as_bytes(), b"\0"].concat()).unwrap_or_default();
        // No byte of UTF-8 is 0xff. So this bound sorts after all keys with the prefix, and before
        // all keys that follow them.
        let to = [prefix.as_bytes(), b"\xff"].concat();
        Self { from: after.max(prefix.as_bytes().to_vec()), to }
    }
}

const SELECT: &str = "SELECT value, version FROM kv_entry \
                      WHERE store = (SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder = ?3) AND key = ?4 \
                      AND (expires IS NULL OR expires > ?5)";

pub(super) fn get(
    connection: &Connection,
    id: &Id,
    key: &str,
    now: i64,
) -> rusqlite::Result<Option<Entry>> {
    connection
        .query_row(SELECT, params![id.plugin, id.name, id.holder, key.as_bytes(), now], |row| {
            Ok(Entry { value: row.get(0)?, version: unsigned(row.get(1)?) })
        })
        .optional()
}

/// Reads entries in one transaction. A value that would exceed `max_bytes` together with those
/// before it is not copied.
pub(super) fn get_many(
    connection: &Connection,
    id: &Id,
    keys: &[String],
    now: i64,
    max_bytes: usize,
) -> rusqlite::Result<Result<Vec<Option<Entry>>, KvError>> {
    // Reads only, so dropping it without a commit loses nothing.
    let transaction = connection.unchecked_transaction()?;
    let mut select = transaction.prepare(SELECT)?;
    let mut entries = Vec::with_capacity(keys.len());
    let mut left = max_bytes;
    for key in keys {
        let mut rows = select.query(params![id.plugin, id.name, id.holder, key.as_bytes(), now])?;
        let Some(row) = rows.next()? else {
            entries.push(None);
            continue;
        };
        let Some(rest) = left.checked_sub(row.get_ref(0)?.as_blob()?.len()) else {
            return Ok(Err(KvError::TooLarge));
        };
        left = rest;
        entries.push(Some(Entry { value: row.get(0)?, version: unsigned(row.get(1)?) }));
    }
    Ok(Ok(entries))
}

/// Writes an entry, or returns the reason for a refusal. Expired entries are purged in both cases.
pub(super) fn set(
    transaction: &Transaction<'_>,
    id: &Id,
    change: &SetEntry,
) -> rusqlite::Result<Result<u64, KvError>> {
    let store = find_or_make(transaction, id)?;
    let key = change.key.as_bytes();
    purge(transaction, store, key, change.now)?;
    let select = "SELECT version, cost FROM kv_entry WHERE store = ?1 AND key = ?2";
    let current = transaction
        .query_row(select, params![store, key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (version, cost): (i64, i64) = current.unwrap_or_default();
    if change.if_version.is_some_and(|expected| expected != unsigned(version)) {
        return Ok(Err(KvError::Conflict));
    }
    let grows_by = change.cost() - cost;
    if grows_by > 0 && change.cost() > signed(change.max_bytes) {
        let bytes = unsigned(change.cost());
        return Ok(Err(KvError::LargerThanQuota { bytes, quota: change.max_bytes }));
    }
    if grows_by > 0 && used(transaction, store, change)? + grows_by > signed(change.max_bytes) {
        return Ok(Err(KvError::QuotaExceeded));
    }
    let next = "UPDATE kv_store SET version = version + 1 WHERE id = ?1 RETURNING version";
    let version: i64 = transaction.query_row(next, [store], |row| row.get(0))?;
    let upsert = "INSERT INTO kv_entry (store, key, version, cost, expires, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                  ON CONFLICT (store, key) DO UPDATE SET version = excluded.version, cost = excluded.cost, \
                  expires = excluded.expires, value = excluded.value";
    transaction.execute(
        upsert,
        params![store, key, version, change.cost(), change.expires, change.value],
    )?;
    Ok(Ok(unsigned(version)))
}

impl SetEntry {
    /// Returns the bytes that the entry will count.
    fn cost(&self) -> i64 {
        signed(ENTRY_OVERHEAD_BYTES + (self.key.len() + self.value.len()) as u64)
    }
}

/// Returns the id of a store; `None` if it has no row yet.
fn find(transaction: &Transaction<'_>, id: &Id) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder = ?3";
    let key = params![id.plugin, id.name, id.holder];
    transaction.query_row(select, key, |row| row.get(0)).optional()
}

fn find_or_make(transaction: &Transaction<'_>, id: &Id) -> rusqlite::Result<i64> {
    if let Some(store) = find(transaction, id)? {
        return Ok(store);
    }
    let insert = "INSERT INTO kv_store (plugin, name, holder) VALUES (?1, ?2, ?3) RETURNING id";
    transaction.query_row(insert, params![id.plugin, id.name, id.holder], |row| row.get(0))
}

/// Removes the entry at `key` if it has expired, and up to [`PURGED_AT_ONCE`] other expired
/// entries.
fn purge(transaction: &Transaction<'_>, store: i64, key: &[u8], now: i64) -> rusqlite::Result<()> {
    transaction.execute(
        "DELETE FROM kv_entry WHERE store = ?1 AND key = ?2 AND expires <= ?3",
        params![store, key, now],
    )?;
    let some = "DELETE FROM kv_entry WHERE id IN (SELECT id FROM kv_entry WHERE store = ?1 AND expires <= ?2 LIMIT ?3)";
    transaction.execute(some, params![store, now, PURGED_AT_ONCE])?;
    Ok(())
}

/// Returns the bytes that a store holds. Expired entries do not count, purged or not. They are
/// summed up only if the change might exceed the quota otherwise.
fn used(transaction: &Transaction<'_>, store: i64, change: &SetEntry) -> rusqlite::Result<i64> {
    let held: i64 =
        transaction
            .query_row("SELECT bytes FROM kv_store WHERE id = ?1", [store], |row| row.get(0))?;
    if held.saturating_add(change.cost()) <= signed(change.max_bytes) {
        return Ok(held);
    }
    let expired = "SELECT coalesce(sum(cost), 0) FROM kv_entry WHERE store = ?1 AND expires <= ?2";
    let expired: i64 =
        transaction.query_row(expired, params![store, change.now], |row| row.get(0))?;
    Ok(held - expired)
}

/// Deletes an entry and returns whether there was one, or returns the reason for a refusal. Expired
/// entries are purged in both cases.
pub(super) fn delete(
    transaction: &Transaction<'_>,
    id: &Id,
    key: &str,
    if_version: Option<u64>,
    now: i64,
) -> rusqlite::Result<Result<bool, KvError>> {
    let key = key.as_bytes();
    let Some(store) = find(transaction, id)? else {
        return Ok(if is_met(if_version, 0) { Ok(false) } else { Err(KvError::Conflict) });
    };
    purge(transaction, store, key, now)?;
    let select = "SELECT version FROM kv_entry WHERE store = ?1 AND key = ?2";
    let version =
        transaction.query_row(select, params![store, key], |row| row.get(0)).optional()?;
    if !is_met(if_version, version.unwrap_or_default()) {
        return Ok(Err(KvError::Conflict));
    }
    let delete = "DELETE FROM kv_entry WHERE store = ?1 AND key = ?2";
    Ok(Ok(transaction.execute(delete, params![store, key])? == 1))
}

fn is_met(if_version: Option<u64>, version: i64) -> bool {
    if_version.is_none_or(|expected| expected == unsigned(version))
}

pub(super) fn keys(
    connection: &Connection,
    id: &Id,
    range: &Range,
    now: i64,
    limit: usize,
) -> rusqlite::Result<Page> {
    let select = "SELECT key, expires FROM kv_entry \
                  WHERE store = (SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder = ?3) \
                  AND key >= ?4 AND key < ?5 \
                  ORDER BY key";
    let mut select = connection.prepare(select)?;
    let mut rows = select.query(params![id.plugin, id.name, id.holder, range.from, range.to])?;
    let mut page = Page::default();
    let mut last = None;
    for looked_at in 0.. {
        let Some(row) = rows.next()? else { break };
        if page.keys.len() == limit || looked_at == LOOKED_AT {
            page.next = last;
            break;
        }
        let key = text(row.get(0)?);
        if row.get::<_, Option<i64>>(1)?.is_none_or(|expires| expires > now) {
            page.keys.push(key.clone());
        }
        last = Some(key);
    }
    Ok(page)
}

pub(super) fn usage(connection: &Connection, now: i64) -> rusqlite::Result<Vec<Usage>> {
    let select = "SELECT s.plugin, s.name, s.holder, s.bytes - coalesce(sum(e.cost), 0), s.entries - count(e.cost) \
                  FROM kv_store s LEFT JOIN kv_entry e ON e.store = s.id AND e.expires <= ?1 \
                  GROUP BY s.id ORDER BY s.plugin, s.name, s.holder";
    read_usage(connection, select, now)
}

/// Reads the usage of stores from before version 8, in which all tenants had one store.
pub(super) fn usage_without_holders(
    connection: &Connection,
    now: i64,
) -> rusqlite::Result<Vec<Usage>> {
    let select = "SELECT s.plugin, s.name, NULL, s.bytes - coalesce(sum(e.cost), 0), s.entries - count(e.cost) \
                  FROM kv_store s LEFT JOIN kv_entry e ON e.store = s.id AND e.expires <= ?1 \
                  GROUP BY s.id ORDER BY s.plugin, s.name";
    read_usage(connection, select, now)
}

fn read_usage(connection: &Connection, select: &str, now: i64) -> rusqlite::Result<Vec<Usage>> {
    connection.prepare(select)?.query_map([now], usage_of_row)?.collect()
}

fn usage_of_row(row: &Row<'_>) -> rusqlite::Result<Usage> {
    let bytes = unsigned(row.get(3)?);
    let entries = unsigned(row.get(4)?);
    let holder = row.get::<_, Option<Vec<u8>>>(2)?;
    let holder = holder.map_or(Holder::Unassigned, |holder| Holder::from_column(&holder));
    Ok(Usage { plugin: row.get(0)?, name: row.get(1)?, holder, bytes, entries })
}

/// Moves a store to another holder, or deletes it. Returns false if there is no such store.
pub(super) fn transfer(
    transaction: &Transaction<'_>,
    id: &Id,
    to: Option<&Id>,
) -> rusqlite::Result<Result<bool, TransferError>> {
    let select = "SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder IS ?3";
    let key = params![id.plugin, id.name, id.holder];
    let store = transaction.query_row(select, key, |row| row.get::<_, i64>(0)).optional()?;
    let Some(store) = store else { return Ok(Ok(false)) };
    let Some(to) = to else {
        transaction.execute("DELETE FROM kv_store WHERE id = ?1", [store])?;
        return Ok(Ok(true));
    };
    if let Some(taken) = find(transaction, to)? {
        let select = "SELECT entries FROM kv_store WHERE id = ?1";
        let entries = unsigned(transaction.query_row(select, [taken], |row| row.get(0))?);
        if entries > 0 {
            return Ok(Err(TransferError::Occupied { entries }));
        }
        transaction.execute("DELETE FROM kv_store WHERE id = ?1", [taken])?;
    }
    transaction
        .execute("UPDATE kv_store SET holder = ?2 WHERE id = ?1", params![store, to.holder])?;
    Ok(Ok(true))
}

/// Converts a key back to the text that was written.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
