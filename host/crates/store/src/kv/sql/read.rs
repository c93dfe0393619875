//! Reads of the stores.

use std::{collections::HashMap, ops::ControlFlow};

use crate::kv::{Entry, Holder, Id, KvError, Page, StoreUsage};
use airlock_database::{
    columns::unsigned,
    sql::{Param, Row, Sql, SqlResult, params},
};

/// Most entries that one page examines. So a reader does not scan a whole store in which every
/// entry has expired.
const LOOKED_AT: usize = 10_000;
/// Most entries that one statement of a page reads, beyond the keys that the page has room for.
const EXAMINED_AT_ONCE: usize = 1_000;
/// Keys of one statement that reads several entries.
const KEYS_AT_ONCE: usize = 16;

/// Keys from the first bound, inclusive, to the second, exclusive.
pub(in crate::kv) struct Range {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Range {
    /// Returns the range of keys that begin with `prefix` and come after `cursor`.
    pub(in crate::kv) fn new(prefix: &str, cursor: Option<&str>) -> Self {
        let after = cursor.map(|cursor| after(cursor.as_bytes())).unwrap_or_default();
        // No byte of UTF-8 is 0xff. So this bound sorts after all keys with the prefix, and before
        // all keys that follow them.
        let to = [prefix.as_bytes(), b"\xff"].concat();
        Self { from: after.max(prefix.as_bytes().to_vec()), to }
    }
}

/// Returns the first key that can follow a key: none sorts between a key and that key followed by a
/// NUL.
fn after(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}

pub(in crate::kv) fn get(sql: &Sql<'_>, id: &Id, key: &str) -> SqlResult<Option<Entry>> {
    let select = "SELECT value, version FROM kv_entry \
                  WHERE store = (SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder = ?3) \
                  AND key = ?4 AND (expires IS NULL OR expires > ?5)";
    let values = params![&id.plugin, &id.name, id.holder.as_ref(), key.as_bytes(), sql.now()];
    sql.find(select, values, |row| Ok(Entry { value: row.get(0)?, version: unsigned(row.get(1)?) }))
}

/// Reads entries in one transaction. A value that would exceed `max_bytes` together with the others
/// is not copied.
pub(in crate::kv) fn get_many(
    sql: &Sql<'_>,
    id: &Id,
    keys: &[String],
    max_bytes: usize,
) -> SqlResult<Result<Vec<Option<Entry>>, KvError>> {
    let mut wanted = KeysToRead { entries: vec![None; keys.len()], left: max_bytes };
    for (chunk, start) in keys.chunks(KEYS_AT_ONCE).zip((0..).step_by(KEYS_AT_ONCE)) {
        if !wanted.read(sql, id, chunk, start)? {
            return Ok(Err(KvError::TooLarge));
        }
    }
    Ok(Ok(wanted.entries))
}

/// Entries that are read, in the order of their keys, and the bytes that their values may still have.
struct KeysToRead {
    entries: Vec<Option<Entry>>,
    left: usize,
}

impl KeysToRead {
    /// Reads some of the keys, of which the first one is at `start`. Returns false if their values have
    /// too many bytes.
    fn read(&mut self, sql: &Sql<'_>, id: &Id, keys: &[String], start: usize) -> SqlResult<bool> {
        let mut positions: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (key, position) in keys.iter().zip(start..) {
            positions.entry(key.as_bytes()).or_default().push(position);
        }
        let select = "SELECT key, value, version FROM kv_entry \
                      WHERE store = (SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder = ?3) \
                      AND (expires IS NULL OR expires > ?4) AND key IN (?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
                      ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";
        let mut values = params![&id.plugin, &id.name, id.holder.as_ref(), sql.now()].to_vec();
        values.extend(keys.iter().map(|key| Param::from(key.as_bytes())));
        // No entry has an empty key.
        values.resize(4 + KEYS_AT_ONCE, Param::Bytes(b""));
        let exceeded = sql.each(select, &values, |row| {
            let places = positions.get(row.get::<&[u8]>(0)?).map_or(&[][..], Vec::as_slice);
            let bytes = row.get::<&[u8]>(1)?.len().saturating_mul(places.len());
            let Some(left) = self.left.checked_sub(bytes) else {
                return Ok(ControlFlow::Break(()));
            };
            self.left = left;
            for place in places {
                let entry = Entry { value: row.get(1)?, version: unsigned(row.get(2)?) };
                self.entries[*place] = Some(entry);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(exceeded.is_none())
    }
}

/// Reads a page of keys. A few rows are read at a time, because a server sends all rows of a
/// statement, and most pages have few entries that have expired.
pub(in crate::kv) fn keys(sql: &Sql<'_>, id: &Id, mut range: Range, limit: u32) -> SqlResult<Page> {
    let limit = limit as usize;
    let mut page = Page::default();
    let mut looked_at = 0;
    loop {
        let missing = limit - page.keys.len();
        let examined = (missing + 1).max(EXAMINED_AT_ONCE.min(looked_at));
        let rows = key_rows(sql, id, &range, examined)?;
        let is_end = rows.len() < examined;
        for (key, is_present) in rows {
            if page.keys.len() == limit || looked_at == LOOKED_AT {
                return Ok(page);
            }
            range.from = after(&key);
            looked_at += 1;
            let key = text(key);
            page.next = Some(key.clone());
            page.keys.extend(is_present.then_some(key));
        }
        if is_end {
            page.next = None;
            return Ok(page);
        }
    }
}

/// Reads keys, with whether they have not expired.
fn key_rows(
    sql: &Sql<'_>,
    id: &Id,
    range: &Range,
    limit: usize,
) -> SqlResult<Vec<(Vec<u8>, bool)>> {
    let select = "SELECT key, expires IS NULL OR expires > ?6 FROM kv_entry \
                  WHERE store = (SELECT id FROM kv_store WHERE plugin = ?1 AND name = ?2 AND holder = ?3) \
                  AND key >= ?4 AND key < ?5 ORDER BY key LIMIT ?7";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values =
        params![&id.plugin, &id.name, id.holder.as_ref(), &range.from, &range.to, sql.now(), limit];
    sql.all(select, values, |row| Ok((row.get(0)?, row.get(1)?)))
}

pub(in crate::kv) fn usage(sql: &Sql<'_>) -> SqlResult<Vec<StoreUsage>> {
    // A store without a holder is the first of its name: in PostgreSQL, NULL sorts last.
    let select = "SELECT s.plugin, s.name, s.holder, s.bytes - CAST(coalesce(sum(e.cost), 0) AS BIGINT), \
                  s.entries - count(e.cost) \
                  FROM kv_store s LEFT JOIN kv_entry e ON e.store = s.id AND e.expires <= ?1 \
                  GROUP BY s.id ORDER BY s.plugin, s.name, s.holder IS NOT NULL, s.holder";
    sql.all(select, params![sql.now()], usage_of_row)
}

/// Reads the usage of stores from before version 8, in which all tenants had one store.
pub(in crate::kv) fn usage_without_holders(sql: &Sql<'_>) -> SqlResult<Vec<StoreUsage>> {
    let select = "SELECT s.plugin, s.name, NULL, s.bytes - coalesce(sum(e.cost), 0), s.entries - count(e.cost) \
                  FROM kv_store s LEFT JOIN kv_entry e ON e.store = s.id AND e.expires <= ?1 \
                  GROUP BY s.id ORDER BY s.plugin, s.name";
    sql.all(select, params![sql.now()], usage_of_row)
}

fn usage_of_row(row: &Row<'_>) -> SqlResult<StoreUsage> {
    let bytes = unsigned(row.get(3)?);
    let entries = unsigned(row.get(4)?);
    let holder = row.get::<Option<&[u8]>>(2)?.map_or(Holder::Unassigned, Holder::from_column);
    Ok(StoreUsage { plugin: row.get(0)?, name: row.get(1)?, holder, bytes, entries })
}

/// Converts a key back to the text that was written.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
